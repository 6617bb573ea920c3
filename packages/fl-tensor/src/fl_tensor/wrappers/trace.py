"""``ft.trace``: recording of a block as a graph."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from fl_memory.forks import free_after_fork
from fl_tensor import refcounts
from fl_tensor.annotations import check as check_arguments
from fl_tensor.dispatch import calls
from fl_tensor.dispatch.stack import CONTROL, Operation, Wrapper, active, current
from fl_tensor.errors import ArgumentError, BackendError
from fl_tensor.graph.ir import Constant, Fixed, Graph, Node, Ref, Value

if TYPE_CHECKING:
    from fl_tensor.arrays.array import Array

N = TypeVar("N", bound=float)


class Traced(Graph):
    """A graph that is being recorded: arrays can be named until the block ends."""

    def __init__(self) -> None:
        super().__init__()
        # Values by the identity of their adapters, which are kept alive so that it stays theirs.
        self._known: dict[int, tuple[Any, Value]] | None = {}
        self._count = 0

    def input(self, x: Array, name: str = "") -> Value:
        """Make ``x``, which existed before the block, the next input, and name it. Tensors that are
        not announced so become inputs when they are first used."""
        adapter = x._tensor().adapter
        if self.find(adapter) is not None:
            raise ArgumentError("[trace] input(x): x has been used in the block; announce it first")
        value = self.add(adapter, name)
        self.inputs.append(value)
        return value

    def output(self, *xs: Array) -> None:
        """Make arrays outputs of the graph, in this order. Without any, all results that are still
        held somewhere when the block ends are outputs; where reference counts do not show that
        (see ``refcounts``), those that no operation of the block reads."""
        for x in xs:
            adapter = x._tensor().adapter
            self.outputs.append(self.find(adapter) or self.input(x))

    def find(self, adapter: Any) -> Value | None:
        """The value that an adapter stands for, None for one from before."""
        if self._known is None:
            raise ArgumentError("[trace] the block has ended: name inputs and outputs inside it")
        entry = self._known.get(id(adapter))
        return None if entry is None else entry[1]

    def add(self, adapter: Any, name: str = "") -> Value:
        """A new value for an adapter; one that is known already keeps its old one."""
        known = self._known
        assert known is not None
        value = Value(self._count, tuple(adapter.shape), adapter.dtype, adapter.device, name)
        self._count += 1
        known.setdefault(id(adapter), (adapter, value))
        return value

    def alias(self, adapter: Any, value: Value) -> None:
        """Let another adapter stand for a value, too."""
        assert self._known is not None
        self._known[id(adapter)] = (adapter, value)

    def finish(self, failed: bool) -> None:
        """The block is over: settle the outputs and let all adapters go."""
        if not self.outputs and not failed and self._known is not None:
            made = {v for node in self.nodes for v in node.outputs if node.op != "full" or v.shape}
            if _ALONE == refcounts.NEVER:
                made -= {v for node in self.nodes for v in node.operands}
            held = [e[1] for e in self._known.values() if e[1] in made and _holders(e) > _ALONE]
            self.outputs = sorted(held, key=lambda v: v.id)
        self._known = None


def _is_names(value: Any) -> bool:
    return isinstance(value, (set, frozenset, list, tuple)) and all(
        isinstance(name, str) for name in value
    )


class trace(Wrapper):
    """``with ft.trace() as graph:`` records the operations of the block in a ``graph.Graph``,
    backward and optimizers included. Tensors from before the block are its inputs.

        with ft.trace() as graph:
            graph.input(x, "x")                  # optional: an order and names
            y = ft.softmax(x @ w)
            graph.output(y)
        print(graph)
        graph(x, w)                              # the same numbers
        graph.run(ops, [a, b])                   # on any namespace of operations
        graph.prune().to_dot(), graph.to_json()

    whole  names of derived operations that are recorded as one node where they run as
           compositions, or True for all; otherwise the primitives that they are made of are

    Recorded is what the block did: Python's decisions are not part of the graph (``graph.reads``
    are the values that it looked at). Numbers of this one step, such as Adam's bias corrections or
    the offsets of random streams, are listed in ``graph.fixed``: see ``ft.per_step``. All results
    of the block stay alive until it ends.
    """

    watches = True

    def __init__(self, whole: bool | Collection[str] = False) -> None:
        if not isinstance(whole, bool) and not _is_names(whole):
            raise ArgumentError(
                f"[trace] whole {whole!r}: expected True, False, or names of derived operations"
            )
        self.whole = whole
        self.graph = Traced()
        self._thread = _Thread()
        self._lock = free_after_fork(threading.Lock())
        self._entered = False

    def __enter__(self) -> Traced:  # type: ignore[override]
        if self._entered:
            raise BackendError(
                "[trace] it is recording already: give each block a trace of its own"
            )
        self._entered = True
        self.graph = Traced()
        super().__enter__()
        return self.graph

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._entered = False
        self.graph.finish(failed=kind is not None)

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        thread = self._thread
        if thread.inside:
            return operation.run(*arguments, **options)
        if operation.name in CONTROL:
            thread.inside = True
            try:
                found = operation.run(*arguments, **options)
            finally:
                thread.inside = False
            # A branch may hand back an operand, or a number that is kept: a value of the graph.
            result = tuple([_another(operation.backend, x) for x in found])
        elif operation.composed:
            if self.whole is False or (self.whole is not True and operation.name not in self.whole):
                return operation.run(*arguments, **options)
            thread.inside = True
            try:
                result = operation.run(*arguments, **options)
            finally:
                thread.inside = False
        else:
            result = operation.run(*arguments, **options)
        with self._lock:
            self._record(operation.name, arguments, options, result)
        return result

    def _record(
        self, name: str, arguments: tuple[Any, ...], options: Mapping[str, Any], result: Any
    ) -> None:
        graph = self.graph
        if name == "to_host":
            graph.reads.append(self._value(arguments[0]))
            return
        given = calls.given(name, arguments, options)
        if name == "from_host":
            graph.constants.append(Constant(graph.add(result), bytes(given["data"])))
            return
        if "offset" in given and "seed" in given:
            graph.fixed.append(Fixed(f"offset of {name}", given["offset"]))
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        inputs, parameters = [], {}
        for p in calls.parameters(name):
            argument = given.get(p.name, p.default)
            if p.role and name != "constant":
                inputs.append(self._reference(argument))
            elif p.name != "donate":
                parameters[p.name] = _plain(argument)
        if name in ("constant", "scalar"):
            name, value = "full", parameters["value"]
            parameters = dict(shape=(), value=value, dtype=result.dtype, device=result.device)
        if all(graph.find(x) is not None for x in results):
            return  # a number made before, an operand handed back, no result: nothing new
        made = tuple(graph.add(x) for x in results)
        graph.nodes.append(Node(name, tuple(inputs), parameters, made))

    def _reference(self, argument: Any) -> Ref:
        if argument is None:
            return None
        if isinstance(argument, (list, tuple)):
            return tuple(self._value(x) for x in argument)
        return self._value(argument)

    def _value(self, adapter: Any) -> Value:
        graph = self.graph
        found = graph.find(adapter)
        if found is None:
            found = graph.add(adapter)
            graph.inputs.append(found)
        return found


def per_step(value: N, name: str) -> N:
    """``value``, a number that the caller computes anew for every step. A ``trace`` that is active
    here adds it to the ``fixed`` numbers of its graph, which then does not run again unasked:

        lr = ft.per_step(peak * min(1.0, step / 500), "learning rate")

    name  what the number is called where a graph is refused

    DTypeError where a trace is active, and value or name are none.
    """
    if current() is not None:
        check_arguments("per_step", per_step, (value, name), {})
        for layer in active(trace):
            layer.graph.fixed.append(Fixed(name, value))
    return value


class _Thread(threading.local):
    inside = False  # a composition that is recorded as a whole


def _another(backend: Any, x: Any) -> Any:
    # An adapter of the same value.
    made = backend.reshape(x, x.shape)
    if made is not x:
        return made
    more = backend.reshape(x, (1, *x.shape))
    return backend.reshape(more, x.shape)


def _plain(value: Any) -> Any:
    return tuple(_plain(v) for v in value) if isinstance(value, (list, tuple)) else value


def _holders(entry: tuple[Any, Value]) -> int:
    return refcounts.getrefcount(entry[0])


#: What ``_holders`` says of an adapter that only the graph's table holds.
_ALONE = refcounts.count_if_alone(
    _holders,
    lambda: (object(), Value(0, (), None, None)),  # type: ignore[arg-type]
    lambda entry: entry[0],
)
