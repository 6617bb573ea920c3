"""Elements read and written by index; values that leave the library."""

from __future__ import annotations

from typing import Any

from fuzzing import indices
from fuzzing.draws import Draw
from fuzzing.operations.registry import Values, pick, step
from fuzzing.step import Step, theirs


@step(10)
def getitem(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    if draw.chance(8):
        found = [n for n, v in values.items() if v.dtype.kind in "biu" and v.dtype != "uint64"]
        return Step(f"{x}[{draw.one(found or ['...'])}]")
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


@step(1)
def leave(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    forms = [f"{x}.tolist()", f"len({x})", f"{x}.shape", f"{x}.ndim", f"{x}.size"]
    if values[x].ndim == 0:
        forms += [f"{x}.item()", f"bool({x})"]
    return Step(draw.one(forms))
