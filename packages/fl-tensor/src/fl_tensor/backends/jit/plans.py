"""Which way a trace is run: call by call when its structure is new, by a plan once it has come
again."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from fl_tensor.backends.jit import extensions, lower
from fl_tensor.backends.jit.interpret import interpret
from fl_tensor.backends.jit.lazy import Stream, Trace
from fl_tensor.backends.jit.plan import Plan
from fl_tensor.backends.jit.translate import Translation
from fl_tensor.graph.ir import Node

#: How many structures are remembered, least recently used first forgotten.
MOST = 256


class Plans:
    """The plans of a backend. ``sightings``: at which sighting of a structure its plan is made.
    Without llvmlite nothing is fused: a plan is then the operations that are needed, in NumPy."""

    def __init__(self, eager: Any, fusible: Callable[[Node], bool] | None = None) -> None:
        self.eager = eager
        self.fusible = fusible or (lower.fusible if find_spec("llvmlite") else _none)
        self.sightings = int(os.environ.get("FL_JIT_SIGHTINGS") or 2)
        self._lock = threading.Lock()
        self._seen: OrderedDict[Any, int | Plan] = OrderedDict()

    def execute(self, trace: Trace, seen: list[bool]) -> None:
        """Compute the results of ``trace`` that are ``seen``."""
        key = structure(trace, seen)
        with self._lock:
            found = self._seen.get(key, 0)
            if isinstance(found, int):
                self._seen[key] = found = found + 1
            self._seen.move_to_end(key)
            if len(self._seen) > MOST:
                self._seen.popitem(last=False)
        if isinstance(found, int):
            if found < self.sightings:
                interpret(self.eager, trace, seen)
                return
            translation = Translation(trace.calls, trace.leaves, seen)
            found = Plan(translation, trace.leaves, self.eager, self.fusible)
            with self._lock:
                self._seen[key] = found
        for number, array in zip(found.outputs, found.run(trace.leaves), strict=True):
            trace.results[number].array = array

    def kept(self) -> list[Plan]:
        """The plans that are remembered, least recently used first."""
        with self._lock:
            return [found for found in self._seen.values() if isinstance(found, Plan)]


def _none(node: Node) -> bool:
    return False


def structure(trace: Trace, seen: list[bool]) -> Any:
    """What a plan depends on: the calls, which results are seen, how the leaves lie, and what is
    registered from outside."""
    kinds = tuple([_kind(leaf) for leaf in trace.leaves])
    return tuple(trace.calls), tuple(seen), kinds, extensions.current().version


def _kind(leaf: Any) -> Any:
    if leaf.__class__ is Stream:
        return None
    return leaf.dtype.name, leaf.shape, leaf.array.strides if leaf.shape else ()
