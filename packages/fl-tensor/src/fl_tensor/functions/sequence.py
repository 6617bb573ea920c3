"""Public functions on sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fl_tensor import arguments
from fl_tensor.frontend import ArrayLike, operands_of, raw, run

__all__ = ["recurrent"]


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
