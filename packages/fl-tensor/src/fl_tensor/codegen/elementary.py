"""The elementary functions that are instructions."""

from __future__ import annotations

from collections.abc import Callable

from fl_tensor.codegen import maths
from fl_tensor.codegen.num import Num
from fl_tensor.codegen.powers import power
from fl_tensor.codegen.vectors import IR, Vectors

FUNCTIONS: dict[str, Callable[..., Num]] = {
    "exp": maths.exp,
    "expm1": maths.expm1,
    "log": maths.log,
    "log1p": maths.log1p,
    "sigmoid": maths.sigmoid,
    "tanh": maths.tanh,
    "erf": maths.erf,
    "sin": maths.sin,
    "cos": maths.cos,
    "rsqrt": maths.rsqrt,
    "atan2": maths.atan2,
    "power": power,
}


def apply(of: Vectors, name: str, *operands: IR) -> IR:
    """The function of that name of vectors."""
    return FUNCTIONS[name](*(Num(of, x) for x in operands)).value
