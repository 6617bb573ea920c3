"""GEMM: the library's BLAS call, its matmul, and its matmul on packed weights.

None of the three is always the fastest. A plain matmul drops to a third of the speed for some
shapes; the BLAS call does for few rows. ``fl-jit tune`` measures them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from fl_jit.kernels import Kernel, Layout, Matmul, Placement, UnsupportedError, row_major
from fl_tensor.dtypes import float32
from onednn_kernels import primitives
from onednn_kernels.binding import Binding
from onednn_kernels.forks import check_process
from onednn_kernels.memory_descriptors import Shape, attributes, describe
from onednn_kernels.primitives import Operand, Primitive

#: Up to so many rows the library's matmul is usually faster than its BLAS call.
_FEW_ROWS = 64


class Sgemm:
    """``dnnl_sgemm``: two-dimensional float32 operands, optional transposes and accumulation."""

    __slots__ = (
        "_binding",
        "_order",
        "_rest",
        "_swap",
        "_threads",
        "about",
        "operands",
    )

    def __init__(self, binding: Binding, descriptor: Matmul) -> None:
        x, y, out = map(_plain, (descriptor.x, descriptor.y, descriptor.out))
        self._swap = not _rows(out)  # a column-major result: (x y)^T = y^T x^T
        if self._swap:
            x, y, out = _transposed(y), _transposed(x), _transposed(out)
        m, k = x.shape
        n = y.shape[1]
        a, b, c = _leading(x), _leading(y), _leading(out)
        if c[0] != b"N":
            raise UnsupportedError(f"dnnl_sgemm writes rows or columns, not {descriptor.out}")
        self._order = (a[0], b[0], m, n, k, 1.0)
        self._rest = (a[1], b[1], 1.0 if descriptor.accumulate else 0.0, c[1])
        self._binding = binding
        self._threads = binding.used_threads()
        self.operands: tuple[Placement, ...] = (descriptor.x, descriptor.y, descriptor.out)
        self.about = "sgemm"

    def __call__(self, *addresses: int) -> None:
        check_process()
        x, y, out = addresses
        if self._swap:
            x, y = y, x
        ld_x, ld_y, beta, ld_out = self._rest
        binding = self._binding
        binding.use_threads(self._threads)
        status = binding.c.dnnl_sgemm(*self._order, x, ld_x, y, ld_y, beta, out, ld_out)
        if status:
            binding.check("dnnl_sgemm", status)


def _plain(given: Placement) -> Layout:
    if not isinstance(given, Layout) or given.strides is None or given.dtype is not float32:
        raise UnsupportedError(f"dnnl_sgemm takes float32 by strides, not {given}")
    if len(given.shape) != 2 or 0 in given.shape:
        raise UnsupportedError(f"dnnl_sgemm takes two axes with elements, not {given.shape}")
    return given


def _rows(x: Layout) -> bool:
    assert x.strides is not None
    return x.strides[1] == 1 or x.shape[1] == 1


def _transposed(x: Layout) -> Layout:
    assert x.strides is not None
    return Layout(x.dtype, x.shape[::-1], x.strides[::-1])


def _leading(x: Layout) -> tuple[bytes, int]:
    # (b"N" for contiguous rows or b"T" for contiguous columns, the leading dimension)
    assert x.strides is not None
    (m, n), (down, along) = x.shape, x.strides
    if (along == 1 or n == 1) and (down >= n or m == 1):
        return b"N", max(down, n) if m > 1 else n
    if (down == 1 or m == 1) and (along >= m or n == 1):
        return b"T", max(along, m) if n > 1 else m
    raise UnsupportedError(f"dnnl_sgemm takes contiguous rows or columns, not {x}")


def _matmul(binding: Binding, descriptor: Matmul, packed: bool) -> primitives.Plan:
    x, out = describe(binding, descriptor.x), describe(binding, descriptor.out)
    y = describe(binding, descriptor.y, free=packed)
    attribute = attributes(binding, descriptor.accumulate)
    made = binding.create(
        *("dnnl_matmul_primitive_desc_create", binding.engine, x, y, None, out, attribute),
        destroy="dnnl_primitive_desc_destroy",
    )
    operands = [
        Operand(primitives.SRC, descriptor.x),
        Operand(primitives.WEIGHTS, descriptor.y),
        Operand(primitives.DST, descriptor.out, output=True),
    ]
    return primitives.assemble(Primitive(binding, made), operands)


def candidates(binding: Binding, descriptor: Matmul) -> dict[str, Callable[[], Kernel]]:
    """The kernels for a descriptor; the one that is usually the fastest comes first."""
    m = descriptor.out.shape[-2]
    factories: dict[str, Callable[[], Kernel]] = {
        "matmul": lambda: _matmul(binding, descriptor, packed=False),
        "sgemm": lambda: Sgemm(binding, descriptor),
        "packed": lambda: _matmul(binding, descriptor, packed=True),
    }
    if len(descriptor.out.shape) > 2:
        del factories["sgemm"]
        if math.prod(descriptor.y.shape[:-2]) > 1:
            del factories["packed"]  # B differs per GEMM: packing would cost more than it saves
    elif m > _FEW_ROWS:
        factories = {name: factories[name] for name in ("sgemm", "matmul", "packed")}
    if m <= _FEW_ROWS:
        factories.pop("packed", None)  # would read and store all weights twice for little work
    return factories


def key(descriptor: Matmul) -> str:
    """The descriptor as text: the key of a decision."""
    m, n = descriptor.out.shape[-2:]
    k = descriptor.x.shape[-1]
    batch = "x".join(map(str, descriptor.out.shape[:-2]))
    more = ["accumulate"] if descriptor.accumulate else []
    places = " ".join(_order(p) for p in (descriptor.x, descriptor.y, descriptor.out))
    what = f"{batch}x{m}x{k}x{n}".lstrip("x")
    return " ".join(["matmul", str(descriptor.out.dtype), what, places, *more])


def _order(given: Placement) -> str:
    if not isinstance(given, Layout) or given.strides is None:
        return "any"
    if given == row_major(given.dtype, given.shape):
        return "rows"
    return "x".join(map(str, _significant(given.shape, given.strides)))


def _significant(shape: Shape, strides: Shape) -> Shape:
    return tuple(0 if n == 1 else s for n, s in zip(shape, strides, strict=True))
