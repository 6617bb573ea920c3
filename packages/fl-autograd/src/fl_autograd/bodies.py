"""Variables around a body of control flow, found while it is traced (``fl_tensor.graph.bodies``).

A graph knows values and no history. So operations of the body on variables come here first: a
variable with a history from around the body is an operand of the loop, and has its gradient. Calls
such as ``detach`` are noted, as a graph cannot keep them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fl_autograd import casting
from fl_autograd.dispatch import own_tape
from fl_autograd.mode import BODY, Recorder, isolated_recording, recording
from fl_autograd.node import Node
from fl_autograd.variable import Variable
from fl_tensor import Array
from fl_tensor.extend import active, operation_names
from fl_tensor.graph.bodies import OBSERVERS
from fl_tensor.graph.control import CONTROL

__all__: list[str] = []


class _Observer(Recorder):
    def __init__(self, below: Callable[[Any], Any]) -> None:
        self.below = below
        self.cut = ""
        self._seen: dict[int, Variable] = {}
        self._spaces: dict[Any, _Namespace] = {}

    def begin(self, x: Any) -> Any:
        """Every value may have a history in a later step."""
        if isinstance(x, Variable) and x.dtype.kind in "fc" and recording() is not False:
            x.requires_grad = True
        return x

    def original(self, adapter: Any) -> Array | None:
        return self._seen.get(id(adapter))

    def namespace(self, base: Any) -> Any:
        """The tape over a backend, which shows its operands."""
        found = self._spaces.get(base)
        if found is None:
            found = self._spaces[base] = _Namespace(self.below(base), self)
        return found

    def note(self, operands: Any) -> None:
        for x in operands:
            if isinstance(x, Variable):
                if x._node is not None:
                    self._seen.setdefault(id(x._adapter), x)
            elif isinstance(x, (list, tuple)):
                self.note(x)

    def cuts(self, what: str) -> None:
        self.cut = what

    def recorded(self, node: Node, result: Variable) -> Node:
        if node.rule is not None and node.rule.name not in _KEPT:
            self.cut = f"{node.rule.name}, which has a gradient of its own"
        return node


class _Namespace:
    """A tape whose operands a observer sees."""

    def __init__(self, tape: Any, observer: _Observer) -> None:
        self._tape, self._observer = tape, observer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._tape, name)
        if not callable(method):
            return method

        def operation(*arguments: Any, **options: Any) -> Any:
            self._observer.note((*arguments, *options.values()))
            return method(*arguments, **options)

        return operation


@contextmanager
def _observed() -> Iterator[_Observer]:
    observer = _Observer(_current_tapes())
    blocks = [layer for layer in active(casting.CastLayer) if isinstance(layer, casting.autocast)]
    before = [block._casts for block in blocks]
    for block in blocks:  # a cast inside is no value outside
        block._casts = dict(block._casts)
    token = BODY.set(observer.cuts)
    try:
        if recording() is False:
            yield observer
        else:
            with isolated_recording(observer, observer.namespace):
                yield observer
    finally:
        BODY.reset(token)
        for block, casts in zip(blocks, before):
            block._casts = casts


def _current_tapes() -> Callable[[Any], Any]:
    # As chosen in the context around the body.
    mode = recording()
    chosen = None if isinstance(mode, bool) else mode.tape_for
    return chosen or own_tape


#: Operations whose gradients graphs keep.
_KEPT = operation_names() | CONTROL | {"part"}

OBSERVERS.append(_observed)
