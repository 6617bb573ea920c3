"""Elementary functions that are instructions of a program."""

from __future__ import annotations

from collections.abc import Callable

from fl_jit.kernels.codegen import libm
from fl_jit.kernels.codegen.powers import power
from fl_jit.kernels.codegen.vector_ops import Num
from fl_jit.kernels.codegen.vectors import IR, Vectors

FUNCTIONS: dict[str, Callable[..., Num]] = {
    "exp": libm.exp,
    "expm1": libm.expm1,
    "log": libm.log,
    "log1p": libm.log1p,
    "sigmoid": libm.sigmoid,
    "tanh": libm.tanh,
    "erf": libm.erf,
    "sin": libm.sin,
    "cos": libm.cos,
    "rsqrt": libm.rsqrt,
    "atan2": libm.atan2,
    "power": power,
}


def apply(of: Vectors, name: str, *operands: IR) -> IR:
    """The function ``name`` of vectors."""
    return FUNCTIONS[name](*(Num(of, x) for x in operands)).value
