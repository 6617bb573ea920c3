"""Reductions, running ones, order, products."""

from __future__ import annotations

from fuzzing.draws import Draw
from fuzzing.operations.registry import Values, pick, step
from fuzzing.step import Step


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
    call = f"count_nonzero({x}, axis={draw.axes(values[x].ndim)})"
    return Step(f"ft.{call}", f"np.asarray(np.{call})")  # an int before NumPy 2.3


@step(1)
def cumulative(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "iufc")
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


@step(2)
def matmul(draw: Draw, values: Values) -> Step:
    x = pick(draw, values, "iufc")
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
