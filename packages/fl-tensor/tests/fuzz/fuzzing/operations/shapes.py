"""The same elements in another order or shape."""

from __future__ import annotations

import random

from fuzzing.draws import Draw
from fuzzing.operations.registry import Values, pick, step
from fuzzing.step import Step


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
    a, b = draw.axis(rank), draw.place(rank)
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
                f"ft.asarray({x}, copy=True)",
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
        line = f"ft.stack([{listed}], axis={draw.integer(-rank - 1, rank)})"
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
