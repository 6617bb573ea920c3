"""New arrays, and functions of each element."""

from __future__ import annotations

from typing import Any

from fuzzing.draws import Draw
from fuzzing.operations.registry import Values, pick, step
from fuzzing.step import Step

EXACT = "absolute negative sign floor ceil round square sqrt"
ROUNDED = "exp expm1 log log1p exp2 log2 log10 sin cos tan asin acos atan"
HYPERBOLIC = "sinh cosh tanh asinh acosh atanh"
TESTS = "isnan isinf isfinite logical_not"
ARITHMETIC = ("add", "subtract", "multiply", "floor_divide", "remainder", "power")
ORDERED = "maximum minimum equal not_equal less less_equal greater greater_equal".split()
BITS = ("bitwise_and", "bitwise_or", "bitwise_xor")
SHIFTS = ("bitwise_left_shift", "bitwise_right_shift")
OPERATORS = {
    **dict(zip("+ - * // % **".split(), "NNNNNN")),
    **dict(zip("/ == != < <= > >=".split(), "FPPPPPP")),
    **dict(zip("& | ^ << >>".split(), "IIIZZ")),
}


@step(2)
def new(draw: Draw, values: Values) -> Step:
    return Step(draw.array())


@step(2)
def unary(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "iufc")
    name = draw.one(EXACT.split())
    role = "F" if name == "sqrt" else "N"
    return Step(f"ft.{name}({x})", role=role, operands=(x,))


@step(2)
def function(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "fiuc")
    return Step(
        f"ft.{draw.one((ROUNDED + ' ' + HYPERBOLIC).split())}({x})", role="F", operands=(x,)
    )


@step(1)
def test(draw: Draw, values: Values) -> Step:
    return Step(f"ft.{draw.one(TESTS.split())}({pick(draw, values)})")


@step(1)
def prefix(draw: Draw, values: Values) -> Step:
    sign = draw.one("-~+")
    x = pick(draw, values, "biu" if sign == "~" else "iufc")
    return Step(
        f"{sign}{x}", role="I" if sign == "~" else "N" if sign == "-" else "", operands=(x,)
    )


def operands(draw: Draw, values: Values, kinds: str) -> tuple[Any, ...]:
    """Two, of which at least one is the name of a value; they mostly broadcast."""
    x = pick(draw, values, kinds)
    form = draw.one(("value", "fitting", "fitting", "scalar"))
    y: Any = pick(draw, values, kinds)
    if form == "fitting":
        fitting = [n for n, v in values.items() if v.shape == values[x].shape]
        y = draw.one(fitting)
    elif form == "scalar":
        y = draw.scalar()
    return (y, x) if draw.chance(30) else (x, y)


@step(4)
def operator(draw: Draw, values: Values) -> Step:
    sign, role = draw.one(sorted(OPERATORS.items()))
    x, y = operands(draw, values, {"I": "biu", "P": "biufc"}.get(role, "iufc"))
    return Step(f"({x}) {sign} ({y})", role=role, operands=(x, y))


@step(3)
def binary(draw: Draw, values: Values) -> Step:
    names, role = draw.one(
        (
            (ARITHMETIC, "N"),
            (ORDERED, "P"),
            (BITS, "I"),
            (SHIFTS, "Z"),
            (("divide", "atan2", "hypot"), "F"),
        )
    )
    x, y = operands(draw, values, {"I": "biu", "P": "biufc"}.get(role, "iufc"))
    return Step(f"ft.{draw.one(names)}({x}, {y})", role=role, operands=(x, y))


@step(1)
def logical(draw: Draw, values: Values) -> Step:
    x, y = pick(draw, values), pick(draw, values)
    return Step(f"ft.{draw.one(('logical_and', 'logical_or', 'logical_xor'))}({x}, {y})")


@step(3)
def partner(draw: Draw, values: Values) -> Step:
    """A new array that broadcasts with one that is there."""
    x = values[pick(draw, values)]
    return Step(draw.array(draw.partner(x.shape), x.dtype.name if draw.chance(50) else None))


@step(1)
def where(draw: Draw, values: Values) -> Step:
    c = pick(draw, values, "b")
    x, y = operands(draw, values, "biufc")
    return Step(f"ft.where({c}, {x}, {y})", role="P", operands=(x, y))


@step(1)
def clip(draw: Draw, values: Values) -> Step:
    x, low = sorted(operands(draw, values, "iufc"), key=lambda o: not isinstance(o, str))
    high = draw.one((None, *operands(draw, values, "iufc")))
    found = tuple(o for o in (x, low, high) if o is not None)
    return Step(f"ft.clip({x}, {low}, {high})", role="P", operands=found)


@step(2)
def astype(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    return Step(f"{x}.astype({draw.dtype()!r})", operands=(x,))
