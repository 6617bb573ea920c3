"""Running a trace call by call on the NumPy backend: what is done with a trace that was never seen
before, and the measure of what every faster way must give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fl_tensor.backends.jit import operations, watch
from fl_tensor.device import CPU

if TYPE_CHECKING:
    from fl_tensor.backends.jit.lazy import Call, Trace
    from fl_tensor.graph.ir import Node


def needed(trace: Trace, seen: list[bool]) -> list[bool]:
    """Which calls lead to a result that is seen."""
    wanted = list(seen)
    for number in range(len(wanted) - 1, -1, -1):
        if wanted[number]:
            for operand in trace.calls[number].operands:
                if operand >= 0:
                    wanted[operand] = True
    return wanted


def interpret(eager: Any, trace: Trace, seen: list[bool]) -> None:
    """Run the calls in order, on the methods of the backend ``eager``; intermediate results die
    after their last use."""
    wanted = needed(trace, seen)
    last: dict[int, int] = {}
    for number, call in enumerate(trace.calls):
        if wanted[number]:
            for operand in call.operands:
                last[operand] = number
    values: list[Any] = [None] * len(trace.calls)
    for number in watch.calls(trace, [i for i, is_wanted in enumerate(wanted) if is_wanted]):
        call = trace.calls[number]
        operands = [values[i] if i >= 0 else trace.leaves[~i] for i in call.operands]
        values[number] = run_call(eager, call, operands)
        operands.clear()
        if seen[number]:
            trace.results[number].array = values[number].array
        for i in call.operands:
            if i >= 0 and last[i] == number:
                values[i] = None


def run_call(eager: Any, call: Call, operands: list[Any]) -> Any:
    """One call, on values that are there."""
    special = _SPECIAL.get(call.op)
    if special is not None:
        return special(eager, call, operands)
    own = operations.find(call.op)
    if own is not None:
        return own.compose(eager, *operands, **dict(call.parameters))
    return getattr(eager, call.op)(*operands, *call.parameters)


def run_node(eager: Any, node: Node, operands: list[Any]) -> Any:
    """One node of the graph of a trace (``translate``), likewise."""
    if node.op == "concatenate":
        return eager.concatenate(operands, *node.parameters.values())
    if node.op == "random_bits":
        seed, offset = (x.array.item() % (1 << 64) for x in operands)
        return eager.random_bits(seed, offset, node.outputs[0].shape, CPU)
    own = operations.find(node.op)
    if own is not None:
        return own.compose(eager, *operands, **node.parameters)
    return getattr(eager, node.op)(*operands, *node.parameters.values())


def _concatenate(eager: Any, call: Call, operands: list[Any]) -> Any:
    return eager.concatenate(operands, *call.parameters)


def _full(eager: Any, call: Call, operands: list[Any]) -> Any:
    return eager.full(call.shape, operands[0].array.item(), call.dtype, CPU)


def _random_bits(eager: Any, call: Call, operands: list[Any]) -> Any:
    return eager.random_bits(*operands[0], call.shape, CPU)


#: Calls whose operands are not simply those of the operation.
_SPECIAL = {"concatenate": _concatenate, "full": _full, "random_bits": _random_bits}
