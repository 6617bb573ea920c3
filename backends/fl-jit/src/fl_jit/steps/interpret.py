"""The interpreter: execution of a trace call by call on the NumPy backend.

It runs traces of new structure, and is the reference for the results of all faster paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_jit.extensions import operations
from fl_jit.reports import observers
from fl_jit.reports.causes import named_calls
from fl_jit.traces.failure_isolation import fail
from fl_memory.causes import observed
from fl_tensor import CPU

if TYPE_CHECKING:
    from fl_jit.traces.failure_isolation import Subtrace
    from fl_jit.traces.lazy import Trace
    from fl_jit.traces.recording import Call
    from fl_tensor.graph import Node


def interpret(eager: Any, trace: Trace | Subtrace, seen: list[bool]) -> None:
    """Run the calls in order, on the methods of the backend ``eager``. Dead calls are skipped, and
    intermediate results are freed after their last use. If a call fails, results of earlier calls
    are stored, and those that depend on it wait for ``Failed``."""
    calls, leaves = trace.calls, trace.leaves
    dying = last_uses(calls, seen)
    methods: dict[str, Any] = {}
    values: list[Any] = [None] * len(calls)
    found: list[tuple[int, Any]] = []
    number = len(calls)
    try:
        numbers = observers.calls(trace, list(dying))
        for number in named_calls(trace, numbers) if observed else numbers:
            op, places, parameters, _, _ = calls[number]
            operands = [values[i] if i >= 0 else leaves[~i] for i in places]
            made = None  # reference counts may be checked
            for i in dying[number]:
                values[i] = None
            method = methods.get(op)
            if method is None and op not in _SPECIAL and operations.find(op) is None:
                method = methods[op] = getattr(eager, op)
            if method is not None:
                made = method(*operands, *parameters)
            else:
                made = _special(eager, calls[number], operands)
            values[number] = made
            if seen[number]:
                found.append((number, made.array))
    except Exception as error:
        fail(trace.results, _needing(number, calls), error)
        raise
    finally:
        for number, array in found:
            trace.results[number].array = array  # type: ignore[union-attr]


def _needing(number: int, calls: list[Call]) -> list[int]:
    """This call and those that depend on its result."""
    found = {number}
    for later in range(number + 1, len(calls)):
        if not found.isdisjoint(calls[later].operands):
            found.add(later)
    return [i for i in found if i < len(calls)]


def last_uses(calls: list[Call], seen: list[bool]) -> dict[int, list[int]]:
    """The live calls in order. For each of them: the results whose last use it is."""
    read = [False] * len(calls)
    found: list[tuple[int, list[int]]] = []
    for number in range(len(calls) - 1, -1, -1):
        if read[number] or seen[number]:
            ends = []
            for i in calls[number].operands:
                if i >= 0 and not read[i]:
                    read[i] = True
                    ends.append(i)
            found.append((number, ends))
    return dict(reversed(found))


def run_node(eager: Any, node: Node, operands: list[Any]) -> Any:
    """Run one node of the graph of a trace (``translate``) on ``eager``."""
    if node.op == "concatenate":
        return eager.concatenate(operands, *node.parameters.values())
    if node.op == "random_bits":
        seed, offset = (x.array.item() % (1 << 64) for x in operands)
        return eager.random_bits(seed, offset, node.outputs[0].shape, CPU)
    own = operations.find(node.op)
    if own is not None:
        return own.compose(eager, *operands, **node.parameters)
    if node.op == "recurrent":
        return eager.recurrent(*operands, **node.parameters)
    return getattr(eager, node.op)(*operands, *node.parameters.values())


def _special(eager: Any, call: Call, operands: list[Any]) -> Any:
    own = operations.find(call.op)
    if own is not None:
        return own.compose(eager, *operands, **dict(call.parameters))
    return _SPECIAL[call.op](eager, call, operands)


def _concatenate(eager: Any, call: Call, operands: list[Any]) -> Any:
    return eager.concatenate(operands, *call.parameters)


def _full(eager: Any, call: Call, operands: list[Any]) -> Any:
    return eager.full(call.shape, operands[0].array.item(), call.dtype, CPU)


def _slice_update(eager: Any, call: Call, operands: list[Any]) -> Any:
    x, updates, *starts = operands
    operands.clear()  # an unshared result is overwritten
    begin = tuple([start.array.item() for start in starts])
    return eager.slice_update(x, begin, call.parameters[0], updates, True)


def _random_bits(eager: Any, call: Call, operands: list[Any]) -> Any:
    return eager.random_bits(*operands[0], call.shape, CPU)


def _recurrent(eager: Any, call: Call, operands: list[Any]) -> Any:
    cell, lengths, reverse = call.parameters  # the bias may be missing before them
    return eager.recurrent(*operands, cell=cell, lengths=lengths, reverse=reverse)


#: Calls whose operands differ from those of the operation.
_SPECIAL = {
    "concatenate": _concatenate,
    "full": _full,
    "random_bits": _random_bits,
    "recurrent": _recurrent,
    "slice_update": _slice_update,
}
