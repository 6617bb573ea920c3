"""How deferred execution computes the operations."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from fl_jit import api
from fl_jit.kernels.codegen.program import Builder


def swiglu(b: Builder, x: int, gate: int) -> int:
    """One element of ``swiglu``."""
    return b("multiply", x, b("multiply", gate, b("sigmoid", gate)))


def rms_norm(request: api.Request) -> Callable[..., object] | None:
    """A kernel for rows of this length, in one go over memory; float32 and float64 alone."""
    (x,) = request.operands
    if x.dtype.itemsize < 4:
        return None

    def build(b: Builder, value: int, eps: float) -> int:
        total = b.reduce("sum", b("multiply", value, value))
        mean = b("divide", total, b.constant(float(x.shape[-1]), x.dtype))
        return b("multiply", value, b("rsqrt", b("add", mean, b.constant(eps, x.dtype))))

    return api.program(build)(request)


def concatenate(request: api.Request) -> Callable[..., object] | None:
    """Arrays in C order, one after the other along the first axis: bytes that are copied."""
    if request.parameters["axis"] != 0 or not all(map(_is_in_c_order, request.operands)):
        return None
    sizes = [x.nbytes for x in request.operands]

    def run(*addresses: int) -> None:
        *sources, target = addresses
        for source, size in zip(sources, sizes):
            ctypes.memmove(target, source, size)
            target += size

    return run


def _is_in_c_order(x: api.Layout) -> bool:
    step = 1
    for size, stride in zip(reversed(x.shape), reversed(x.strides or ())):
        if size != 1 and stride != step:
            return False
        step *= size
    return True
