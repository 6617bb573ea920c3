"""Weights that stay prepacked between the runs of a plan (``passes.weight_prepacking``).

A plan detects that an operand is the same array as before. It prepacks that array
(``eager.prepacked``) when packing in each GEMM has cost as much as prepacking does. If another
reader needs the array before the cost is recovered, the plan waits twice as long the next time.
Weights in training have new values in every step, and are packed by each GEMM. The packed layout of
a layer does not fit its dgrad.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fl_jit.eager import conv_dispatch, gemm_dispatch, prepacked
from fl_jit.eager.prepacked import PrepackedArray
from fl_jit.eager.views import strides_of
from fl_jit.kernels import layout, registry
from fl_jit.kernels.descriptors import Convolution, Matmul, Reorder
from fl_jit.kernels.layout import Packed
from fl_jit.passes import profitability
from fl_jit.passes.layout_assignment import inverse, order_of
from fl_jit.passes.weight_prepacking import prepackable_weights
from fl_jit.steps import fused_epilogue
from fl_tensor.extend import is_reproducible
from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.strides import StridedLayout


class PrepackStep:
    """The prepacking of a weight that only GEMMs or convolutions read. It returns the array, or the
    ``PrepackedArray`` that replaces it. ``turned``: the readers take the transpose; ``is_on``: the
    last run read it prepacked."""

    is_on = False

    def __init__(self, packed: Packed, turned: bool) -> None:
        self.layout, self.turned = packed, turned
        self._last: Callable[[], Any] = lambda: None
        self._runs = 0  # with the same array
        self._until = profitability.RUNS_UNTIL_KEPT
        self._unpaid = 0  # runs until the cost is recovered

    def __call__(self, leaf: Any) -> Any:
        """The array of the adapter ``leaf``, or a ``PrepackedArray``."""
        found = self._found(leaf)
        self.is_on = found.__class__ is PrepackedArray
        return found

    def _found(self, leaf: Any) -> Any:
        if is_reproducible():  # results may not depend on earlier runs
            return leaf.array
        found = prepacked.storage_of(leaf)
        if found.__class__ is PrepackedArray:
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
        library = registry.active_library()
        if library is None or not _is_dense(array):
            return array
        plain = gemm_dispatch.layout(array.T if self.turned else array)
        pack = library.find(Reorder(plain, self.layout))
        unpack = library.find(Reorder(self.layout, plain))
        if pack is None or unpack is None:
            return array
        self._unpaid = profitability.RUNS_UNTIL_KEPT
        return prepacked.prepack(leaf, array, self.layout, self.turned, pack, unpack)


def _is_dense(array: Any) -> bool:
    return array.flags.c_contiguous or order_of(array.shape, strides_of(array)) is not None


def computed(node: Node, x: Any, w: PrepackedArray) -> Any:
    """The result of a GEMM or convolution with ``w``, in its memory layout. None where the kernel
    library that packed it is no longer active."""
    (out,) = node.outputs
    if node.op == "matmul":
        return gemm_dispatch.matmul(x, w, out.shape)
    given = dict(node.parameters)
    order = given.pop("order")
    shape = tuple(out.shape[order.index(axis)] for axis in range(len(order)))
    made = conv_dispatch.convolve(x, w, **given, out_shape=shape, order=order)
    return None if made is None else made.transpose(order)


def keeps(
    graph: Graph,
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    ours: Callable[[Node], bool],
) -> dict[Value, PrepackStep]:
    """The inputs of a plan that may be prepacked. ``ours(node)``: no registered kernel computes
    it."""
    library = registry.active_library()
    if library is None:
        return {}

    def takes(node: Node) -> bool:
        can = (
            ours(node) and fused_epilogue.takes(node) and _with_post_ops(node, layouts) is not None
        )
        return can and profitability.pays_kept(node)

    found = {}
    inputs = prepackable_weights(graph, layouts, results, takes)
    for node in graph.nodes:
        if node.op not in ("matmul", "conv") or (value := layouts[node.operands[1]].root) in found:
            continue
        descriptor = _with_post_ops(node, layouts) if value in inputs else None
        packed = None if descriptor is None else library.prepacked_layout(descriptor)
        if packed is not None:
            found[value] = PrepackStep(packed, inputs[value])
    return found


def _with_post_ops(
    node: Node, layouts: Mapping[Value, StridedLayout]
) -> Matmul | Convolution | None:
    # The descriptor of a node; None for other operations and for dilated or cropped input.
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
