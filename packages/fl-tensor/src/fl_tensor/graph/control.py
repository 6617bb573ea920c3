"""``cond``, ``while_loop`` and ``scan`` over graphs, on any backend.

They are methods of every backend, called as operations are: a graph keeps each as one node, whose
parameters are the graphs of its bodies. As inherited, the loop is one of Python, and a body is
prepared once for its backend, as a graph that ``ft.compile`` captures.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from fl_tensor import dtypes
from fl_tensor.dispatch import calls, registry
from fl_tensor.dispatch.stack import CONTROL
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.ir import Graph, Value

__all__ = [
    "CONTROL",
    "check_cond",
    "check_node",
    "check_scan",
    "check_while",
    "cond",
    "scan",
    "while_loop",
]

#: The bodies that were prepared, by backend.
_PREPARED: weakref.WeakKeyDictionary[Graph, dict[Any, Callable[..., Any]]]
_PREPARED = weakref.WeakKeyDictionary()


def cond(ops: Any, predicate: Any, xs: Sequence[Any], then: Graph, other: Graph) -> Any:
    """``TensorBackend.cond``."""
    check_cond(predicate, xs, then, other)
    return tuple(_runner(then if _truth(ops, predicate) else other, ops)(xs))


def while_loop(
    ops: Any,
    xs: Sequence[Any],
    test: Graph,
    body: Graph,
    carries: int,
    most: int,
    keep: bool = False,
) -> Any:
    """``TensorBackend.while_loop``."""
    check_while(xs, test, body, carries, most)
    goes_on, step = _runner(test, ops), _runner(body, ops)
    carry, fixed = list(xs[:carries]), xs[carries:]
    before: list[list[Any]] = []
    trips = 0
    while _truth(ops, goes_on([*carry, *fixed])[0]):
        if trips == most:
            raise ArgumentError(
                f"[while_loop] it goes on after {most} trips: give a larger number as most"
            )
        if keep:
            before.append(carry)
        carry = list(step([*carry, *fixed]))
        trips += 1
    if not keep:
        return tuple(carry)
    device = xs[0].device
    kept = _stacked(ops, before, body.outputs, most, device)
    return (*carry, ops.scalar(trips, dtypes.int64, device), *kept)


def scan(
    ops: Any,
    xs: Sequence[Any],
    count: Any,
    body: Graph,
    carries: int,
    scanned: int,
    steps: int,
    reverse: bool = False,
) -> Any:
    """``TensorBackend.scan``."""
    check_scan(xs, count, body, carries, scanned, steps)
    step, first = _runner(body, ops), len(xs) - scanned
    carry, fixed, rows = list(xs[:carries]), xs[carries:first], xs[first:]
    used = steps if count is None else min(steps, max(0, _integer(ops, count)))
    found: list[list[Any]] = []
    for t in range(used - 1, -1, -1) if reverse else range(used):
        results = step([*carry, *fixed, *[_row(ops, x, t) for x in rows]])
        carry = list(results[:carries])
        found.append(list(results[carries:]))
    if reverse:
        found.reverse()
    device = xs[0].device if xs else ops.devices()[0]
    return (*carry, *_stacked(ops, found, body.outputs[carries:], steps, device))


def _row(ops: Any, x: Any, t: int) -> Any:
    rest = x.shape[1:]
    found = ops.slice(x, (t,) + (0,) * len(rest), (1, *rest), (1,) * (1 + len(rest)))
    return ops.reshape(found, rest)


def _stacked(
    ops: Any, rows: Sequence[Sequence[Any]], types: Sequence[Value], length: int, device: Any
) -> list[Any]:
    # Values of steps, one array per column; zeros where there are fewer than ``length``.
    made = []
    for i, value in enumerate(types):
        parts = [ops.reshape(row[i], (1, *value.shape)) for row in rows]
        if len(parts) < length or not parts:
            rest = (length - len(parts), *value.shape)
            parts.append(ops.full(rest, 0, value.dtype, device))
        made.append(parts[0] if len(parts) == 1 else ops.concatenate(parts, 0))
    return made


def _truth(ops: Any, x: Any) -> bool:
    return any(ops.to_host(x).tobytes())


def _integer(ops: Any, x: Any) -> int:
    found: int = ops.to_host(ops.cast(x, dtypes.int64)).cast("B").cast("q")[0]
    return found


def _runner(body: Graph, ops: Any) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """The body as a function of values of ``ops``."""
    if not hasattr(type(ops), "prepare"):  # no backend: layers, which see the operations
        return lambda xs: body.run(ops, xs)
    made = _PREPARED.setdefault(body, {})
    found = made.get(ops)
    if found is None:
        from fl_tensor.graph.source import prepared

        found = made[ops] = prepared(body, ops)
    run = found
    # A list of its own, beside one that still refers to the values: none may be overwritten.
    return lambda xs: run(list(xs), ())


def check_node(op: str, inputs: Sequence[Any], parameters: Any, outputs: Sequence[Value]) -> None:
    """Raise ArgumentError for a node of a file that is none: its operands do not fit its bodies, or
    its outputs are not what these give."""
    null = registry.null_backend()
    made = getattr(null, op)(*_arguments(op, inputs, parameters))
    if not outputs or _types(made) != _types(outputs):
        raise ArgumentError(f"[{op}] gives {_listed(made)}, not {_listed(outputs)}")


def _arguments(op: str, inputs: Sequence[Any], parameters: Any) -> list[Any]:
    """The arguments of a node, as the operation takes them."""
    remaining = iter(inputs)
    return [next(remaining) if p.role else parameters[p.name] for p in calls.parameters(op)]


def check_cond(predicate: Any, xs: Sequence[Any], then: Graph, other: Graph) -> None:
    """Raise ArgumentError for graphs that do not fit ``cond`` with these operands."""
    for name, graph in (("then", then), ("other", other)):
        _check_inputs("cond", name, graph, xs)
    if _types(then.outputs) != _types(other.outputs):
        raise ArgumentError(
            f"[cond] the branches give {_listed(then.outputs)} and {_listed(other.outputs)}"
        )
    _check_truth("cond", "the predicate", predicate)


def check_while(xs: Sequence[Any], test: Graph, body: Graph, carries: int, most: int) -> None:
    """Raise ArgumentError for graphs that do not fit ``while_loop`` with these operands."""
    for name, graph in (("test", test), ("body", body)):
        _check_inputs("while_loop", name, graph, xs)
    if type(most) is not int or most < 0:
        raise ArgumentError(f"[while_loop] most is {most!r}: expected an int from 0 on")
    if len(test.outputs) != 1:
        raise ArgumentError(f"[while_loop] the test gives {_listed(test.outputs)}: expected a bool")
    _check_truth("while_loop", "the test", test.outputs[0])
    _check_carry("while_loop", body, carries, len(body.outputs))


def check_scan(
    xs: Sequence[Any], count: Any, body: Graph, carries: int, scanned: int, steps: int
) -> None:
    """Raise ArgumentError for a graph that does not fit ``scan`` with these operands."""
    counts = (carries, scanned, steps)
    if not all(type(n) is int and n >= 0 for n in counts) or carries + scanned > len(xs):
        raise ArgumentError(
            f"[scan] carries {carries}, scanned {scanned}, steps {steps} of {len(xs)} operands"
        )
    if count is not None and (tuple(count.shape) or not count.dtype.is_integer):
        raise ArgumentError(f"[scan] count is {count.dtype}{tuple(count.shape)}: expected an int")
    first = len(xs) - scanned
    for x in xs[first:]:
        if tuple(x.shape[:1]) != (steps,):
            raise ArgumentError(f"[scan] xs of shape {tuple(x.shape)}: expected {steps} rows")
    given = [*_types(xs[:first]), *((shape[1:], dtype) for shape, dtype in _types(xs[first:]))]
    _check_types("scan", "body", body, given)
    _check_carry("scan", body, carries, carries)


def _check_inputs(op: str, name: str, graph: Any, xs: Sequence[Any]) -> None:
    _check_types(op, name, graph, _types(xs))


def _check_types(op: str, name: str, graph: Any, given: list[Any]) -> None:
    if not isinstance(graph, Graph) or graph.fixed:
        raise ArgumentError(
            f"[{op}] {name} is a {type(graph).__name__}: expected a Graph without "
            f"numbers of one step"
        )
    if _types(graph.inputs) != given:
        found = ", ".join(f"{dtype}{shape}" for shape, dtype in given)
        raise ArgumentError(f"[{op}] {name} is a graph of {_listed(graph.inputs)}, not of {found}")


def _check_truth(op: str, name: str, x: Any) -> None:
    if x.dtype is not dtypes.bool or tuple(x.shape):
        raise ArgumentError(f"[{op}] {name} is {x.dtype}{tuple(x.shape)}: expected bool()")


def _check_carry(op: str, body: Graph, carries: Any, count: int) -> None:
    if type(carries) is not int or not 0 <= carries <= len(body.inputs):
        raise ArgumentError(f"[{op}] carries {carries!r} of {len(body.inputs)} inputs")
    wanted, found = body.inputs[:carries], body.outputs[:count]
    if _types(wanted) != _types(found):
        raise ArgumentError(f"[{op}] the carry is {_listed(wanted)}, the next {_listed(found)}")


def _types(values: Sequence[Any]) -> list[Any]:
    return [(tuple(v.shape), v.dtype) for v in values]


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(f"{v.dtype}{tuple(v.shape)}" for v in values) or "nothing"
