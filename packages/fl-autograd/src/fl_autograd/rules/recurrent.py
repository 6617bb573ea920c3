"""The rule of ``recurrent``: backpropagation through time (Werbos, 1990) on plain operations.

The states before every step are known. So the gates of all steps, and their derivatives, are
computed at once. Only two operations run step by step: scaling the gradient of a state by these
derivatives, and one matrix product with the weights. The gradients of inputs and weights are
computed for all steps together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_autograd.rules.precision import in_float32
from fl_autograd.rules.table import rule
from fl_tensor.derived.parts import columns, masks, row, rows, scales

Values = list[Any]
#: The rows of a matrix that belong to step t.
At = Callable[[Any, int], Any]
#: (t, gradients of the state after step t) -> gradients of the projected input, of the product with
#: the weights, and of the parts of the state before, None where only the product leads to one.
Step = Callable[[int, Values], tuple[Any, Any, Values]]


@in_float32
def _recurrent(
    ops: Any,
    g: Any,
    needs: tuple[bool, ...],
    out: Any,
    x: Any,
    state: Any,
    weight: Any,
    bias: Any,
    cell: str,
    lengths: tuple[int, ...] | None,
    reverse: bool,
) -> tuple[Any, ...]:
    kept, steps, batch, hidden = out.shape
    count = steps * batch
    before = _before(ops, out, state, reverse)
    x = ops.reshape(x, (count, x.shape[2]))

    def at(v: Any, t: int) -> Any:
        return row(ops, v, t, batch)

    step = _CELLS[cell](ops, at, out, x, before, weight, bias)
    alive = masks(ops, lengths, steps, x.device)
    zero = ops.constant(0.0, g)
    arriving = rows(ops, ops.reshape(g, (kept * steps * batch, hidden)), kept * steps)
    to_x: Values = [None] * steps
    to_product: Values = [None] * steps
    carried: Values = [None] * kept
    for t in range(steps) if reverse else range(steps - 1, -1, -1):
        due = [_plus(ops, arriving[i * steps + t], carried[i]) for i in range(kept)]
        passed: Values = [None] * kept
        if (mask := alive[t]) is not None:
            passed = [ops.where(mask, zero, v) for v in due]
            due = [ops.where(mask, v, zero) for v in due]
        to_x[t], to_product[t], direct = step(t, due)
        carried = [_plus(ops, a, b) for a, b in zip(direct, passed)]
        carried[0] = _plus(ops, ops.matmul(to_product[t], weight), carried[0])
    products = ops.concatenate(to_product, 0)
    inputs = products if to_x[0] is to_product[0] else ops.concatenate(to_x, 0)
    return (
        ops.reshape(inputs, (steps, batch, inputs.shape[1])) if needs[0] else None,
        ops.reshape(ops.concatenate(carried, 0), state.shape) if needs[1] else None,
        ops.matmul(ops.permute(products, (1, 0)), before[0]) if needs[2] else None,
        ops.sum(products, (0,), False) if needs[3] else None,
    )


def _before(ops: Any, out: Any, state: Any, reverse: bool) -> Values:
    # The state before each step, one matrix (steps * batch, hidden) per part.
    kept, steps, batch, hidden = out.shape
    first = ops.reshape(state, (kept, 1, batch, hidden))
    starts = (0, int(reverse), 0, 0)
    others = ops.slice(out, starts, (kept, steps - 1, batch, hidden), (1,) * 4)
    joined = ops.concatenate([others, first] if reverse else [first, others], 1)
    return rows(ops, ops.reshape(joined, (kept * steps * batch, hidden)), kept)


def _after(ops: Any, out: Any) -> Values:
    kept, steps, batch, hidden = out.shape
    return rows(ops, ops.reshape(out, (kept * steps * batch, hidden)), kept)


def _plus(ops: Any, x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else ops.add(x, y)


def _rest(ops: Any, x: Any) -> Any:
    return ops.subtract(ops.constant(1.0, x), x)


def _products(ops: Any, before: Values, weight: Any, bias: Any) -> Any:
    return _plus(ops, ops.matmul(before[0], ops.permute(weight, (1, 0))), bias)


def _by_slope(ops: Any, at: At, slope: Any) -> Step:
    def step(t: int, due: Values) -> tuple[Any, Any, Values]:
        found = ops.multiply(due[0], at(slope, t))
        return found, found, [None]

    return step


def _tanh(ops: Any, at: At, out: Any, x: Any, before: Values, weight: Any, bias: Any) -> Step:
    (h,) = _after(ops, out)
    return _by_slope(ops, at, _rest(ops, ops.multiply(h, h)))


def _relu(ops: Any, at: At, out: Any, x: Any, before: Values, weight: Any, bias: Any) -> Step:
    (h,) = _after(ops, out)
    return _by_slope(ops, at, ops.cast(ops.less(ops.constant(0.0, h), h), h.dtype))


def _lstm(ops: Any, at: At, out: Any, x: Any, before: Values, weight: Any, bias: Any) -> Step:
    hidden = out.shape[-1]
    scale = scales(ops, out, "lstm", hidden)
    total = ops.add(x, _products(ops, before, weight, bias))
    bent = ops.tanh(ops.multiply(total, scale))
    gates = ops.add(ops.multiply(bent, scale), _rest(ops, scale))
    i, f, value, o = columns(ops, gates, (hidden,) * 4)
    cell = ops.tanh(_after(ops, out)[1])
    slope = ops.multiply(_rest(ops, ops.multiply(bent, bent)), ops.multiply(scale, scale))
    slope = ops.multiply(slope, ops.concatenate([value, before[1], i, cell], 1))
    to_cell = ops.multiply(o, _rest(ops, ops.multiply(cell, cell)))

    def step(t: int, due: Values) -> tuple[Any, Any, Values]:
        dh, dc = due
        dc = ops.add(dc, ops.multiply(dh, at(to_cell, t)))
        found = ops.multiply(ops.concatenate([dc, dc, dc, dh], 1), at(slope, t))
        return found, found, [None, ops.multiply(dc, at(f, t))]

    return step


def _gru(ops: Any, at: At, out: Any, x: Any, before: Values, weight: Any, bias: Any) -> Step:
    hidden = out.shape[-1]
    half = ops.constant(0.5, out)
    product = _products(ops, before, weight, bias)
    x_gates, x_new = columns(ops, x, (2 * hidden, hidden))
    p_gates, p_new = columns(ops, product, (2 * hidden, hidden))
    bent = ops.tanh(ops.multiply(ops.add(x_gates, p_gates), half))
    r, z = columns(ops, ops.add(ops.multiply(bent, half), half), (hidden, hidden))
    new = ops.tanh(ops.add(x_new, ops.multiply(r, p_new)))
    to_new = ops.multiply(_rest(ops, z), _rest(ops, ops.multiply(new, new)))
    gates = ops.concatenate([ops.multiply(to_new, p_new), ops.subtract(before[0], new)], 1)
    slope = ops.multiply(_rest(ops, ops.multiply(bent, bent)), ops.constant(0.25, out))
    to_gates = ops.multiply(gates, slope)
    to_product = ops.concatenate([to_gates, ops.multiply(to_new, r)], 1)
    to_input = ops.concatenate([to_gates, to_new], 1)

    def step(t: int, due: Values) -> tuple[Any, Any, Values]:
        (dh,) = due
        thrice = ops.concatenate([dh, dh, dh], 1)
        return (
            ops.multiply(thrice, at(to_input, t)),
            ops.multiply(thrice, at(to_product, t)),
            [ops.multiply(dh, at(z, t))],
        )

    return step


_CELLS = {"tanh": _tanh, "relu": _relu, "lstm": _lstm, "gru": _gru}

rule("recurrent", joint=_recurrent, operands=("x", "state", "weight", "bias"))
