"""``checkpoint``: gradient checkpointing, which trades time for memory.

The values that a function saves for its gradients are dropped, and computed again in the backward
pass (T. Chen et al., "Training deep nets with sublinear memory cost", 2016).

The graph is recorded as usual, but its nodes hold promises in place of values. The first promise
that the backward pass needs runs the function again, and the saved values fulfil all promises. So
closures, ``grad``, hooks, several outputs, higher orders and nested checkpoints work.

The second run has a copy of the context of the first: overrides, ``ft.use``, generators and other
context variables. Only the memory manager and observing layers are those of the backward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Any

import fl_memory
import fl_tensor as ft
from fl_autograd.errors import GradError
from fl_autograd.mode import (
    Recorder,
    RecorderStack,
    forget_recorders,
    is_grad_enabled,
    isolated_recording,
    recording,
)
from fl_autograd.node import Node
from fl_autograd.variable import Variable, variable
from fl_memory.causes import observed
from fl_tensor import Array, Operation, Wrapper
from fl_tensor.arguments import function_of
from fl_tensor.extend import Stack, current_stack, operation_names, revived, under
from fl_tensor.random import Draws

_recomputing: ContextVar[bool] = ContextVar("fl_autograd_recomputing", default=False)

#: Whether the function of a ``checkpoint`` runs for the second time in this context. What a forward
#: pass does besides its results (assign running statistics, count) is not to be done then; what it
#: computes must still be the same.
is_recomputing: Callable[[], bool] = _recomputing.get


def checkpoint(
    function: Callable[..., Any], *args: Any, policy: Collection[str] = (), **kwargs: Any
) -> Any:
    """``function(*args, **kwargs)``, keeping the arguments and not what lies between: it runs again
    in the backward pass. Gradients are the same bit for bit (but for the order of sums, where a
    deferred backend fuses other operations); random draws repeat.

    policy  names of operations whose results are kept and not computed again: the dear ones, such
            as ``("matmul", "linear", "conv")``. Empty: everything is computed again.

    The function must do the same both times, with the same parameters: between the passes nothing
    that it uses may be changed (GradError where the operations turn out to be others). It should do
    nothing besides, or ask ``is_recomputing()``. Each backward pass over a graph that is retained
    computes again.

    Blocks that were active around the call are active again, also when they were left before the
    backward pass: ``ft.override``, ``ft.use``, wrappers, every context variable; and blocks around
    the backward pass do not reach what is computed again. Wrappers that only watch
    (``Wrapper.watches``: ``ft.profile``, ``ft.count``, ``ft.check``, ``ft.trace``) and memory
    managers are those that are active in the backward pass.
    """
    function_of("checkpoint", function)
    if unknown := sorted(set(policy) - operation_names()):
        raise GradError(f"[checkpoint] the policy names {unknown[0]!r}, which is no operation")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    return _Region(function, args, kwargs, frozenset(policy)).first(*args, **kwargs)


class _Region:
    """One call of a function under ``checkpoint``."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        policy: frozenset[str],
    ) -> None:
        self.function = function
        self.given = _handles((args, kwargs))
        self.policy = policy
        self.draws = Draws()
        #: The operations that the policy names and their results, in order.
        self.kept: list[tuple[str, Any]] = []
        #: The operations whose nodes had something to keep, in order.
        self.names: list[str] = []
        #: What they keep, while a backward pass is under way (None once handed out) or the first
        #: run, which may differentiate something itself.
        self.values: list[Any] = []
        self.running = True
        active = recording()
        self.tape_for = active.tape_for if isinstance(active, RecorderStack) else None
        self.layers = current_stack()
        self.context = copy_context()
        self.context.run(forget_recorders)  # what they keep may lead back to this region

    def first(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with self.draws, _ForwardRecorder(self), _layer(_SaveResults, self.policy, self.kept):
                result = self.function(*args, **kwargs)
            # Where operations are put off: else both runs would be one computation, which finds
            # that the second repeats the first, and keeps what lies between.
            ft.eval(*_arrays(result))
            return result
        finally:
            self.running, self.values = False, []

    def again(self) -> None:
        """Run the function once more, for what its nodes save."""
        seen = _RecomputeRecorder()
        layers, manager = revived(self.layers), fl_memory.current()
        self.context.copy().run(self._replay, seen, layers, manager)
        spared = [name for name, _ in self.kept]
        difference = _difference(self.names, seen.names) or _difference(spared, seen.spared)
        if difference:
            raise GradError(
                f"[checkpoint] {getattr(self.function, '__qualname__', self.function)!s} did "
                f"something else when it ran again: {difference}. It must depend on its arguments, "
                f"on parameters that stay the same until the backward pass, and on nothing else"
            )
        self.values = seen.values

    def _replay(
        self, seen: _RecomputeRecorder, layers: Stack | None, manager: fl_memory.MemoryManager
    ) -> None:
        _recomputing.set(True)  # in a copied context, which ends with this call
        args, kwargs = _handles(self.given)
        with (
            fl_memory.use(manager),
            fl_memory.cause(phase="backward") if observed else nullcontext(),
            self.draws.again(),
            isolated_recording(seen, self.tape_for),
            under(layers),
            _layer(_ReplayResults, self.policy, self.kept, seen.spared),
        ):
            self.function(*args, **kwargs)


class _RecomputedValues:
    """Stands in ``Node.saved`` for what the region's function will save there."""

    __slots__ = ("number", "region")

    def __init__(self, region: _Region, number: int) -> None:
        self.region = region
        self.number = number

    def restore(self) -> Any:
        """The values; the region forgets them, as a pass needs them once."""
        region, number = self.region, self.number
        if region.running:
            return region.values[number]
        if number >= len(region.values) or region.values[number] is None:
            region.again()
        found, region.values[number] = region.values[number], None
        return found


class _ForwardRecorder(Recorder):
    def __init__(self, region: _Region) -> None:
        self.region = region

    def recorded(self, node: Node, result: Variable) -> Node:
        if _keeps_arrays(node):
            region = self.region
            region.values.append(node.saved)
            node.saved = _RecomputedValues(region, len(region.names))
            region.names.append(node.name)
        return node


class _RecomputeRecorder(Recorder):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.values: list[Any] = []
        #: The operations that were not computed again.
        self.spared: list[str] = []

    def recorded(self, node: Node, result: Variable) -> Node:
        if _keeps_arrays(node):
            self.names.append(node.name)
            self.values.append(node.saved)
        return node


class _SaveResults(Wrapper):
    """Takes the results of some operations down."""

    watches = True

    def __init__(self, names: frozenset[str], kept: list[tuple[str, Any]]) -> None:
        self.names = names
        self.kept = kept
        self.inside = False  # of one that is taken down as a whole

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if self.inside or operation.name not in self.names:
            return operation.run(*arguments, **options)
        self.inside = True
        try:
            result = operation.run(*arguments, **options)
        finally:
            self.inside = False
        self.kept.append((operation.name, result))
        return result


class _ReplayResults(Wrapper):
    """Gives them back in the same order, and notes which were asked for."""

    watches = True

    def __init__(
        self, names: frozenset[str], kept: list[tuple[str, Any]], spared: list[str]
    ) -> None:
        self.names = names
        self.kept = iter(kept)
        self.spared = spared

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if operation.name in self.names:
            self.spared.append(operation.name)
            name, result = next(self.kept, ("", None))
            if name == operation.name:
                return result
        return operation.run(*arguments, **options)


@contextmanager
def _layer(
    kind: type[_SaveResults] | type[_ReplayResults], names: frozenset[str], *lists: Any
) -> Iterator[None]:
    if not names:
        yield
        return
    layer = kind(names, *lists)
    try:
        with layer:
            yield
    finally:
        del layer.kept  # a stack of layers lives until the next collection: not with the values


def _keeps_arrays(node: Node) -> bool:
    return node.rule is not None and bool(node.rule.lifts)


def _handles(value: Any) -> Any:
    # Handles of our own: the function, or its caller, may assign to those that were passed.
    if isinstance(value, Variable):
        return variable(value._adapter, value._backend, value._node)
    if isinstance(value, Array):
        return copy.copy(value)
    if type(value) in (tuple, list):
        return type(value)(_handles(v) for v in value)
    if type(value) is dict:
        return {key: _handles(v) for key, v in value.items()}
    return value


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, Array):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [x for v in parts for x in _arrays(v)] if isinstance(value, (tuple, list, dict)) else []


def _difference(before: list[str], after: list[str]) -> str:
    for i, (a, b) in enumerate(zip(before, after)):
        if a != b:
            return f"operation {i} was {a}, then {b}"
    if len(before) == len(after):
        return ""
    return f"{len(before)} operations kept values, then {len(after)}"
