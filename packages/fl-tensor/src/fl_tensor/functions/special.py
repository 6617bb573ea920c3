"""Special functions in the argument order of SciPy and PyTorch."""

from __future__ import annotations

import math
from typing import Any

from fl_tensor import arguments, functions
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of, run
from fl_tensor.functions.elementwise import where

__all__ = ["polygamma", "xlogy"]


def polygamma(n: int, x: ArrayLike) -> Any:
    """The derivative of ``digamma`` of order ``n``, 0 <= n <= 60, at ``x``; at the negative
    integers infinite (odd ``n``) or NaN. For x > 0 the relative error is below 10 epsilons where
    the result is no subnormal number. Below 0 parts of the result overflow from order 20 on in
    float32. Raises ArgumentError for another order, the gradient by ``x`` for n = 60."""
    x = operand("polygamma", "S", x)
    return run("polygamma", x, x._raw, arguments.int_of("polygamma", n, "n"))


def xlogy(x: ArrayLike, y: ArrayLike) -> Any:
    """``x * log(y)``, and 0 where ``x`` is 0 and ``y`` is no NaN. Both broadcast. The gradient by
    ``x`` is ``log(y)``, but 0 where ``x`` is 0 and the logarithm is no number."""
    x, y = operands_of("xlogy", "SS", x, y)
    plain = functions.logical_and(y > 0, y < math.inf)
    absent = functions.logical_and(x == 0, functions.logical_not(plain))
    absent = functions.logical_and(absent, functions.logical_not(functions.isnan(y)))
    return x * functions.log(where(absent, 1.0, y))
