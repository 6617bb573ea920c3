"""Rules of the elementwise primitives."""

from __future__ import annotations

import math
from typing import Any

from fl_autograd.rules.table import passed_on, rule
from fl_tensor.dtypes import DType

# ---- one operand -----------------------------------------------------------------------------


def _tanh(ops: Any, g: Any, out: Any) -> Any:
    return ops.multiply(g, ops.subtract(ops.constant(1.0, out), ops.multiply(out, out)))


def _erf(ops: Any, g: Any, x: Any) -> Any:
    density = ops.exp(ops.negative(ops.multiply(x, x)))
    return ops.multiply(g, ops.multiply(density, ops.constant(2.0 / math.sqrt(math.pi), x)))


def _expm1(ops: Any, g: Any, out: Any) -> Any:
    return ops.multiply(g, ops.add(out, ops.constant(1.0, out)))


def _log1p(ops: Any, g: Any, x: Any) -> Any:
    return ops.divide(g, ops.add(x, ops.constant(1.0, x)))


def _sqrt(ops: Any, g: Any, out: Any) -> Any:
    return ops.divide(ops.multiply(g, ops.constant(0.5, g)), out)


def _cast(ops: Any, g: Any, x_dtype: DType) -> Any:
    if g.dtype.kind == "c" and x_dtype.kind != "c":
        g = ops.real(g)
    return ops.cast(g, x_dtype)


rule("negative", x=lambda ops, g: ops.negative(g))
rule("exp", x=lambda ops, g, out: ops.multiply(g, out))
rule("expm1", x=_expm1)
rule("log", x=lambda ops, g, x: ops.divide(g, x))
rule("log1p", x=_log1p)
rule("sqrt", x=_sqrt)
rule("sin", x=lambda ops, g, x: ops.multiply(g, ops.cos(x)))
rule("cos", x=lambda ops, g, x: ops.negative(ops.multiply(g, ops.sin(x))))
rule("tanh", x=_tanh)
rule("erf", x=_erf)
rule("cast", x=_cast)

# ---- two operands: the engine sums over what was broadcast ---------------------------------------


def _divide_y(ops: Any, g: Any, out: Any, y: Any) -> Any:
    return ops.negative(ops.divide(ops.multiply(g, out), y))


def _remainder_y(ops: Any, g: Any, x: Any, y: Any) -> Any:
    return ops.negative(ops.multiply(g, ops.floor_divide(x, y)))


def _power_x(ops: Any, g: Any, x: Any, y: Any) -> Any:
    # y x^(y - 1), and 0 for y = 0 even at x = 0: the exponent is kept away from 0^-1.
    one = ops.constant(1.0, y)
    exponent = ops.subtract(ops.where(ops.equal(y, ops.constant(0.0, y)), one, y), one)
    return ops.multiply(g, ops.multiply(y, ops.power(x, exponent)))


def _power_y(ops: Any, g: Any, out: Any, x: Any) -> Any:
    # out log(x), and 0 at x = 0, where 0^y is flat for y > 0.
    base = ops.where(ops.equal(x, ops.constant(0.0, x)), ops.constant(1.0, x), x)
    return ops.multiply(g, ops.multiply(out, ops.log(base)))


def _squared_radius(ops: Any, x: Any, y: Any) -> Any:
    return ops.add(ops.multiply(x, x), ops.multiply(y, y))


def _atan2_x(ops: Any, g: Any, x: Any, y: Any) -> Any:
    return ops.divide(ops.multiply(g, y), _squared_radius(ops, x, y))


def _atan2_y(ops: Any, g: Any, x: Any, y: Any) -> Any:
    return ops.negative(ops.divide(ops.multiply(g, x), _squared_radius(ops, x, y)))


def _winner(ops: Any, g: Any, loses: Any, ties: Any) -> Any:
    # All of g to the winner, half to each in a tie.
    half = ops.multiply(g, ops.constant(0.5, g))
    return ops.where(loses, ops.constant(0.0, g), ops.where(ties, half, g))


def _larger(ops: Any, g: Any, mine: Any, other: Any) -> Any:
    return _winner(ops, g, ops.less(mine, other), ops.equal(mine, other))


def _smaller(ops: Any, g: Any, mine: Any, other: Any) -> Any:
    return _winner(ops, g, ops.less(other, mine), ops.equal(mine, other))


rule("add", x=passed_on, y=passed_on)
rule("subtract", x=passed_on, y=lambda ops, g: ops.negative(g))
rule("multiply", x=lambda ops, g, y: ops.multiply(g, y), y=lambda ops, g, x: ops.multiply(g, x))
rule("divide", x=lambda ops, g, y: ops.divide(g, y), y=_divide_y)
rule("remainder", x=passed_on, y=_remainder_y)
rule("power", x=_power_x, y=_power_y)
rule("atan2", x=_atan2_x, y=_atan2_y)
rule(
    "maximum",
    x=lambda ops, g, x, y: _larger(ops, g, x, y),
    y=lambda ops, g, x, y: _larger(ops, g, y, x),
)
rule(
    "minimum",
    x=lambda ops, g, x, y: _smaller(ops, g, x, y),
    y=lambda ops, g, x, y: _smaller(ops, g, y, x),
)
rule(
    "where",
    x=lambda ops, g, condition: ops.where(condition, g, ops.constant(0.0, g)),
    y=lambda ops, g, condition: ops.where(condition, ops.constant(0.0, g), g),
)
