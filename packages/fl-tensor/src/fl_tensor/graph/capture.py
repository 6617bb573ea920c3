"""Capture: the graph of a function, recorded without data.

The function runs on ``null``, with values that have a shape and a dtype in the place of its
arguments and of its state. So nothing is computed, and what depends on data is an error with the
line that asked. Numbers of the host are symbols (``host_numbers``).

It runs twice, and the second time the numbers have other values. A difference between the two
graphs is a ``CaptureError``: a number that lost its expression, a random stream, a counter in the
caller's code. One graph would repeat its value for ever.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple, Protocol

from fl_tensor import rules
from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.assumptions import ASSUMED
from fl_tensor.backends.null import NullAdapter
from fl_tensor.dispatch import registry
from fl_tensor.dispatch.frontend import ADOPT
from fl_tensor.dispatch.stack import Operation
from fl_tensor.errors import CaptureError
from fl_tensor.functions import elementwise
from fl_tensor.graph import pytree
from fl_tensor.graph.bodies import placeholder
from fl_tensor.graph.closures import Effects, Place, places
from fl_tensor.graph.host_numbers import HostNumber, Recorder, evaluator, expression_of
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.wrappers.trace import trace

__all__ = ["Capture", "NumberSlot", "State", "TensorSlot", "Unready", "capture", "placeholder"]


class Unready(CaptureError):
    """The state is not complete yet: the next call of the function itself makes it, and then the
    signature is another one."""


class TensorSlot(NamedTuple):
    """A place that holds a tensor. ``put`` takes a tensor of any backend."""

    name: str
    get: Callable[[], Tensor]
    put: Callable[[Tensor], object]


class NumberSlot(NamedTuple):
    """A place that holds an int or a float, which may be another one at each call."""

    name: str
    get: Callable[[], Any]
    put: Callable[[Any], object]


class State(Protocol):
    """What a function reads and replaces beside its arguments."""

    #: Classes of objects whose changes the state knows about.
    owned: tuple[type, ...]

    def signature(self) -> Hashable:
        """Equal where one graph is right for both: everything that decides what the function does,
        but for the values in slots."""

    def slots(self) -> tuple[list[TensorSlot], list[NumberSlot]]:
        """The places that hold values. Equal signatures have equal lists."""

    def preserved(self) -> AbstractContextManager[object]:
        """Everything that a call changes is as before at the end of the block."""

    def made(self, written: Collection[str]) -> tuple[list[TensorSlot], Callable[[], None]]:
        """After a call that replaced the tensors of the slots with these names: places of tensors
        that it left and did not read, as gradients are; and what has to happen before a graph puts
        its results in the place of those of the function."""


class Capture(NamedTuple):
    """A captured function.

    graph     inputs: arrays among the arguments, the slots of tensors, and the ``closure``;
              outputs: arrays of the result, the values of the ``written`` slots, and ``assumed``
              flags (``fl_tensor.assumptions``)
    result    the structure of the result
    closure   the arrays that the function finds in variables around it
    written   the slots whose tensors are replaced
    clear     to be called before they are
    names     of host numbers: of arguments, then of slots
    updates   of slots of numbers that change: number, and source of the new value
    guards    whether the graph is right for these numbers
    assumed   how many flags the graph takes for true
    kept      so many of ``written``, the first ones, have their old values where a flag is false
    """

    graph: Graph
    result: pytree.Structure
    closure: tuple[Place, ...]
    written: tuple[TensorSlot, ...]
    clear: Callable[[], None]
    names: tuple[str, ...]
    updates: tuple[tuple[int, str], ...]
    guards: dict[str, Any]
    assumed: int
    kept: int

    def is_right(self) -> Callable[..., bool]:
        """A function of the host numbers: whether all guards hold."""
        wanted = tuple(self.guards.values())
        values = evaluator(self.guards, self.names)

        def holds(*numbers: Any) -> bool:
            try:
                return values(*numbers) == wanted
            except (ArithmeticError, ValueError):
                return False

        return holds


class _Recording(trace):
    """Also records numbers beside arrays that are symbols, which no backend can keep, and arrays of
    other backends, from outside of the function."""

    def __init__(self, whole: frozenset[str]) -> None:
        super().__init__(whole)
        self._adopted: dict[int, Tensor] = {}

    def adopt(self, x: Any) -> Any:
        """What takes the place of ``x`` beside the arguments."""
        if x._backend is registry.null_backend():
            return x
        if getattr(x, "requires_grad", False):
            raise CaptureError(
                f"it takes the gradient by a {type(x).__name__} of shape {tuple(x.shape)} that is "
                f"neither an argument nor part of the state"
            )
        inner = self._adopted.get(id(x._adapter))
        if inner is None:
            value = self._value(x._adapter)
            inner = self._adopted[id(x._adapter)] = placeholder(x)
            self.graph.alias(inner.adapter, value)
        return inner if isinstance(x, Tensor) else x._lift(inner)

    def outside(self, value: Value) -> Any:
        """The adapter, from before, of an input."""
        known = self.graph._known or {}
        return next(x for x, v in known.values() if v is value and type(x) is not NullAdapter)

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if operation.name in ("scalar", "constant"):
            value, like, *rest = arguments
            if isinstance(value, HostNumber):
                dtype, device = (like, rest[0]) if rest else (like.dtype, like.device)
                made = NullAdapter(rules.Spec((), dtype, device))
                with self._lock:
                    self._record("full", ((), value, dtype, device), {}, made)
                return made
        return super().call(operation, *arguments, **options)


def capture(
    function: Callable[..., Any],
    arguments: Any,
    state: State,
    whole: frozenset[str],
    keeps: bool = False,
) -> Capture:
    """The graph of ``function(*arguments[0], **arguments[1])``.

    whole  names of derived operations that stay one node: those that the backend has itself
    keeps  the graph selects the old state where a flag that it takes for true is false: operands
           may then be overwritten

    Raises CaptureError where there is none.
    """
    first = _record(function, arguments, state, whole, keeps)
    failure: Exception | None = None
    for change in _CHANGES:
        try:
            second = _record(function, arguments, state, whole, keeps, change)
        except Exception as error:  # these numbers make no sense to the function
            failure = error
            continue
        if second.guards == first.guards:
            break
    else:
        raise failure or CaptureError(
            "decisions depend on numbers that change with every step: "
            + "; ".join(sorted(first.guards)[:4])
        )
    if difference := _difference(first, second):
        raise CaptureError(
            f"it does not do the same twice: {difference}. A number that changes from step to step "
            f"has to be an argument, or part of the state"
        )
    return first


#: What the second capture makes of the numbers: added to ints, and a part of floats.
_CHANGES = (1, 2, -1, 3)


def _changed(value: Any, change: int) -> Any:
    if not change or type(value) not in (int, float):
        return value
    return value + change if type(value) is int else value * (1.0 + change / 64.0)


def _record(
    function: Callable[..., Any],
    arguments: Any,
    state: State,
    whole: frozenset[str],
    keeps: bool,
    change: int = 0,
) -> Capture:
    recorder = Recorder()
    names: list[str] = []
    leaves, structure = pytree.flatten(arguments)
    tensors, numbers = state.slots()

    def symbol(value: Any) -> Any:
        names.append(f"n{len(names)}")
        return recorder.number(_changed(value, change), names[-1])

    recording = _Recording(whole)
    with ExitStack() as stack:
        effects = Effects(function, state.owned)
        stack.callback(effects.restore)
        stack.enter_context(state.preserved())
        stack.enter_context(registry.use(registry.null_backend()))
        graph = stack.enter_context(recording)
        stack.callback(ADOPT.reset, ADOPT.set(recording.adopt))
        given = []
        placed: dict[str, Tensor] = {}
        for leaf in leaves:
            if isinstance(leaf, Array):
                inner = placeholder(leaf)
                graph.input(inner, f"argument{len(graph.inputs)}")
                given.append(inner if isinstance(leaf, Tensor) else leaf._lift(inner))
            else:
                given.append(symbol(leaf) if type(leaf) is float else leaf)
        for slot in tensors:
            inner = placeholder(slot.get())
            graph.input(inner, slot.name)
            placed[slot.name] = inner
            slot.put(inner)
        for number in numbers:
            number.put(symbol(number.get()))
        assumed: list[Tensor] = []
        stack.callback(ASSUMED.reset, ASSUMED.set(assumed))
        known = len(graph.inputs)
        inputs = list(graph.inputs)
        values_given = [x._adapter if isinstance(x, Array) else x for x in given]
        positional, named = pytree.unflatten(structure, given)
        _, structure_given = pytree.flatten((positional, named))
        result = function(*positional, **named)
        outputs, shape = pytree.flatten(result)
        now, structure_now = pytree.flatten((positional, named))
        values_now = [x._adapter if isinstance(x, Array) else x for x in now]
        changed = effects.changed()
        if structure_now != structure_given or not all(map(operator.is_, values_now, values_given)):
            changed.insert(0, "its arguments")
        if changed:
            raise CaptureError(
                f"it changes {', '.join(changed[:4])}, which no graph does: do that around it"
            )
        returned = [x for x in outputs if isinstance(x, Array)]
        plain = [expression_of(x) for x in outputs if not isinstance(x, Array)]
        graph.output(*returned)
        starts = inputs[known - len(tensors) :]
        written = [
            slot
            for slot, start in zip(tensors, starts, strict=True)
            if graph.find(slot.get().adapter) is not start
        ]
        more, clear = state.made({slot.name for slot in written})
        kept = len(written) if keeps and assumed else 0
        new = [slot.get() for slot in written]
        if kept:
            flag = functools.reduce(operator.and_, assumed)
            old = [placed[slot.name] for slot in written]
            new = [elementwise.where(flag, x, y) for x, y in zip(new, old, strict=True)]
        written += more
        graph.output(*new, *[slot.get() for slot in more], *assumed)
        values = [number.get() for number in numbers]
        inputs_outside = graph.inputs[known:]
        outside = [recording.outside(value) for value in inputs_outside]
    if graph.reads:
        raise CaptureError("it looks at data")
    own = names[len(names) - len(numbers) :]
    updates = [
        (i, source)
        for i, (name, value) in enumerate(zip(own, values, strict=True))
        if (source := value.source if isinstance(value, HostNumber) else repr(value)) != name
    ]
    nodes = [
        Node(n.op, n.inputs, {k: expression_of(v) for k, v in n.parameters.items()}, n.outputs)
        for n in graph.nodes
    ]
    made = Graph(graph.inputs, graph.constants, nodes, graph.outputs).prune()
    found = _found(function, outside)
    for value, place in zip(inputs_outside, found, strict=True):
        value.name = place.name
    return Capture(
        made,
        shape.with_plain(plain),
        found,
        tuple(written),
        clear,
        tuple(names),
        tuple(updates),
        recorder.guards,
        len(assumed),
        kept,
    )


def _found(function: Any, outside: list[Any]) -> tuple[Place, ...]:
    """Where the function has the adapters from. Raises CaptureError for one that it has not from a
    variable: nobody could tell when it is another one."""
    if not outside:
        return ()
    held = {
        id(place.value._tensor().adapter): place
        for place in places(function)
        if isinstance(place.value, Array)
    }
    if missing := [x for x in outside if id(x) not in held]:
        names = ", ".join(f"{x.dtype}{tuple(x.shape)}" for x in missing[:4])
        raise CaptureError(
            f"it uses arrays that are neither arguments, nor state, nor variables around it: "
            f"{names}. Pass them as arguments"
        )
    return tuple([held[id(x)] for x in outside])


def _difference(one: Capture, other: Capture) -> str:
    # What is not the same in two captures, in words; "" where nothing is.
    if len(one.graph.nodes) != len(other.graph.nodes):
        return f"{len(one.graph.nodes)} operations, then {len(other.graph.nodes)}"
    for a, b in zip(one.graph.nodes, other.graph.nodes, strict=True):
        if a.op != b.op or _ids(a) != _ids(b):
            return f"{a.op}, then {b.op}"
        for name, value in a.parameters.items():
            if isinstance(value, Graph):
                if value.to_json() != b.parameters[name].to_json():
                    return f"the {name} of {a.op}"
            elif repr(value) != repr(b.parameters[name]):
                return f"{name} of {a.op} is {value}, then {b.parameters[name]}"
    if [c.data for c in one.graph.constants] != [c.data for c in other.graph.constants]:
        return "an array that it makes of Python's numbers has other values"
    if _numbers(one.graph.outputs) != _numbers(other.graph.outputs):
        return "other results"
    if one.result != other.result:
        return "a result that is no array"
    written = [[slot.name for slot in each.written] for each in (one, other)]
    if written[0] != written[1] or one.updates != other.updates:
        return "a number of the state"
    return ""


def _ids(node: Node) -> Any:
    return _numbers(node.operands), _numbers(node.outputs), [v.type for v in node.outputs]


def _numbers(values: Sequence[Value]) -> list[int]:
    return [value.id for value in values]
