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

from fl_tensor.backends.jit import kept, provided, provided_conv
from fl_tensor.backends.jit.kept import Kept
from fl_tensor.backends.jit.steps import following
from fl_tensor.backends.numpy.views import strides_of
from fl_tensor.backends.providers import choose, layout
from fl_tensor.backends.providers.layout import Packed
from fl_tensor.backends.providers.problems import Convolution, Matmul, Reorder
from fl_tensor.graph import cost
from fl_tensor.graph.axis_order import inverse, order_of
from fl_tensor.graph.factors import factors
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.layout import Layout
from fl_tensor.reproducible import is_reproducible


class Keep:
    """What a plan does with weights that only products read: it gives the array, or what is kept
    in its place. ``turned``: they read its transpose; ``is_on``: it was packed at the last run."""

    is_on = False

    def __init__(self, packed: Packed, turned: bool) -> None:
        self.layout, self.turned = packed, turned
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
        if provider is None or not _is_dense(array):
            return array
        plain = provided.layout(array.T if self.turned else array)
        pack = provider.find(Reorder(plain, self.layout))
        unpack = provider.find(Reorder(self.layout, plain))
        if pack is None or unpack is None:
            return array
        self._unpaid = cost.RUNS_UNTIL_KEPT
        return kept.keep(leaf, array, self.layout, self.turned, pack, unpack)


def _is_dense(array: Any) -> bool:
    return array.flags.c_contiguous or order_of(array.shape, strides_of(array)) is not None


def computed(node: Node, x: Any, w: Kept) -> Any:
    """The result of a product or convolution with ``w``, as it lies; None where the provider that
    packed it is not asked any more."""
    (out,) = node.outputs
    if node.op == "matmul":
        return provided.matmul(x, w, out.shape)
    given = dict(node.parameters)
    order = given.pop("order")
    shape = tuple(out.shape[order.index(axis)] for axis in range(len(order)))
    made = provided_conv.convolve(x, w, **given, out_shape=shape, order=order)
    return None if made is None else made.transpose(order)


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
        can = ours(node) and following.takes(node) and _posed(node, layouts) is not None
        return can and cost.pays_kept(node)

    found = {}
    inputs = factors(graph, layouts, results, takes)
    for node in graph.nodes:
        if node.op not in ("matmul", "conv") or (value := layouts[node.operands[1]].root) in found:
            continue
        problem = _posed(node, layouts) if value in inputs else None
        packed = None if problem is None else provider.kept(problem)
        if packed is not None:
            found[value] = Keep(packed, inputs[value])
    return found


def _posed(node: Node, layouts: Mapping[Value, Layout]) -> Matmul | Convolution | None:
    # What a provider is asked for; None where that is no product, and no plain convolution.
    if node.op not in ("matmul", "conv"):
        return None
    x, w = [layout.Layout(v.dtype, v.shape, layouts[v].strides) for v in node.operands]
    (value,) = node.outputs
    if node.op == "matmul":
        return Matmul(x, w, layout.row_major(value.dtype, value.shape))
    given = dict(node.parameters)
    order = inverse(given.pop("order"))
    out = layout.channels_last(value.dtype, tuple([value.shape[axis] for axis in order]))
    low = min([n for pair in given["padding"] for n in pair])
    if low < 0 or any(d > 1 for d in given["input_dilation"]):
        return None
    rest = given["stride"], given["padding"], given["kernel_dilation"], given["groups"]
    return Convolution(x, w, out, *rest)
