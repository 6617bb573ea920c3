"""The specification of collectives: the results of all ranks from the operands of all ranks.

The specification in code. ``threads`` computes with it, ``CheckedCommunicator`` compares with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import fl_tensor as ft
from fl_dist.call import Call
from fl_dist.reduction import fold
from fl_dist.values import beside, fresh

Calls = Sequence[Call]


def results(calls: Calls) -> list[Any]:
    """The result of every rank, from one agreed call per rank (in rank order)."""
    return _SEMANTICS[calls[0].operation](calls)


def members(calls: Calls) -> list[list[int] | None]:
    """For every rank of a ``split``: the ranks of its part in their new order, or None."""
    wanted = [(call.parameters["color"], call.parameters["key"]) for call in calls]
    parts: dict[int, list[int]] = {}
    for color in {color for color, _ in wanted if color is not None}:
        parts[color] = sorted(
            (r for r, (c, _) in enumerate(wanted) if c == color), key=lambda r: (wanted[r][1], r)
        )
    return [None if color is None else parts[color] for color, _ in wanted]


def _column(calls: Calls, i: int, place: int) -> list[Any]:
    """Operand ``i`` of every rank, next to that of rank ``place``."""
    return [beside(calls[place].values[i], call.values[i]) for call in calls]


def _reduced(calls: Calls, i: int, place: int) -> Any:
    return fold(calls[0].parameters["op"], _column(calls, i, place))


def _for_all(calls: Calls, x: Any, i: int = 0) -> list[Any]:
    return [fresh(beside(call.values[i], x)) for call in calls]


def _all_reduce(calls: Calls) -> list[Any]:
    return _for_all(calls, _reduced(calls, 0, 0))


def _all_reduce_many(calls: Calls) -> list[Any]:
    count = len(calls[0].values)
    totals = [_for_all(calls, _reduced(calls, i, 0), i) for i in range(count)]
    return [[total[r] for total in totals] for r in range(len(calls))]


def _broadcast(calls: Calls) -> list[Any]:
    return _for_all(calls, calls[calls[0].parameters["root"]].values[0])


def _reduce(calls: Calls) -> list[Any]:
    root = calls[0].parameters["root"]
    total = fresh(_reduced(calls, 0, root))
    return [total if r == root else None for r in range(len(calls))]


def _all_gather(calls: Calls) -> list[Any]:
    return [[fresh(x) for x in _column(calls, 0, r)] for r in range(len(calls))]


def _reduce_scatter(calls: Calls) -> list[Any]:
    return [fresh(_reduced(calls, r, r)) for r in range(len(calls))]


def _all_gather_tensor(calls: Calls) -> list[Any]:
    return [ft.concatenate(_column(calls, 0, r)) for r in range(len(calls))]


def _reduce_scatter_tensor(calls: Calls) -> list[Any]:
    counts = calls[0].parameters["counts"]
    ends = list(accumulate(counts))
    results = []
    for r, (end, count) in enumerate(zip(ends, counts)):
        shares = [x[end - count : end] for x in _column(calls, 0, r)]
        results.append(fold(calls[0].parameters["op"], shares))
    return results


def _gather(calls: Calls) -> list[Any]:
    root = calls[0].parameters["root"]
    values = [fresh(x) for x in _column(calls, 0, root)]
    return [values if r == root else None for r in range(len(calls))]


def _scatter(calls: Calls) -> list[Any]:
    return [fresh(x) for x in calls[calls[0].parameters["root"]].values]


def _all_to_all(calls: Calls) -> list[Any]:
    return [[fresh(x) for x in _column(calls, r, r)] for r in range(len(calls))]


def _barrier(calls: Calls) -> list[Any]:
    return [None for _ in calls]


_SEMANTICS: dict[str, Callable[[Calls], list[Any]]] = {
    "all_reduce": _all_reduce,
    "all_reduce_many": _all_reduce_many,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "all_gather": _all_gather,
    "all_gather_tensor": _all_gather_tensor,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_tensor": _reduce_scatter_tensor,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "barrier": _barrier,
}
