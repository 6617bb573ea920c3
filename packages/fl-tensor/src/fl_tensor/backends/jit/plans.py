"""Which way a trace is run: call by call when its structure is new, by a plan when it is heavy, or
has come again and its plan is ready."""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

from fl_tensor.backends.jit import extensions, lower
from fl_tensor.backends.jit.interpret import interpret
from fl_tensor.backends.jit.lazy import Call, Stream, Trace
from fl_tensor.backends.jit.making import JitWarning, Making
from fl_tensor.backends.jit.plan import Plan
from fl_tensor.backends.jit.translate import Translation
from fl_tensor.backends.jit.worth import Worth, is_heavy
from fl_tensor.graph.ir import Node

#: How many plans, and how many sightings, are remembered, least recently used first forgotten.
MOST = 256
MOST_SIGHTINGS = 4096


class Structure(NamedTuple):
    """What a plan depends on: the calls, which results are seen, how the leaves lie, and what is
    registered from outside (``extensions``)."""

    calls: tuple[Call, ...]
    seen: tuple[bool, ...]
    leaves: tuple[Any, ...]
    version: int


_every: weakref.WeakSet[Plans] = weakref.WeakSet()


def _forked() -> None:
    # Another thread, which does not come along, may have held a lock.
    for plans in list(_every):
        plans._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Plans:
    """The plans of a backend. Without llvmlite nothing is fused: a plan is then the operations that
    are needed, in NumPy.

    sightings   at which sighting of a structure its plan is made (1: always at once). Its strides
                are no part of that: weights that lie otherwise after a step are no new beginning
    background  plans are made while traces go on being run call by call; False: at once. Those of
                heavy traces always are, as call by call takes longer than to make them
    worth       is told what came of each trace
    """

    def __init__(
        self,
        eager: Any,
        fusible: Callable[[Node], bool] | None = None,
        worth: Worth | None = None,
    ) -> None:
        self.eager = eager
        self.fusible = fusible or (lower.fusible if find_spec("llvmlite") else _none)
        self.sightings = int(os.environ.get("FL_JIT_SIGHTINGS") or 2)
        self.background = os.environ.get("FL_JIT_BACKGROUND") != "0" and self.sightings > 1
        self.worth = worth or Worth()
        if self.sightings == 1:
            self.worth.patience = 0
        self._lock = threading.Lock()
        _every.add(self)
        self._found: OrderedDict[Structure, Making] = OrderedDict()
        self._sighted: OrderedDict[int, int] = OrderedDict()

    def execute(self, trace: Trace, seen: list[bool]) -> None:
        """Compute the results of ``trace`` that are ``seen``."""
        key = structure(trace, seen)
        with self._lock:
            making = self._found.get(key)
            if making is not None:
                self._found.move_to_end(key)
        if making is None:
            making = self._sight(key, trace, seen)
        if making is None:
            interpret(self.eager, trace, seen)
            return
        if making.plan is None and interpret(self.eager, trace, seen, making):
            self._look_after(making, trace)
            return
        plan = making.plan
        assert plan is not None  # now
        for number, array in zip(plan.outputs, plan.run(trace.leaves), strict=True):
            trace.results[number].array = array
        if making.pays:
            self.worth.paid()
        else:
            self.worth.in_vain(trace.calls, trace.leaves)

    def _sight(self, key: Structure, trace: Trace, seen: list[bool]) -> Making | None:
        # What is known of a structure that has no plan yet: soon it will have one, or not.
        sighted = hash((key.calls, key.seen, key.version))
        with self._lock:
            count = self._sighted[sighted] = self._sighted.get(sighted, 0) + 1
            self._sighted.move_to_end(sighted)
            if len(self._sighted) > MOST_SIGHTINGS:
                self._sighted.popitem(last=False)
        at_once = is_heavy(trace.calls, trace.leaves)
        if count < self.sightings and not at_once:
            self.worth.in_vain(trace.calls, trace.leaves)
            return None
        making = Making(trace, seen, self._made)
        with self._lock:
            self._found[key] = making
            if len(self._found) > MOST:
                self._found.popitem(last=False)
        if at_once or not self.background:
            making.run()
        else:
            making.submit()
        return making

    def _made(self, translation: Translation, leaves: list[Any]) -> Plan:
        return Plan(translation, leaves, self.eager, self.fusible)

    def _look_after(self, making: Making, trace: Trace) -> None:
        # A trace was run call by call, although a plan was asked for.
        if making.lost():
            making.submit()
        error = making.error
        if error is not None:
            self.worth.in_vain(trace.calls, trace.leaves)
            if not making.reported:
                making.reported = True
                warnings.warn(
                    f"a computation of {len(trace.calls)} operations runs one by one from now on, "
                    f"because its plan could not be made: {type(error).__name__}: {error}",
                    JitWarning,
                    stacklevel=2,
                )

    def wait(self) -> None:
        """Return when no plan is being made any more."""
        for making in self._all():
            making.wait()

    def kept(self) -> list[Plan]:
        """The plans that are remembered, least recently used first."""
        return [making.plan for making in self._all() if making.plan is not None]

    def _all(self) -> list[Making]:
        with self._lock:
            return list(self._found.values())


def _none(node: Node) -> bool:
    return False


def structure(trace: Trace, seen: list[bool]) -> Structure:
    """The structure of ``trace`` at this moment."""
    kinds = tuple([_kind(leaf) for leaf in trace.leaves])
    version = extensions.current().version
    return Structure(tuple(trace.calls), tuple(seen), kinds, version)


def _kind(leaf: Any) -> Any:
    if leaf.__class__ is Stream:
        return None
    return leaf.dtype.name, leaf.shape, leaf.array.strides if leaf.shape else ()
