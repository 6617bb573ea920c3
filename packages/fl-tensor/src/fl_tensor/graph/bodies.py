"""Functions of Python as graphs: the branches and bodies of control flow, while something captures.

A function runs once on ``null``, with values that have a shape and a dtype. Arrays from around it
that it uses, numbers that change from step to step among them, become inputs of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

from fl_tensor import rules
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.backends.null import NullAdapter
from fl_tensor.device import CPU
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.frontend import ADOPT
from fl_tensor.dispatch.stack import Layer, Operation, Stack, active, current, ops_for, under
from fl_tensor.errors import CaptureError
from fl_tensor.graph.host_numbers import HostNumber
from fl_tensor.graph.ir import Graph, Value
from fl_tensor.wrappers.trace import trace

__all__ = [
    "OBSERVERS",
    "Body",
    "BodyObserver",
    "is_capturing",
    "joined",
    "refuse_cut",
    "trace_body",
    "whole_names",
]


class BodyObserver(Protocol):
    """What another package has to know of a body while it is traced.

    cut  what in the body cuts gradients off, which its graph does not keep; "" where nothing does
    """

    cut: str

    def begin(self, x: Array) -> Any:
        """What takes the place of ``x``, a value without data that the body is given."""

    def original(self, adapter: Any) -> Array | None:
        """The array from around the body that has this adapter, where it is more than that."""


#: Each gives a observer for one body, as a context manager.
OBSERVERS: list[Callable[[], AbstractContextManager[BodyObserver]]] = []
#: Those of the body that is being traced.
_OBSERVING: ContextVar[Sequence[BodyObserver]] = ContextVar("fl_tensor_body_observers", default=())


class Body(NamedTuple):
    """A traced function: its graph, whose last inputs stand for the arrays ``closed`` from around
    it; what it returned, on ``null``; what in it cuts gradients off."""

    graph: Graph
    closed: list[Array]
    result: Any
    cut: str


def is_capturing(arrays: Sequence[Array]) -> bool:
    """Whether what is computed here becomes a graph: of these arrays, or of a ``trace``."""
    if current() is not None and next(active(trace), None) is not None:
        return True
    if arrays:
        return not all(x._backend.has_values for x in arrays)
    return not registry.current_backend().has_values


def whole_names() -> Any:
    """What the ``trace`` that is active here keeps whole."""
    outer = next(active(trace), None)
    return False if outer is None else outer.whole


def trace_body(
    op: str, function: Callable[..., Any], given: Sequence[Array], outputs: Callable[[Any], Any]
) -> Body:
    """The graph of ``function`` of arrays like ``given``; ``outputs`` lists the arrays of what it
    returns. Raises CaptureError for what no graph does."""
    recorder = _BodyTrace(op, whole_names())
    with ExitStack() as stack:
        observers = [stack.enter_context(observer()) for observer in OBSERVERS]
        stack.callback(_OBSERVING.reset, _OBSERVING.set(observers))
        stack.enter_context(under(_without_watching()))
        stack.enter_context(registry.use(registry.null_backend()))
        graph = stack.enter_context(recorder)
        recorder.outer = ADOPT.get()
        stack.callback(ADOPT.reset, ADOPT.set(recorder.adopt))
        ghosts = []
        for x in given:
            inner = placeholder(x)
            graph.input(inner)
            ghost: Any = inner if isinstance(x, Tensor) else x._lift(inner)
            for observer in observers:
                ghost = observer.begin(ghost)
            ghosts.append(ghost)
        result = function(*ghosts)
        for x in outputs(result):
            found = recorder.adopt(x)
            if graph.find(found._tensor().adapter) is None:
                recorder.closed[id(x._tensor().adapter)] = x
            graph.output(found)
        made = list(graph.outputs)
        outside = [recorder.outside(value, observers) for value in graph.inputs[len(given) :]]
    _refuse(op, graph)
    whole = Graph(graph.inputs, graph.constants, graph.nodes, made).prune()
    # Created in the context around the body.
    cut = "; ".join(dict.fromkeys(observer.cut for observer in observers if observer.cut))
    return Body(whole, [make() for make in outside], result, cut)


def refuse_cut(op: str, bodies: Sequence[Body], operands: Sequence[Any]) -> None:
    """Raise CaptureError where gradients go through bodies that cut some of them off."""
    cut = "; ".join(dict.fromkeys(body.cut for body in bodies if body.cut))
    if not cut or not any(getattr(x, "requires_grad", False) for x in operands):
        return
    if around := _OBSERVING.get():  # it depends on the operands of that body
        for observer in around:
            observer.cut = cut
        return
    raise CaptureError(
        f"[{op}] gradients go through its body, which cuts some of them off ({cut}): no graph "
        f"keeps that. Do it before, and pass the result as an operand"
    )


def joined(bodies: Sequence[Body], given: int) -> tuple[list[Graph], list[Array]]:
    """The graphs of several bodies of the same ``given`` arguments with the same inputs: these, and
    then what any of them uses from around it."""
    every: dict[int, Array] = {}
    for body in bodies:
        for x in body.closed:
            known = every.setdefault(id(x._adapter), x)
            if x._priority > known._priority:
                every[id(x._adapter)] = x
    graphs = []
    for graph, closed, *_ in bodies:
        own = dict(zip([id(x._adapter) for x in closed], graph.inputs[given:], strict=True))
        inputs = graph.inputs[:given]
        for key, x in every.items():
            inputs.append(own.get(key) or graph.value(tuple(x.shape), x.dtype))
        graphs.append(graph.replace(inputs=inputs))
    return graphs, list(every.values())


def placeholder(x: Array, row: bool = False) -> Tensor:
    """A tensor like ``x``, or like a row of it, on ``null``."""
    shape = tuple(x.shape)[1:] if row else tuple(x.shape)
    return Tensor(NullAdapter(rules.Spec(shape, x.dtype, CPU)), registry.null_backend())


def _without_watching() -> Stack | None:
    # The layers of this context that may change results: what happens in a body is seen when it
    # runs.
    made: Stack | None = None
    for layer in reversed([layer for layer in active(Layer) if not layer.watches]):
        made = Stack(made, layer)
    return made


class _BodyTrace(trace):
    """Takes in what comes from around a body."""

    def __init__(self, op: str, whole: Any) -> None:
        super().__init__(whole)
        self.op = op
        self.outer: Callable[[Any], Any] | None = None
        #: By adapter: arrays from around the body; numbers and their dtypes; backends.
        self.closed: dict[int, Array] = {}
        self._numbers: dict[int, tuple[HostNumber, Any]] = {}
        self._backends: dict[int, Any] = {}
        self._adopted: dict[int, Tensor] = {}
        self._backend: Any = None

    def adopt(self, x: Any) -> Any:
        """What takes the place of ``x``, of another backend, in the body."""
        null = registry.null_backend()
        known = self.graph.find(x._adapter) is not None
        if x._backend is not null and self.outer is not None and not known:
            x = self.outer(x)
        if x._backend is null:
            return x
        inner = self._adopted.get(id(x._adapter))
        if inner is None:
            if self.graph.find(x._adapter) is None:
                self.closed[id(x._adapter)] = x
            value = self._value(x._adapter)
            inner = self._adopted[id(x._adapter)] = placeholder(x)
            self.graph.alias(inner.adapter, value)
        return inner if isinstance(x, Tensor) else x._lift(inner)

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        self._backend = operation.backend
        if operation.name in ("scalar", "constant") and isinstance(arguments[0], HostNumber):
            value, like, *rest = arguments
            dtype = like if rest else like.dtype
            made = NullAdapter(rules.Spec((), dtype, CPU))
            self._numbers[id(made)] = value, dtype
            self.graph.inputs.append(self.graph.add(made))
            return made
        return super().call(operation, *arguments, **options)

    def _value(self, adapter: Any) -> Value:
        if self.graph.find(adapter) is None:
            self._backends.setdefault(id(adapter), self._backend)
        return super()._value(adapter)

    def outside(self, value: Value, observers: Sequence[BodyObserver]) -> Callable[[], Array]:
        """How to get, in the context around the body, the array that an input stands for."""
        null = registry.null_backend()
        adapter = next(x for x, v in (self.graph._known or {}).values() if v is value)
        if id(adapter) in self._numbers:
            number, dtype = self._numbers[id(adapter)]
            return lambda: Tensor(ops_for(null).scalar(number, dtype, CPU), null)
        found = self.closed.get(id(adapter))
        for observer in observers:
            original = observer.original(adapter)
            found = found if original is None else original
        if found is None:
            backend = null if isinstance(adapter, NullAdapter) else self._backends[id(adapter)]
            found = Tensor(adapter, backend)
        array = found
        return lambda: array


def _refuse(op: str, graph: Graph) -> None:
    if graph.reads:
        raise CaptureError(f"[{op}] its body looks at data")
    if graph.fixed:
        names = ", ".join(dict.fromkeys(fixed.name for fixed in graph.fixed))
        raise CaptureError(
            f"[{op}] its body uses numbers of one step ({names}): draw random numbers before it, "
            f"and pass them as operands"
        )
    for node in graph.nodes:
        for name, value in node.parameters.items():
            if any(isinstance(part, HostNumber) for part in _flat(value)):
                raise CaptureError(
                    f"[{op}] its body uses a number that changes from step to step as {name} of "
                    f"{node.op}: pass it as an array"
                )


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _flat(part)
    else:
        yield value
