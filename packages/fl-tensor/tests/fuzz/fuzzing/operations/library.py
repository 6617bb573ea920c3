"""The rest of the library: less usual functions, each with arguments that mostly fit."""

from __future__ import annotations

import numpy as np

from fuzzing.draws import Draw
from fuzzing.operations.registry import Values, pick, step
from fuzzing.step import Step

#: Functions of one array, by the letter of its role.
UNARY = {
    "F": "cbrt deg2rad rad2deg isneginf isposinf",
    "N": "trunc positive real imag conj signbit nan_to_num",
}
BINARY = {"F": "logaddexp copysign nextafter", "P": "fmax fmin isclose allclose array_equal"}


@step(1)
def unary(draw: Draw, values: Values) -> Step:
    role = draw.one(sorted(UNARY))
    x = pick(draw, values, "fiuc")
    name = draw.one(UNARY[role].split())
    return Step(f"ft.{name}({x})", role=role, operands=(x,))


@step(1)
def binary(draw: Draw, values: Values) -> Step:
    role = draw.one(sorted(BINARY))
    x, y = (pick(draw, values, "fiuc") for _ in range(2))
    line = f"{draw.one(BINARY[role].split())}({x}, {y})"
    return Step(f"ft.{line}", f"np.asarray(np.{line})", role=role, operands=(x, y))


@step(2)
def one_array(draw: Draw, values: Values) -> Step:
    x = pick(draw, values)
    rank = values[x].ndim
    axis = draw.axis(rank)
    k = draw.integer(-2, 2)
    widths = [(draw.integer(0, 2), draw.integer(0, 2)) for _ in range(rank)]
    modes = draw.one(("constant", "reflect", "edge", "wrap", "symmetric"))
    repeats = draw.integer(0, 3)
    size = values[x].shape[axis] if isinstance(axis, int) and -rank <= axis < rank else 1
    several = [draw.integer(0, 2) for _ in range(size + draw.chance(5))]
    lines = [
        f"ft.diff({x}, n={draw.integer(1, 3)}, axis={axis})",
        f"ft.diag({x}, k={k})",
        f"ft.diagonal({x}, {k}, {draw.axis(rank)}, {draw.place(rank)})",
        f"ft.repeat({x}, {repeats}, axis={draw.one((None, axis))})",
        f"ft.repeat({x}, {several}, axis={axis})",
        f"ft.argwhere({x})",
        f"ft.unique({x})",
        f"ft.unique({x}, return_counts=True)[1]",
        f"ft.unique({x}, return_inverse=True)[1]",
        f"ft.unique({x}, axis={axis})",
        f"ft.zeros_like({x})",
        f"ft.ones_like({x}, dtype={draw.dtype()!r})",
        f"ft.full_like({x}, {draw.one((0, 1, 2.5, -1, True))})",
    ]
    if values[x].dtype in ("int8", "uint8"):  # others count up to numbers beyond memory
        lines.append(f"ft.bincount({x})")
    if rank:
        lines.append(f"ft.pad({x}, {widths}, mode={modes!r})")
    if size:
        lines.append(f"ft.unstack({x}, axis={axis})[0]")
    return Step(draw.one(lines), operands=(x,))


@step(1)
def sets(draw: Draw, values: Values) -> Step:
    x, y = pick(draw, values, "iufc"), pick(draw, values, "iufc")
    sides = draw.one(("left", "right"))
    lines = [
        f"ft.isin({x}, {y})",
        f"ft.isin({x}, {y}, invert=True)",
        f"ft.searchsorted(ft.sort({x}.flatten()), {y}, side={sides!r})",
    ]
    return Step(draw.one(lines), role="P", operands=(x, y))


@step(2)
def products(draw: Draw, values: Values) -> Step:
    # With one factor zero BLAS may leave the other unread: then 0 times infinity is 0.
    finite = {n: v for n, v in values.items() if np.isfinite(v).all()}
    if not finite:
        return Step(draw.array((2, 3), "int32"))
    values = finite
    x, y = pick(draw, values, "iufc"), pick(draw, values, "iufc")
    rank, other = values[x].ndim, values[y].ndim
    letters = "abcdef"[:rank]
    summed = letters[draw.integer(0, rank) :]
    kept = "".join(c for c in letters if c not in summed)
    two = [
        f"ft.kron({x}, {y})",
        f"ft.tensordot({x}, {y}, axes={draw.integer(min(1, rank, other), min(rank, other))})",
        f"ft.outer({x}.flatten(), {y}.flatten())",
    ]
    one = [
        f"ft.tensordot({x}, {x}, axes=([{draw.axis(rank)}], [{draw.place(rank)}]))",
        f"ft.einsum('{letters}->{kept}', {x})",
        f"ft.einsum('{letters},{letters}->{kept}', {x}, {x})",
        f"ft.einsum('{letters},{letters[::-1]}', {x}, {x}.transpose())",
        f"ft.einsum('...a,...a->...', {x}, {x})",
    ]
    if rank:
        one.append(f"ft.vecdot({x}, {x})")
    if values[x].shape[-1:] == (3,):
        one.append(f"ft.cross({x}, {x})")
    line = draw.one(two + one)
    return Step(line, role="N", operands=(x, y) if line in two else (x,), degree=2)
