"""``checkpoint``: memory for time. What a function keeps for its gradients is thrown away, and
computed again in the backward pass (T. Chen et al., "Training deep nets with sublinear memory
cost", 2016).

The graph is recorded as always, but its nodes hold a promise in place of values. The first promise
that the backward pass asks for runs the function again, and the values that this saves keep all of
them. So everything a graph can do still works: closures, ``grad``, hooks, several outputs, higher
orders, checkpoints within checkpoints.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fl_autograd.errors import GradError
from fl_autograd.mode import Recorder, Recording, alone, is_grad_enabled, recording
from fl_autograd.node import Node
from fl_autograd.variable import Variable, variable
from fl_tensor.array import Array
from fl_tensor.random import Draws
from fl_tensor.stack import Operation, Wrapper, operation_names

_recomputing: ContextVar[bool] = ContextVar("fl_autograd_recomputing", default=False)

#: Whether the function of a ``checkpoint`` runs for the second time in this context. What a forward
#: pass does besides its results (running statistics, counters) is not to be done then.
is_recomputing: Callable[[], bool] = _recomputing.get


def checkpoint(
    function: Callable[..., Any], *args: Any, policy: Collection[str] = (), **kwargs: Any
) -> Any:
    """``function(*args, **kwargs)``, keeping the arguments and not what lies between: it runs again
    in the backward pass. Gradients are the same bit for bit; random draws repeat.

    policy  names of operations whose results are kept and not computed again: the dear ones, such
            as ``("matmul", "linear", "conv")``. Empty: everything is computed again.

    The function must do the same both times, with the same parameters: between the passes nothing
    that it uses may be changed (GradError where the operations turn out to be others). It should do
    nothing besides, or ask ``is_recomputing()``. Each backward pass over a graph that is retained
    computes again.
    """
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
        #: Results of the operations that the policy names, in order.
        self.results: list[Any] = []
        #: The operations whose nodes had something to keep, in order.
        self.names: list[str] = []
        #: What they keep, while a backward pass is under way; None once handed out.
        self.values: list[Any] = []
        active = recording()
        self.tape_for = active.tape_for if isinstance(active, Recording) else None

    def first(self, *args: Any, **kwargs: Any) -> Any:
        with self.draws, _Promising(self), _layer(_Keeping, self.policy, self.results):
            return self.function(*args, **kwargs)

    def again(self) -> None:
        """Run the function once more, for what its nodes save."""
        seen = _Collecting()
        args, kwargs = _handles(self.given)
        with (
            self.draws.again(),
            alone(seen, self.tape_for),
            _layer(_Replaying, self.policy, self.results),
            _flagged(),
        ):
            self.function(*args, **kwargs)
        if seen.names != self.names:
            raise GradError(
                f"[checkpoint] {getattr(self.function, '__qualname__', self.function)!s} did "
                f"something else when it ran again: {_difference(self.names, seen.names)}. It must "
                f"depend on its arguments, on parameters that stay the same until the backward "
                f"pass, and on nothing else"
            )
        self.values = seen.values


class _Promise:
    """Stands in ``Node.saved`` for what the region's function will save there."""

    __slots__ = ("number", "region")

    def __init__(self, region: _Region, number: int) -> None:
        self.region = region
        self.number = number

    def restore(self) -> Any:
        """The values; the region forgets them, as a pass needs them once."""
        region, number = self.region, self.number
        if number >= len(region.values) or region.values[number] is None:
            region.again()
        found, region.values[number] = region.values[number], None
        return found


class _Promising(Recorder):
    def __init__(self, region: _Region) -> None:
        self.region = region

    def recorded(self, node: Node, result: Variable) -> Node:
        if _keeps_arrays(node):
            names = self.region.names
            node.saved = _Promise(self.region, len(names))
            names.append(node.name)
        return node


class _Collecting(Recorder):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.values: list[Any] = []

    def recorded(self, node: Node, result: Variable) -> Node:
        if _keeps_arrays(node):
            self.names.append(node.name)
            self.values.append(node.saved)
        return node


class _Keeping(Wrapper):
    """Takes the results of some operations down."""

    def __init__(self, names: frozenset[str], results: list[Any]) -> None:
        self.names = names
        self.results = results
        self.inside = False  # of one that is taken down as a whole

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if self.inside or operation.name not in self.names:
            return operation.run(*arguments, **options)
        self.inside = True
        try:
            self.results.append(operation.run(*arguments, **options))
        finally:
            self.inside = False
        return self.results[-1]


class _Replaying(Wrapper):
    """Gives them back in the same order."""

    def __init__(self, names: frozenset[str], results: list[Any]) -> None:
        self.names = names
        self.results = iter(results)

    def call(self, operation: Operation, /, *arguments: Any, **options: Any) -> Any:
        if operation.name in self.names:
            for result in self.results:
                return result
        return operation.run(*arguments, **options)


@contextmanager
def _layer(
    kind: type[_Keeping] | type[_Replaying], names: frozenset[str], results: list[Any]
) -> Iterator[None]:
    if not names:
        yield
        return
    layer = kind(names, results)
    try:
        with layer:
            yield
    finally:
        del layer.results  # a stack of layers lives until the next collection: not with the values


def _keeps_arrays(node: Node) -> bool:
    return node.rule is not None and bool(node.rule.lifts)


@contextmanager
def _flagged() -> Iterator[None]:
    token = _recomputing.set(True)
    try:
        yield
    finally:
        _recomputing.reset(token)


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


def _difference(before: list[str], after: list[str]) -> str:
    for i, (a, b) in enumerate(zip(before, after)):
        if a != b:
            return f"operation {i} was {a}, then {b}"
    return f"{len(before)} operations kept values, then {len(after)}"
