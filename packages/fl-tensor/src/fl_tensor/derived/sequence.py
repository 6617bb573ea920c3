"""Recurrence over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_tensor import dtypes
from fl_tensor.derived.precision import in_float32
from fl_tensor.errors import ArgumentError, ShapeError
from fl_tensor.roles import Ops, S, Shape

__all__ = ["recurrent"]

SINCE = {"recurrent": "1.1"}

#: Cell -> rows of the weights per hidden unit, and how many arrays its state has.
CELLS = {"tanh": (1, 1), "relu": (1, 1), "lstm": (4, 2), "gru": (3, 1)}
#: What each gate's argument is multiplied with, so that one tanh serves all of them: ``gates``.
SCALES = {"lstm": (0.5, 0.5, 1.0, 0.5), "gru": (0.5, 0.5, 1.0)}


@in_float32
def recurrent(
    ops: Ops,
    x: S,
    state: S,
    weight: S,
    bias: S | None = None,
    cell: str = "tanh",
    lengths: Shape | None = None,
    reverse: bool = False,
) -> Any:
    """The states of one recurrent layer in one direction after each step: (kept, steps, batch,
    hidden), where kept is 2 for ``"lstm"``, (h, c), and 1 for the others, h alone.

    ``x`` (steps, batch, gates * hidden) are the projected inputs of all steps, ``state`` (kept,
    batch, hidden) is what they begin with. With p = h @ weight.T + bias, weight (gates * hidden,
    hidden) and bias (gates * hidden,), a step is

        tanh  h' = tanh(x + p)
        relu  h' = max(x + p, 0)
        lstm  i, f, g, o = x + p
              c' = sigmoid(f) c + sigmoid(i) tanh(g)
              h' = sigmoid(o) tanh(c')
        gru   r, z = sigmoid(x + p), n = tanh(x + r p), each with its third of x and p
              h' = (1 - z) n + z h

    ``lengths``: of every sequence so many steps count, and its state stays as it is in the others.
    ``reverse``: the last step comes first; states stay in the order of ``x``. Elman, 1990;
    Hochreiter & Schmidhuber, 1997; Cho et al., 2014.
    """
    _, kept = check_recurrent(x, state, weight, bias, cell, lengths)
    steps, batch, width = x.shape
    hidden = state.shape[-1]
    across = ops.permute(weight, (1, 0))
    if cell in SCALES:
        scale = scales(ops, x, cell, hidden)
        x, across = ops.multiply(x, scale), ops.multiply(across, scale)
        bias = None if bias is None else ops.multiply(bias, scale)
    if bias is not None and cell != "gru":
        x, bias = ops.add(x, bias), None
    advance = _steps(ops, x, cell, hidden)
    x = ops.reshape(x, (steps * batch, width))
    alive = masks(ops, lengths, steps, x.device)
    parts = rows(ops, ops.reshape(state, (kept * batch, hidden)), kept)
    found: list[Sequence[Any]] = [()] * steps
    for t in range(steps - 1, -1, -1) if reverse else range(steps):
        product = ops.matmul(parts[0], across)
        if bias is not None:
            product = ops.add(product, bias)
        new = advance(row(ops, x, t, batch), product, parts)
        if (mask := alive[t]) is not None:
            new = [ops.where(mask, a, b) for a, b in zip(new, parts)]
        found[t] = parts = new
    listed = [found[t][i] for i in range(kept) for t in range(steps)]
    return ops.reshape(ops.concatenate(listed, 0), (kept, steps, batch, hidden))


def _steps(ops: Ops, x: Any, cell: str, hidden: int) -> Callable[..., list[Any]]:
    # The step of a cell: (x, p, state) -> state, x and p multiplied with the scales.
    if cell == "tanh":
        return lambda x, p, state: [ops.tanh(ops.add(x, p))]
    if cell == "relu":
        return lambda x, p, state: [ops.relu(ops.add(x, p))]
    one = ops.constant(1.0, x)
    if cell == "lstm":
        scale = scales(ops, x, cell, hidden)
        rest = ops.subtract(one, scale)

        def lstm(x: Any, p: Any, state: list[Any]) -> list[Any]:
            gates = ops.add(ops.multiply(ops.tanh(ops.add(x, p)), scale), rest)
            i, f, g, o = columns(ops, gates, (hidden,) * 4)
            c = ops.add(ops.multiply(f, state[1]), ops.multiply(i, g))
            return [ops.multiply(o, ops.tanh(c)), c]

        return lstm
    half = ops.constant(0.5, x)

    def gru(x: Any, p: Any, state: list[Any]) -> list[Any]:
        x_gates, x_new = columns(ops, x, (2 * hidden, hidden))
        p_gates, p_new = columns(ops, p, (2 * hidden, hidden))
        gates = ops.add(ops.multiply(ops.tanh(ops.add(x_gates, p_gates)), half), half)
        r, z = columns(ops, gates, (hidden, hidden))
        n = ops.tanh(ops.add(x_new, ops.multiply(r, p_new)))
        return [ops.add(n, ops.multiply(z, ops.subtract(state[0], n)))]

    return gru


def scales(ops: Ops, like: Any, cell: str, hidden: int) -> Any:
    """SCALES as a row (gates * hidden,): sigmoid(a) = tanh(a / 2) / 2 + 1 / 2, so that with s of
    0.5 or 1 every gate is ``s tanh(s a) + (1 - s)``."""
    parts = [ops.full((hidden,), s, like.dtype, like.device) for s in SCALES[cell]]
    return ops.concatenate(parts, 0)


def masks(ops: Ops, lengths: Shape | None, steps: int, device: Any) -> list[Any]:
    """For every step which sequences still go on, bool (batch, 1), or None where all do."""
    first = steps if lengths is None else min(lengths, default=steps)
    if lengths is None or first == steps:
        return [None] * steps
    batch = len(lengths)
    data = memoryview(bytes([t < n for t in range(first, steps) for n in lengths]))
    shape = ((steps - first) * batch, 1)
    alive = ops.from_host(data, shape, dtypes.bool, device)
    return [None] * first + rows(ops, alive, steps - first)


def row(ops: Ops, x: Any, number: int, size: int) -> Any:
    """Block ``number`` of ``size`` rows of a matrix."""
    return ops.slice(x, (number * size, 0), (size, x.shape[1]), (1, 1))


def rows(ops: Ops, x: Any, count: int) -> list[Any]:
    """A matrix in ``count`` equal blocks of rows."""
    return ops.split(x, (x.shape[0] // count,) * count, 0)


def columns(ops: Ops, x: Any, sizes: Sequence[int]) -> list[Any]:
    """A matrix in blocks of columns: as ``split``, but several times per step."""
    found, start, size = [], 0, x.shape[0]
    for width in sizes:
        found.append(ops.slice(x, (0, start), (size, width), (1, 1)))
        start += width
    return found


def check_recurrent(
    x: Any, state: Any, weight: Any, bias: Any, cell: str, lengths: Shape | None
) -> tuple[int, int]:
    """The row of CELLS; ShapeError or ArgumentError for operands that do not fit ``recurrent``."""
    if not isinstance(cell, str) or cell not in CELLS:
        raise ArgumentError(f"[recurrent] cell {cell!r}: expected one of {', '.join(CELLS)}")
    gates, kept = CELLS[cell]
    hidden = state.shape[-1] if len(state.shape) == 3 else -1
    batch = x.shape[1] if len(x.shape) == 3 else -1
    wanted = (gates * hidden, hidden)
    if (
        state.shape != (kept, batch, hidden)
        or x.shape[2] != wanted[0]
        or weight.shape != wanted
        or (bias is not None and bias.shape != wanted[:1])
    ):
        more = "" if bias is None else f", bias {bias.shape}"
        raise ShapeError(
            f"[recurrent] x {x.shape}, state {state.shape}, weight {weight.shape}{more}: {cell} "
            f"expects x (steps, batch, {gates} * hidden), state ({kept}, batch, hidden), weight "
            f"({gates} * hidden, hidden), bias ({gates} * hidden,)"
        )
    if not x.shape[0]:
        raise ShapeError(f"[recurrent] x {x.shape}: there are no steps")
    if lengths is not None and (
        len(lengths) != batch or not all(0 <= n <= x.shape[0] for n in lengths)
    ):
        raise ShapeError(
            f"[recurrent] lengths {lengths}: expected {batch} numbers from 0 to {x.shape[0]}"
        )
    return gates, kept
