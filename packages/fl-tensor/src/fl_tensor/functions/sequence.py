"""Public functions on sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments, dtypes
from fl_tensor.dispatch.frontend import ArrayLike, operands_of, raw, run
from fl_tensor.errors import DTypeError

__all__ = ["attention", "recurrent"]


def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    allowed: ArrayLike | None = None,
    keep: ArrayLike | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """``softmax(query key^T * scale + bias) * keep`` times ``value``: for each of the queries
    (batch, heads, queries, size) a mean of the values (batch, groups, keys, any), by how well it
    fits their keys (batch, groups, keys, size). Vaswani et al., 2017. Each group serves heads /
    groups heads in a row: Ainslie et al., 2023.

    ``bias``, the bools ``allowed`` (where a query may look) and the factors ``keep`` (for dropout)
    broadcast to (batch, heads, queries, keys); a bias of -inf forbids, too. ``causal``: no query
    sees a later key, where the last query stands at the last key. ``scale`` is 1 / sqrt(size)
    unless given. A query that may look nowhere gets zeros. Raises ShapeError for operands that do
    not fit, DTypeError where ``allowed`` is not bool.
    """
    arrays = operands_of("attention", "SSSsas", query, key, value, bias, allowed, keep)
    query, allowed = arrays[0], arrays[4]
    if allowed is not None and allowed.dtype is not dtypes.bool:
        raise DTypeError(f"[attention] allowed is {allowed.dtype}: expected bool, such as x != 0")
    factor = None if scale is None else arguments.float_of("attention", scale, "scale")
    return run("attention", query, *map(raw, arrays), bool(causal), factor)


def recurrent(
    x: ArrayLike,
    state: ArrayLike,
    weight: ArrayLike,
    bias: ArrayLike | None = None,
    cell: str = "tanh",
    lengths: Sequence[int] | None = None,
    reverse: bool = False,
) -> Any:
    """The states of one recurrent layer in one direction after each step: (kept, steps, batch,
    hidden), where kept is 2 for ``"lstm"``, (h, c), and 1 for ``"tanh"``, ``"relu"``, ``"gru"``.

    ``x`` (steps, batch, gates * hidden) are the projected inputs of all steps, ``state`` (kept,
    batch, hidden) is what they begin with; ``weight`` (gates * hidden, hidden) and ``bias`` (gates
    * hidden,) are the state's. ``lengths``: of every sequence so many steps count, and its state
    stays as it is in the others. ``reverse``: the last step comes first; states stay in the order
    of ``x``. The formulas are those of ``TensorBackend.recurrent``. Raises ShapeError, and
    ArgumentError for another cell.
    """
    x, state, weight, bias = operands_of("recurrent", "SSSs", x, state, weight, bias)
    counts = None if lengths is None else arguments.ints_of("recurrent", lengths, "lengths")
    given = (x._raw, state._raw, weight._raw, raw(bias))
    return run("recurrent", x, *given, cell, counts, bool(reverse))
