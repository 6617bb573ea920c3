"""Small arrays as one vector: an operation on the vector acts on all of them at once.

An operation on an array of a few thousand elements takes about as long as its call. A model has
many such arrays, and a step of its training some twenty operations on each. So what updates
parameters, averages or gradients joins the small ones of a kind, computes once, and cuts the
result. The pieces are views where the backend has views. Each element has the arithmetic that it
has in an operation on its own array.
"""

from __future__ import annotations

import contextlib
import math
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_nn.values import tensor_of
from fl_tensor.extend import current_stack

#: Arrays of more elements stay alone: to copy them takes longer than to call an operation.
SMALL = 1 << 14


class _Origin(NamedTuple):
    vector: ft.Tensor
    pieces: list[weakref.ref[Any]]


#: The vectors that values were cut from, by the id of the first piece. The first piece that dies
#: takes its origin along: a vector lives no longer than all of its pieces.
_origins: dict[int, _Origin] = {}


def small_groups(
    arrays: Sequence[ft.Array], kind: Callable[[int], Hashable] = lambda number: None
) -> list[list[int]]:
    """The numbers of `arrays`, in groups that may be joined: of one dtype, backend and device, and
    of one `kind(number)`. A large array is a group of its own."""
    groups: dict[Hashable, list[int]] = {}
    for number, x in enumerate(arrays):
        key: Hashable = number
        if x.size <= SMALL:
            key = x.dtype, id(x.backend), x.device, kind(number)
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def join(arrays: Sequence[ft.Array]) -> ft.Tensor:
    """The elements of `arrays`, one array after another: the vector that they were cut from, if
    none was changed since. A single array stays as it is."""
    values = [tensor_of(x) for x in arrays]
    if len(values) == 1:
        return values[0]
    origin = None if is_watched() else _origins.get(id(values[0].adapter))
    if origin is not None and len(origin.pieces) == len(values):
        if all(piece() is x.adapter for x, piece in zip(values, origin.pieces)):
            return origin.vector
    return ft.concatenate([x if x.ndim == 1 else ft.reshape(x, (-1,)) for x in values])


def cut(vector: ft.Tensor, shapes: Sequence[tuple[int, ...]]) -> list[ft.Tensor]:
    """The pieces of a vector, in `shapes`: the reverse of `join`."""
    if len(shapes) == 1:
        return [vector]
    pieces = ft.split(vector, list(map(math.prod, shapes)))
    return [
        piece if len(shape) == 1 else ft.reshape(piece, shape)
        for piece, shape in zip(pieces, shapes)
    ]


def views(vector: ft.Tensor, shapes: Sequence[tuple[int, ...]]) -> list[ft.Tensor]:
    """As `cut`, by the backend itself. A trace that was begun since the vector was computed takes
    the pieces for values from before, which they are."""
    if len(shapes) == 1:
        return [vector]
    backend = vector.backend
    pieces = backend.split(vector.adapter, list(map(math.prod, shapes)), 0)
    return [ft.Tensor(backend.reshape(x, shape), backend) for x, shape in zip(pieces, shapes)]


def is_watched() -> bool:
    """Whether something sees the operations here, such as ``ft.trace`` or ``ft.override``. It knows
    the pieces alone, so nothing stays joined."""
    return current_stack() is not None


def remember(owners: Sequence[ft.Array], vector: ft.Tensor) -> None:
    """Note that `owners` have the pieces of `vector`, for the next `join` of them. A backend whose
    values have no weak references joins them anew each time."""
    if len(owners) < 2 or is_watched():
        return
    adapters = [tensor_of(x).adapter for x in owners]
    key = id(adapters[0])

    def forget(_: weakref.ref[Any]) -> None:
        _origins.pop(key, None)

    with contextlib.suppress(TypeError):
        _origins[key] = _Origin(vector, [weakref.ref(x, forget) for x in adapters])
