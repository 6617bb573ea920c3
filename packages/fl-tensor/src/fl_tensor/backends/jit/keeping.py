"""Weights that a plan keeps packed from one run to the next (``graph.factors``).

A plan notices that an operand is the array that it was before, and packs it (``numpy.kept``) when
products have lost as much by packing it themselves as that costs. If others then ask for the array
before it has paid, the plan waits twice as long the next time. Weights that are trained are new
values in every step, which products go on packing: what is packed for a layer lies wrong for the
gradient of its input.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fl_tensor import dtypes
from fl_tensor.backends.jit import following
from fl_tensor.backends.numpy import kept, provided
from fl_tensor.backends.numpy.kept import Kept
from fl_tensor.backends.providers import choose
from fl_tensor.backends.providers.layout import Packed
from fl_tensor.backends.providers.problems import Reorder
from fl_tensor.graph import cost
from fl_tensor.graph.factors import factors
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.layout import Layout
from fl_tensor.reproducible import is_reproducible


class Keep:
    """What a plan does with an operand that only products read: it gives the array, or what is kept
    in its place. ``turned``: they read its transpose; ``is_on``: it was packed at the last run."""

    is_on = False

    def __init__(self, layout: Packed, turned: bool) -> None:
        self.layout, self.turned = layout, turned
        self._last: Callable[[], Any] = lambda: None
        self._runs = 0  # with the same array
        self._until = cost.RUNS_UNTIL_KEPT
        self._unpaid = 0  # runs that have to follow for it to have paid

    def __call__(self, leaf: Any) -> Any:
        """The array of the adapter ``leaf``, or a ``Kept``."""
        found = self._found(leaf)
        self.is_on = found.__class__ is Kept
        return found

    def _found(self, leaf: Any) -> Any:
        if is_reproducible():  # where results may not depend on earlier runs
            return leaf.array
        found = kept.held(leaf)
        if found.__class__ is Kept:
            if found.layout != self.layout or found.turned is not self.turned:
                return leaf.array
            self._unpaid -= 1
            return found
        if self._last() is not found:
            if self._unpaid > 0:
                self._until *= 2
            self._last, self._runs, self._unpaid = weakref.ref(found), 0, 0
        self._runs += 1
        return found if self._runs < self._until else self._packed(leaf, found)

    def _packed(self, leaf: Any, array: Any) -> Any:
        provider = choose.current()
        if provider is None or not array.flags.forc:
            return array
        plain = provided.layout(array.T if self.turned else array)
        pack = provider.find(Reorder(plain, self.layout))
        unpack = provider.find(Reorder(self.layout, plain))
        if pack is None or unpack is None:
            return array
        self._unpaid = cost.RUNS_UNTIL_KEPT
        return kept.keep(leaf, array, self.layout, self.turned, pack, unpack)


def keeps(
    graph: Graph,
    layouts: Mapping[Value, Layout],
    results: Collection[Value],
    ours: Callable[[Node], bool],
) -> dict[Value, Keep]:
    """The inputs of a plan that it may keep. ``ours(node)``: no kernel from outside computes it."""
    provider = choose.current()
    if provider is None:
        return {}

    def takes(node: Node) -> bool:
        return node.op == "matmul" and ours(node) and following.takes(node)

    found = {}
    for value, turned in factors(graph, layouts, results, takes).items():
        layout = provider.factor(dtypes.float32, value.shape[::-1] if turned else value.shape)
        if layout is not None:
            found[value] = Keep(layout, turned)
    return found
