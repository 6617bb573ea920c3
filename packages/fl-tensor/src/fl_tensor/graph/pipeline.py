"""The pipeline: graph passes in order.

A pass is a function from a graph to a graph that computes the same. Those that come with the
library are correct by their tests; what others add is checked after each run, and left out with a
warning where it fails: a computation never depends on it.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from fl_tensor.errors import ArgumentError
from fl_tensor.graph.ir import Graph, Value

__all__ = ["Function", "Pass", "PassWarning", "Pipeline", "check"]

Function: TypeAlias = Callable[[Graph], Graph]


class PassWarning(RuntimeWarning):
    """A pass from outside that raised, or gave no sound graph, and was left out."""


class Pass(NamedTuple):
    """``trusted``: nobody checks what it gives."""

    name: str
    function: Function
    trusted: bool = False


class Pipeline:
    """Named passes, run one after the other. Pipelines are not changed: ``adding`` and ``without``
    give others."""

    def __init__(self, passes: Iterable[Pass] = ()) -> None:
        self.passes = tuple(passes)

    @property
    def names(self) -> list[str]:
        """The names of the passes in their order."""
        return [each.name for each in self.passes]

    def adding(
        self, name: str, function: Function, before: str | None = None, after: str | None = None
    ) -> Pipeline:
        """The pipeline with one more pass: right before or right after another one, or last.
        Raises ArgumentError for a name that is there, or one to go by that is not."""
        if name in self.names:
            raise ArgumentError(f"[pass] there is a pass {name!r} already: choose another name")
        if before is not None and after is not None:
            raise ArgumentError(f"[pass] {name!r} before {before!r} and after {after!r}: say one")
        place = len(self.passes)
        if before is not None:
            place = self._place(before)
        elif after is not None:
            place = self._place(after) + 1
        made = Pass(name, function)
        return Pipeline((*self.passes[:place], made, *self.passes[place:]))

    def without(self, name: str) -> Pipeline:
        """The pipeline without that pass. Raises ArgumentError if there is none."""
        place = self._place(name)
        return Pipeline((*self.passes[:place], *self.passes[place + 1 :]))

    def run(self, graph: Graph) -> Graph:
        """What the passes make of ``graph``."""
        for name, function, trusted in self.passes:
            if trusted:
                graph = function(graph)
                continue
            try:
                made = function(graph)
                check(made, graph)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                # The stack ends in whatever asked for a result: no line of it is at fault.
                warnings.warn(f"pass {name!r} was left out: {said}", PassWarning, stacklevel=2)
            else:
                graph = made.prune()
        return graph

    def _place(self, name: str) -> int:
        if name in self.names:
            return self.names.index(name)
        near = difflib.get_close_matches(name, self.names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self.names)}"
        raise ArgumentError(f"[pass] there is no pass {name!r}: {hint}")


def check(graph: Graph, of: Graph) -> None:
    """Raises ArgumentError unless ``graph`` is sound, and is called as ``of`` is: the same inputs,
    outputs of the same types."""
    if not isinstance(graph, Graph):
        raise ArgumentError(f"it gave a {type(graph).__name__}, not a Graph")
    if graph.inputs != of.inputs:
        raise ArgumentError("its graph has other inputs than the one that it was given")
    made: set[Value] = {*graph.inputs, *(c.value for c in graph.constants)}
    for node in graph.nodes:
        for value in node.operands:
            if value not in made:
                raise ArgumentError(f"{node}: operand {value} is made by nobody before it")
        for value in node.outputs:
            if value in made:
                raise ArgumentError(f"{node}: {value} is made twice")
            made.add(value)
    found = [(v.shape, v.dtype) for v in graph.outputs]
    wanted = [(v.shape, v.dtype) for v in of.outputs]
    if found != wanted:
        raise ArgumentError("its graph has outputs of other number, shapes or dtypes")
    if lost := [v for v in graph.outputs if v not in made]:
        raise ArgumentError(f"output {lost[0]} is made by nobody")
