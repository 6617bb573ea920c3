"""The kernel of a contraction, bound to the memory of a plan.

Shapes, strides and dtypes are known when a plan is made. So the descriptor of a contraction and the
offsets of its operands in the arrays of the plan are derived from the graph, once. The kernel is
looked up in the first run, and again when the active kernel library changes or clears its cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from fl_jit.eager.array_layouts import address
from fl_jit.eager.kernel_calls import ConvParameters, KernelCall, View, kernel_call
from fl_jit.eager.kernel_dispatch import copy_of, depends_on_data, is_large, launch
from fl_jit.kernels import registry
from fl_jit.kernels.descriptors import Epilogue
from fl_jit.kernels.layout import Layout, Packed
from fl_jit.kernels.library import Kernel, KernelLibrary
from fl_jit.passes.layout_assignment import inverse
from fl_jit.steps.donation import Values
from fl_jit.traces.prepacked import PrepackedArray
from fl_tensor.graph import Node, Value
from fl_tensor.graph.cost import CONTRACTIONS
from fl_tensor.graph.strides import Shape, StridedLayout, contiguous


def call_of(
    node: Node,
    layouts: Mapping[Value, StridedLayout],
    packed: Packed | None = None,
    strides: Shape | None = None,
    small: bool = False,
) -> KernelCall | None:
    """The kernel call of a node. None where NumPy is to compute it, for any data or for some.

    ``packed``: the layout of prepacked weights. ``strides``: of the result; None: C order.
    ``small``: also for products that take no longer than a call.
    """
    if node.op not in CONTRACTIONS:
        return None
    (value,) = node.outputs
    x, y = [Layout(v.dtype, v.shape, layouts[v].strides) for v in node.operands]
    out = Layout(value.dtype, value.shape, strides or contiguous(value.shape))
    parameters = node.parameters
    if "order" in parameters:
        out = _permuted(out, inverse(parameters["order"]))
    if not is_large(node.op, x.shape, y.shape, out.shape, value.dtype, small):
        return None
    if depends_on_data(node.op, x.shape, value.dtype):
        return None
    conv = None
    if node.op != "matmul":
        conv = ConvParameters(*[parameters[name] for name in ConvParameters._fields])
    return kernel_call(node.op, x, packed or y, out, conv)


def _permuted(a: Layout, axes: Shape) -> Layout:
    shape, strides = ([of[axis] for axis in axes] for of in (a.shape, a.strides or ()))
    return Layout(a.dtype, tuple(shape), tuple(strides))


class EpilogueArguments(Protocol):
    """The epilogue's arguments beside the result."""

    def addresses(self, values: Values) -> tuple[list[int], list[int]]:
        """The addresses that it reads and writes; called once, right before the kernel."""


class _Bound(NamedTuple):
    # A kernel (None: the library has none) of ``owner``, and what it was looked up in.
    library: KernelLibrary
    generation: int
    owner: KernelLibrary
    kernel: Kernel | None


class NativeKernel(NamedTuple):
    """A kernel, and for each of its operands but the result: its root, and the bytes before it."""

    kernel: Kernel
    operands: list[tuple[Value, int]]


class _Operand(NamedTuple):
    # The operand begins ``offset`` bytes after the array of ``root``. ``copied``: the view of the
    # operand that is copied in each run; then ``offset`` is in elements.
    root: Value
    offset: int
    copied: View | None


class BoundKernel:
    """A kernel call whose operands are in the arrays of the roots of ``layouts``, one for each
    operand of the operation. ``prepacked``: the kernel for runs in which the weights are
    prepacked."""

    def __init__(
        self,
        call: KernelCall,
        layouts: list[StridedLayout],
        epilogue: Epilogue | None = None,
        prepacked: BoundKernel | None = None,
    ) -> None:
        descriptor: Any = call.descriptor
        self.descriptor = descriptor._replace(epilogue=epilogue) if epilogue else descriptor
        self._operands = [_operand(view, layouts[view.operand]) for view in call.views]
        self._reads_packed = isinstance(call.views[1].layout, Packed)
        self._weights, self._prepacked = layouts[1].root, prepacked
        self._bound: _Bound | None = None  # set atomically, as threads may share a plan

    def run(self, values: Values, out: Any, epilogue: EpilogueArguments | None = None) -> bool:
        """Compute into the memory of the array ``out``. False where no kernel library computes
        this call."""
        if values[self._weights].__class__ is PrepackedArray and not self._reads_packed:
            return self._prepacked is not None and self._prepacked.run(values, out, epilogue)
        library, bound = registry.active_library(), self._bound
        if library is None:
            return False
        if bound is None or bound[0] is not library or bound[1] != library.generation:
            bound = self._bound = self._bind(library)
        _, _, owner, kernel = bound
        if kernel is None:
            return False
        known, addresses, copies = values.addresses, [], []
        for root, offset, copied in self._operands:
            if copied is not None:
                copies.append(copy_of(copied, values[root], offset))
                addresses.append(address(copies[-1]))
                continue
            base = known.get(root)
            if base is None:
                base = known[root] = address(values[root])
            addresses.append(base + offset)
        if epilogue is None:
            addresses.append(address(out))
        else:
            read, written = epilogue.addresses(values)
            addresses += [*read, address(out), *written]
        launch(owner, kernel, addresses)
        return True

    def native(self, is_packed: bool) -> NativeKernel | None:
        """The kernel of the active library, and where its operands begin. None where the library
        has none, or where an operand is copied first. ``is_packed``: the weights are prepacked."""
        if is_packed and not self._reads_packed:
            return None if self._prepacked is None else self._prepacked.native(True)
        library = registry.active_library()
        kernel = None if library is None else library.find(self.descriptor)
        if kernel is None or any(copied is not None for _, _, copied in self._operands):
            return None
        return NativeKernel(kernel, [(root, offset) for root, offset, _ in self._operands])

    def _bind(self, library: KernelLibrary) -> _Bound:
        generation = library.generation
        kernel = library.find(self.descriptor)
        return _Bound(library, generation, library.serving(self.descriptor), kernel)


def _operand(view: View, layout: StridedLayout) -> _Operand:
    root, offset = layout.root, layout.offset + view.offset
    # A number has no address: its only element is copied.
    if view.copies or not root.shape:
        return _Operand(root, offset, view)
    return _Operand(root, offset * root.dtype.itemsize, None)


def bind(
    node: Node,
    layouts: Mapping[Value, StridedLayout],
    packed: Packed | None = None,
    strides: Shape | None = None,
    epilogue: Epilogue | None = None,
    small: bool = False,
) -> BoundKernel | None:
    """The bound kernel of a node; None where ``call_of`` returns None. ``packed``: the layout of
    its weights in runs in which they are prepacked. ``small`` as there."""
    operands = [layouts[value] for value in node.operands]
    call = call_of(node, layouts, None, strides, small)
    if call is None:
        return None
    other = None if packed is None else call_of(node, layouts, packed, strides, small)
    prepacked = None if other is None else BoundKernel(other, operands, epilogue)
    return BoundKernel(call, operands, epilogue, prepacked)
