"""Control flow on the tape: ``cond``, ``while_loop`` and ``scan`` over graphs, and their gradients.

One backward pass through a loop gives the gradients of all that it computed. So the results, taken
apart, are slices of one long vector to the engine, and the node of that vector has the rule. The
rules are in ``rules.control``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from fl_autograd.mode import recording
from fl_autograd.rules import control as rules
from fl_autograd.rules.table import Rule
from fl_autograd.slice_gradients import SliceGradients
from fl_autograd.variable import Variable, recorded, variable, wrap
from fl_tensor import ops_for

__all__ = ["cond", "scan", "while_loop"]


def cond(base: Any, predicate: Variable, xs: Sequence[Variable], then: Any, other: Any) -> Any:
    """``TensorBackend.cond``, recorded."""
    found = ops_for(base).cond(predicate._adapter, _adapters(xs), then, other)
    if not _is_recorded(xs):
        return wrap(found, base, "cond")
    return _record(base, "cond", found, xs, predicate._adapter, (then, other))


def while_loop(
    base: Any,
    xs: Sequence[Variable],
    test: Any,
    body: Any,
    carries: int,
    most: int,
    keep: bool = False,
) -> Any:
    """``TensorBackend.while_loop``, recorded: its gradient is that of a scan over so many steps as
    it made trips."""
    if not _is_recorded(xs):
        found = ops_for(base).while_loop(_adapters(xs), test, body, carries, most, keep)
        return wrap(found, base, "while_loop")
    found = ops_for(base).while_loop(_adapters(xs), test, body, carries, most, True)
    carry, trips, before = found[:carries], found[carries], found[carries + 1 :]
    results = (*carry, *before) if keep else carry
    steps = rules.with_carry(body, carries) if keep else body
    settings = steps, carries, 0, most, False, before
    made = _record(base, "scan", results, xs, trips, settings)
    if not keep:
        return made
    return (*made[:carries], variable(trips, base, None), *made[carries:])


def scan(
    base: Any,
    xs: Sequence[Variable],
    count: Variable | None,
    body: Any,
    carries: int,
    scanned: int,
    steps: int,
    reverse: bool = False,
) -> Any:
    """``TensorBackend.scan``, recorded: it keeps the carry before each step."""
    number = None if count is None else count._adapter
    settings = carries, scanned, steps, reverse
    if not _is_recorded(xs):
        found = ops_for(base).scan(_adapters(xs), number, body, *settings)
        return wrap(found, base, "scan")
    kept = rules.with_carry(body, carries)
    found = ops_for(base).scan(_adapters(xs), number, kept, *settings)
    results, before = found[: len(body.outputs)], found[len(body.outputs) :]
    return _record(base, "scan", results, xs, number, (body, *settings, before))


def _adapters(xs: Sequence[Variable]) -> list[Any]:
    return [x._adapter for x in xs]


def _is_recorded(xs: Sequence[Variable]) -> bool:
    return recording() is not False and any(x._node is not None for x in xs)


def _record(
    base: Any,
    op: str,
    results: Sequence[Any],
    xs: Sequence[Variable],
    decision: Any,
    settings: tuple[Any, ...],
) -> tuple[Variable, ...]:
    """Results as variables. Those of each dtype are parts of one vector with a node of the rule of
    ``op``; ``decision`` is an array that has no gradient."""
    made = [variable(x, base, None) for x in results]
    ops = ops_for(base)
    groups: dict[Any, list[int]] = {}
    for i, x in enumerate(results):
        if x.dtype.kind in "fc":
            groups.setdefault(x.dtype, []).append(i)
    for numbers in groups.values():
        parts, places, start = [], [], 0
        for i in numbers:
            shape = tuple(results[i].shape)
            size = math.prod(shape)
            parts.append(ops.reshape(results[i], (size,)))
            places.append((i, start, shape))
            start += size
        vector = parts[0] if len(parts) == 1 else ops.concatenate(parts, 0)
        saved = (*_adapters(xs), decision, (tuple(places), *settings))
        packed = recorded(vector, base, _rule(op, len(xs)), tuple([x._node for x in xs]), saved)
        if packed._node is None:
            continue
        for i, first, _ in places:
            made[i] = recorded(results[i], base, _PART, (packed._node,), (first, start))
    return tuple(made)


@functools.cache
def _rule(op: str, count: int) -> Rule:
    # Saved are the operands, an array without a gradient, and settings.
    function = rules.VJPS[op]

    def backward(ops: Any, g: Any, saved: Any, ins: Any) -> Any:
        *xs, decision, settings = saved
        needs = tuple([source is not None for source in ins])
        return function(ops, g, needs, xs, decision, *settings)

    made = Rule(op, {}, partial=False)
    made.backward = backward
    made.names = (*(f"xs{i}" for i in range(count)), "decision", "settings")
    made.lifts = tuple([(i, i) for i in range(count + 1)])
    return made


def _part_backward(ops: Any, g: Any, saved: Any, ins: Any) -> Any:
    start, total = saved
    flat = ops.reshape(g, (math.prod(g.shape),))
    return (SliceGradients((total,), (start,), (1,), flat),)


_PART = Rule("part", {})
_PART.backward = _part_backward
_PART.names = ("start", "total")
