"""Weights that stay prepacked between the runs of a plan (``passes.weight_prepacking``).

A plan detects that an operand is the same array as before. It prepacks that array
(``traces.prepacked``) when packing in each GEMM has cost as much as prepacking does. If another
reader needs the array before the cost is recovered, the plan waits twice as long the next time.
Weights in training have new values in every step, and are packed by each GEMM. The packed layout of
a layer does not fit its dgrad.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fl_jit.eager.array_layouts import layout
from fl_jit.eager.views import strides_of
from fl_jit.kernels import registry
from fl_jit.kernels.descriptors import Convolution, Matmul, Reorder
from fl_jit.kernels.layout import Packed
from fl_jit.passes import profitability
from fl_jit.passes.layout_assignment import order_of
from fl_jit.passes.weight_prepacking import prepackable_weights
from fl_jit.steps.bound_kernel import call_of
from fl_jit.traces.lazy import Lazy
from fl_jit.traces.prepacked import PrepackedArray, prepack, storage_of
from fl_tensor.extend import is_reproducible
from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.strides import StridedLayout


class PrepackStep:
    """The prepacking of a weight that only GEMMs or convolutions read. ``layout``: its packed form,
    or, if ``transposed``, that of its transpose, which the readers take."""

    def __init__(self, packed: Packed, transposed: bool) -> None:
        self.layout, self.transposed = packed, transposed
        self._last: Callable[[], Any] = lambda: None
        self._runs = 0  # with the same array
        self._until = profitability.RUNS_UNTIL_PREPACKED
        self._unpaid = 0  # runs until the cost is recovered

    def __call__(self, leaf: Any) -> Any:
        """The array of the value ``leaf``, or the ``PrepackedArray`` that replaces it."""
        if leaf.__class__ is not Lazy:
            return leaf.array
        storage = storage_of(leaf)
        if storage.__class__ is PrepackedArray:
            same = storage.layout is self.layout or storage.layout == self.layout
            if not same or storage.transposed is not self.transposed:
                return leaf.array
            self._unpaid -= 1
            return storage
        if self._last() is not storage:
            if self._unpaid > 0:
                self._until *= 2
            self._last, self._runs, self._unpaid = weakref.ref(storage), 0, 0
        self._runs += 1
        return storage if self._runs < self._until else self._prepacked(leaf, storage)

    def _prepacked(self, leaf: Lazy, array: Any) -> Any:
        library = registry.active_library()
        if library is None or not _is_dense(array):
            return array
        plain = layout(array.T if self.transposed else array)
        pack = library.find(Reorder(plain, self.layout))
        unpack = library.find(Reorder(self.layout, plain))
        if pack is None or unpack is None:
            return array
        self._unpaid = profitability.RUNS_UNTIL_PREPACKED
        packed = PrepackedArray(array, self.layout, self.transposed, pack, unpack)
        prepack(leaf, array, packed)
        return packed


def _is_dense(array: Any) -> bool:
    return array.flags.c_contiguous or order_of(array.shape, strides_of(array)) is not None


def prepack_steps(
    graph: Graph,
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    is_builtin: Callable[[Node], bool],
) -> dict[Value, PrepackStep]:
    """The inputs of a plan that may be prepacked. ``is_builtin(node)``: no registered kernel
    computes the node. Under ``reproducible`` there are none: results may not depend on earlier
    runs."""
    library = registry.active_library()
    if library is None or is_reproducible():
        return {}

    def reads_packed(node: Node) -> bool:
        supported = is_builtin(node) and _descriptor(node, layouts) is not None
        return supported and profitability.prepacking_pays(node)

    weights = prepackable_weights(graph, layouts, results, reads_packed)
    steps: dict[Value, PrepackStep] = {}
    for node in graph.nodes:
        if node.op not in ("matmul", "conv"):
            continue
        weight = layouts[node.operands[1]].root
        if weight not in weights or weight in steps:
            continue
        descriptor = _descriptor(node, layouts)
        packed = None if descriptor is None else library.prepacked_layout(descriptor)
        if packed is not None:
            steps[weight] = PrepackStep(packed, weights[weight])
    return steps


def _descriptor(node: Node, layouts: Mapping[Value, StridedLayout]) -> Matmul | Convolution | None:
    # The descriptor of a node whose kernel may read prepacked weights. Batches of matrices do not.
    call = call_of(node, layouts)
    descriptor = None if call is None else call.descriptor
    if isinstance(descriptor, Matmul):
        return descriptor if len(descriptor.x.shape) == 2 else None
    return descriptor if isinstance(descriptor, Convolution) else None
