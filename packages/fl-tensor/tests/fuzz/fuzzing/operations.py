"""The steps that a program may take."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from fuzzing import indices
from fuzzing.draws import Draw
from fuzzing.step import Step, theirs

Values = dict[str, Any]
#: Given the draws and NumPy's values: the next step.
Builder = Callable[[Draw, Values], Step]
BUILDERS: list[Builder] = []

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


def step(weight: int) -> Callable[[Builder], Builder]:
    def register(builder: Builder) -> Builder:
        BUILDERS.extend([builder] * weight)
        return builder

    return register


def next_step(draw: Draw, values: Values) -> Step:
    if not values or (len(values) < 3 and draw.chance(50)):
        return new(draw, values)
    return draw.one(BUILDERS)(draw, values)


def pick(draw: Draw, values: Values, kinds: str = "biuf") -> str:
    """The name of a value, if possible of those kinds; later ones are likelier."""
    names = [n for n, v in values.items() if v.dtype.kind in kinds] or list(values)
    if draw.chance(5):
        names = list(values)
    return draw.one((*names, names[-1]))


def call(draw: Draw, x: str, name: str, *arguments: str) -> str:
    given = [a for a in arguments if a]
    return f"ft.{name}({', '.join([x, *given])})"


@step(2)
def new(draw: Draw, values: Values) -> Step:
    return Step(draw.array())


# ---- elementwise ------------------------------------------------------------------------------


@step(2)
def unary(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "iuf")
    name = draw.one(EXACT.split())
    role = "F" if name == "sqrt" else "N"
    return Step(f"ft.{name}({x})", role=role, operands=(x,))


@step(2)
def function(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "fiu")
    return Step(
        f"ft.{draw.one((ROUNDED + ' ' + HYPERBOLIC).split())}({x})", role="F", operands=(x,)
    )


@step(1)
def test(draw: Draw, values: Values) -> Step:
    return Step(f"ft.{draw.one(TESTS.split())}({pick(draw, values)})")


@step(1)
def prefix(draw: Draw, values: Values) -> Step:
    sign = draw.one("-~+")
    x = pick(draw, values, "biu" if sign == "~" else "iuf")
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
    x, y = operands(draw, values, {"I": "biu", "P": "biuf"}.get(role, "iuf"))
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
    x, y = operands(draw, values, {"I": "biu", "P": "biuf"}.get(role, "iuf"))
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
    x, y = operands(draw, values, "biuf")
    return Step(f"ft.where({c}, {x}, {y})", role="P", operands=(x, y))


@step(1)
def clip(draw: Draw, values: Values) -> Step:
    x, low = sorted(operands(draw, values, "iuf"), key=lambda o: not isinstance(o, str))
    high = draw.one((None, *operands(draw, values, "iuf")))
    found = tuple(o for o in (x, low, high) if o is not None)
    return Step(f"ft.clip({x}, {low}, {high})", role="P", operands=found)


@step(2)
def astype(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    return Step(f"{x}.astype({draw.dtype()!r})", operands=(x,))


# ---- reductions -------------------------------------------------------------------------------


@step(4)
def reduction(draw: Draw, values: Values) -> Step:
    name = draw.one("sum prod mean var std max min any all".split())
    x = pick(draw, values)
    axis = draw.axes(values[x].ndim)
    arguments = f"axis={axis}, keepdims={draw.chance(40)}"
    line = f"{x}.{name}({arguments})" if draw.chance(40) else f"ft.{name}({x}, {arguments})"
    role = "F" if name in ("mean", "var", "std") else ""
    return Step(line, role=role, operands=(x,), degree=2 if name in ("var", "std") else 1)


@step(1)
def position(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    axis = draw.axis(values[x].ndim)
    return Step(
        f"ft.{draw.one(('argmax', 'argmin'))}({x}, axis={axis}, keepdims={draw.chance(30)})"
    )


@step(1)
def count(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    return Step(f"ft.count_nonzero({x}, axis={draw.axes(values[x].ndim)})")


@step(1)
def cumulative(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "iuf")
    name = draw.one(("cumulative_sum", "cumulative_prod"))
    axis = draw.axis(values[x].ndim)
    return Step(f"ft.{name}({x}, axis={axis})", role="N", operands=(x,), degree=1)


@step(1)
def sort(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    axis = draw.axis(values[x].ndim)
    if draw.chance(50):
        name, more = draw.one((("sort", ""), ("argsort", ", kind='stable'")))
        return Step(f"ft.{name}({x}, axis={axis})", f"np.{name}({x}, axis={axis}{more})")
    return Step(
        f"ft.sort({x}, axis={axis}, descending=True)", f"np.flip(np.sort({x}, axis={axis}), {axis})"
    )


# ---- shape ------------------------------------------------------------------------------------


@step(2)
def reshape(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    size = values[x].size + draw.chance(4)
    shape = list(draw.factors(size))
    if shape and draw.chance(40):
        shape[draw.integer(0, len(shape) - 1)] = -1
    if draw.chance(40):
        return Step(f"{x}.reshape({', '.join(map(str, shape)) or '()'})")
    return Step(f"ft.reshape({x}, {tuple(shape)})")


@step(2)
def reorder(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    rank = values[x].ndim
    order = random.Random(draw.integer(0, 99)).sample(range(rank), rank)
    order = [a - rank if draw.chance(20) else a for a in order]
    if order and draw.chance(4):
        order[0] = draw.axis(rank)
    a, b = draw.axis(rank), draw.axis(rank)
    return Step(
        draw.one(
            (
                f"ft.permute({x}, {tuple(order)})",
                f"{x}.transpose()",
                f"{x}.transpose({', '.join(map(str, order))})",
                f"{x}.mT",
                f"ft.swapaxes({x}, {a}, {b})",
                f"ft.moveaxis({x}, {a}, {b})",
            )
        )
    )


@step(3)
def shape(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    rank = values[x].ndim
    ones = [i for i, n in enumerate(values[x].shape) if n == 1]
    axis = draw.one((None, *(ones or (0,)), *(ones[:1] or (draw.axis(rank),))))
    wide = draw.partner(values[x].shape)
    if draw.chance(80):
        wide = tuple(draw.one((2, 3)) if n == 1 else n for n in values[x].shape)
        wide = (draw.one((1, 2)), *wide) if draw.chance(30) else wide
    repeats = tuple(draw.one((1, 2, 1, 0)) for _ in range(draw.integer(0, rank + 1)))
    return Step(
        draw.one(
            (
                f"ft.squeeze({x}, axis={axis})",
                f"{x}.squeeze({axis})",
                f"ft.expand_dims({x}, axis={draw.axis(rank + 1)})",
                f"ft.flip({x}, axis={draw.axes(rank)})",
                f"ft.roll({x}, {draw.integer(-5, 5)}, axis={draw.axis(rank)})",
                f"ft.tile({x}, {repeats})",
                f"ft.broadcast_to({x}, {wide})",
                f"{x}.flatten()",
                f"{x}.copy()",
                f"ft.asarray({x})",
                f"ft.{draw.one(('tril', 'triu'))}({x}, k={draw.integer(-2, 2)})",
            )
        )
    )


@step(2)
def join(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    alike = [
        n
        for n, v in values.items()
        if v.ndim == values[x].ndim and sum(a != b for a, b in zip(v.shape, values[x].shape)) < 2
    ]
    names = [x, *(draw.one(alike) for _ in range(draw.integer(0, 2)))]
    if draw.chance(5):
        names.append(pick(draw, values))
    rank = values[x].ndim
    axes = (
        [
            i
            for i in range(rank)
            if len({values[n].shape[:i] + values[n].shape[i + 1 :] for n in names}) == 1
        ]
        if all(values[n].ndim == rank for n in names)
        else []
    )
    listed = ", ".join(names)
    if draw.chance(35):
        line = f"ft.stack([{listed}], axis={draw.axis(rank + 1)})"
    else:
        axis = draw.one(axes) if axes and draw.chance(90) else draw.axis(rank)
        line = f"ft.concatenate([{listed}], axis={axis})"
    return Step(line, role="P", operands=tuple(names))


@step(1)
def split(draw: Draw, values: Values) -> Step:
    x = draw.one([n for n, v in values.items() if v.ndim] or [draw.array((2, 3))])
    shape = values[x].shape if x in values else (2, 3)
    rank = len(shape)
    axis = draw.integer(-rank, rank - 1)  # of others NumPy says no more than "tuple index"
    size = shape[axis]
    if draw.chance(50):
        parts = draw.one((1, 2, 3))
        return Step(f"ft.split({x}, {parts}, axis={axis})[{draw.integer(0, parts - 1)}]")
    cut = draw.integer(0, size)
    return Step(
        f"ft.split({x}, [{cut}, {size - cut}], axis={axis})[{(k := draw.integer(0, 1))}]",
        f"np.split({x}, [{cut}], axis={axis})[{k}]",
    )


# ---- products ---------------------------------------------------------------------------------


@step(2)
def matmul(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "iuf")
    inner = values[x].shape[-1:]
    y = draw.one(
        [n for n, v in values.items() if inner and v.ndim and v.shape[-2:][:1] == inner]
        or list(values)
    )
    if draw.chance(30) and values[x].ndim > 1:
        line = f"{x} @ {x}.mT"
        return Step(line, role="N", operands=(x,), degree=2)
    line = f"{x} @ {y}" if draw.chance(50) else f"ft.matmul({x}, {y})"
    return Step(line, role="N", operands=(x, y), degree=2)


# ---- indexing ---------------------------------------------------------------------------------


@step(10)
def getitem(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    if draw.chance(8):
        return Step(f"{x}[{pick(draw, values, 'biu')}]")
    if draw.chance(8):
        return Step(f"{x}[{x} {draw.one(('>', '!=', '<='))} {draw.one((0, 1))}]")
    return Step(f"{x}[{indices.index(draw, values[x].shape)}]")


@step(10)
def setitem(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    where = indices.index(draw, values[x].shape)
    if draw.chance(12):
        where = f"{x} {draw.one(('>', '!=', '<='))} {draw.one((0, 1))}"
    place = theirs(f"{x}[{where}]", values).value
    found = draw.one(("scalar", "array", "value", "self", "more"))
    value: Any = pick(draw, values)
    if found == "scalar" or place is None or not place.ndim:
        value = draw.scalar()
    elif found == "array":
        fitting = draw.partner(place.shape)
        while len(fitting) > place.ndim and draw.chance(90):
            fitting = fitting[1:]
        value = draw.array(fitting, values[x].dtype.name if draw.chance(60) else None)
    elif found == "self":
        value = f"{x}[{indices.index(draw, values[x].shape)}]"
    elif found == "more":
        by = draw.one((1, 2, 3))
        sign = draw.one("+-*")
        return Step(f"{x}[{where}] {sign}= {by}", f"{x}[{where}] = {x}[{where}] {sign} {by}")
    return Step(f"{x}[{where}] = {value}", operands=(x,))


@step(1)
def take(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    rank = values[x].ndim
    axis = draw.axis(rank)
    size = values[x].shape[axis] if isinstance(axis, int) and -rank <= axis < rank else 1
    if draw.chance(40):
        form = draw.one(indices.FORMS[1])
        places = indices.positions(draw, size, form, False)
        return Step(f"ft.gather({x}, {places}, axis={axis})")
    form = (
        [draw.one((1, 2)) if i == axis % max(rank, 1) else n for i, n in enumerate(values[x].shape)]
        if isinstance(axis, int)
        else [2]
    )
    places = indices.positions(draw, size, form, False)
    return Step(f"ft.take_along_axis({x}, {places}, axis={axis})")


@step(1)
def nonzero(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    return Step(f"ft.nonzero({x})[{draw.integer(0, max(values[x].ndim - 1, 0))}]")


# ---- leaving ----------------------------------------------------------------------------------


@step(1)
def leave(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    forms = [f"{x}.tolist()", f"len({x})", f"{x}.shape", f"{x}.ndim", f"{x}.size"]
    if values[x].ndim == 0:
        forms += [f"{x}.item()", f"bool({x})"]
    return Step(draw.one(forms))
