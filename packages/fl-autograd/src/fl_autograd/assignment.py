"""``x[index] = value`` on variables: the handle becomes the result of a recorded scatter."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_autograd.errors import GradError
from fl_autograd.mode import is_grad_enabled
from fl_autograd.variable import Variable


def assign(x: Variable, index: Any, value: Any) -> None:
    """Give the handle ``x`` a new value (and history); graphs recorded before keep the old one.

    Raises GradError for a leaf that requires a gradient, unless under no_grad.
    """
    tracked = x.requires_grad or (isinstance(value, Variable) and value.requires_grad)
    if isinstance(index, Variable):
        index = index.tensor
    elif isinstance(index, tuple):
        index = tuple(i.tensor if isinstance(i, Variable) else i for i in index)
    if not tracked or not is_grad_enabled():
        tensor, given = x.tensor, value.tensor if isinstance(value, Variable) else value
        x._adapter = None  # the handle lets go, so that what nobody else holds is written in place
        try:
            tensor[index] = given
        finally:
            x._adapter = tensor._adapter
        return
    if x.requires_grad and x.is_leaf:
        raise GradError(
            "x[...] = v on a leaf that requires a gradient: write it under ag.no_grad(), or to a "
            "result such as x * 1"
        )
    places = _positions(x)[index]
    updates = _updates(x, value, places.shape)
    flat = ft.scatter(ft.reshape(x, (-1,)), places, updates)
    written = ft.reshape(flat, x.shape)
    x._adapter, x._node = written._adapter, written._node


def _positions(x: Variable) -> Any:
    numbers = ft.ops_for(x._backend).arange(0, x.size, 1, ft.int64, x.device)
    return ft.Tensor(numbers, x._backend).reshape(x.shape)


def _updates(x: Variable, value: Any, shape: tuple[int, ...]) -> Any:
    updates = (
        value if isinstance(value, ft.Array) else ft.asarray(value, x.dtype, backend=x._backend)
    )
    updates = ft.cast(updates, x.dtype)
    extra = updates.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in updates.shape[:extra]):  # as NumPy
        updates = ft.reshape(updates, updates.shape[extra:])
    return updates if updates.shape == shape else ft.broadcast_to(updates, shape)
