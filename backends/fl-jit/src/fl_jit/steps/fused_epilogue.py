"""The step of a plan that computes a GEMM or convolution and its epilogue.

The epilogue is found by ``passes.epilogue_fusion``. Where a kernel library supports both, the step
is one call. Where none does, the product and its group run one after the other, as two steps would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from typing import Any

import numpy as np

from fl_jit.eager.array_layouts import address
from fl_jit.kernels import registry
from fl_jit.kernels.codegen.axes import join_axes, letters, output_letters
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.descriptors import Epilogue
from fl_jit.kernels.layout import Packed
from fl_jit.kernels.native_calls import native_call
from fl_jit.passes.epilogue_fusion import FusedEpilogue, fuse_epilogues
from fl_jit.passes.group import Group
from fl_jit.steps.bound_kernel import bind, call_of
from fl_jit.steps.donation import Values, overwritable
from fl_jit.steps.lower import Lowered, Lowering, Operand
from fl_jit.steps.native import NativePart, NativeStep
from fl_tensor.extend import cached_property
from fl_tensor.extend.numpy import TO_NUMPY, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import Shape, StridedLayout, contiguous


def fused_epilogues(
    groups: list[Group],
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    is_builtin: Callable[[Node], bool],
    small: bool = False,
) -> dict[Group, FusedEpilogue]:
    """The epilogues of products (``passes.epilogue_fusion``) that the active kernel library may
    support. ``is_builtin(node)``: no registered kernel computes the node. ``small``: also of
    products that take no longer than a call."""
    library = registry.active_library()
    if library is None:
        return {}

    def accepts(node: Node) -> bool:
        is_product = node.op in ("matmul", "conv", "conv_data_gradient")
        has_kernel = is_product and is_builtin(node)
        return has_kernel and call_of(node, layouts, small=small) is not None

    found = fuse_epilogues(groups, layouts, results, accepts)
    if not found or library.has_epilogues:
        return found
    return {group: fused for group, fused in found.items() if fused.strides is not None}


class FusedEpilogueStep:
    """See the module. ``operation`` is the step that computes the product alone. ``launch()`` makes
    the step that computes the group alone. ``packed`` as for a ``Contraction``."""

    kind = "contraction"
    dying: list[Value]

    def __init__(
        self,
        fused: FusedEpilogue,
        layouts: Mapping[Value, StridedLayout],
        live_outs: Collection[Value],
        operation: Any,
        launch: Callable[[], Any],
        packed: Packed | None = None,
        small: bool = False,
    ) -> None:
        self.nodes = [fused.product, *fused.group.nodes]
        self.operation, self._make_launch = operation, launch
        (self.product,) = fused.product.outputs
        self.epilogue: Epilogue | None = None
        self.reads: list[Operand] = []
        self.writes = [member.result for member in fused.group.members]
        self._overwritable: list[list[Value]] = []
        operands = [layouts[value].root for value in fused.product.operands]
        if fused.strides is None:
            lowered = _EpilogueLowering(fused, layouts, live_outs).result()
            self.epilogue = _epilogue(lowered)
            self.reads = lowered.inputs[1:]
            self.writes = [o.root for o in lowered.outputs]
            # Other blocks still read the operands of the product.
            self._overwritable = [
                [root for root in roots if root not in operands]
                for roots in overwritable(lowered)[1:]
            ]
        self.kernel = bind(fused.product, layouts, packed, fused.strides, self.epilogue, small)
        self.roots = [*operands, *(o.root for o in self.reads), *self.writes]
        self.in_place = self.writes[1:]

    @cached_property
    def _free(self) -> list[list[Value]]:
        # The roots that each further result may overwrite, if they have no other references.
        return [[root for root in roots if root in self.dying] for roots in self._overwritable]

    @cached_property
    def _launch(self) -> Any:
        step = self._make_launch()
        step.dying = [*self.dying, *([] if self.product in self.writes else [self.product])]
        return step

    def native(self, packed: Set[Value]) -> NativeStep | None:
        """The step as a call on fixed memory; None where it would run as two steps."""
        found = None
        if self.kernel is not None:
            found = self.kernel.native(not packed.isdisjoint(self.roots))
        if found is None:
            return None
        operands = list(found.operands)
        operands += [(o.root, o.offset * o.root.dtype.itemsize) for o in self.reads]
        operands += [(root, 0) for root in self.writes]
        part = NativePart(native_call(found.kernel), operands)
        free = [[], *self._free] if self._free else [[] for _ in self.writes]
        return NativeStep([part], list(zip(self.writes, free, strict=True)))

    def __call__(self, values: Values) -> None:
        first = self.writes[0]
        if self.kernel is not None:
            made = memory.empty(first.shape, TO_NUMPY[first.dtype])
            arguments = None if self.epilogue is None else _Arguments(self, self._free)
            if self.kernel.run(values, made, arguments):
                values[first] = made
                return
            del made
        self.operation(values)
        self._launch(values)
        if self.product not in self.writes:
            del values[self.product]


class _Arguments:
    # The arguments of an epilogue in one run. ``free`` as ``FusedEpilogueStep._free``.

    def __init__(self, step: FusedEpilogueStep, free: list[list[Value]]) -> None:
        self._step, self._free = step, free
        self._numbers: list[Any] = []  # arrays of numbers, referenced until the kernel returns

    def addresses(self, values: Values) -> tuple[list[int], list[int]]:
        read, written = [], []
        for root, offset, _ in self._step.reads:
            if root.shape:
                read.append(values.address_of(root) + offset * root.dtype.itemsize)
            else:
                number = np.asarray(values[root], TO_NUMPY[root.dtype])
                self._numbers.append(number)
                read.append(address(number))
        for root, over in zip(self._step.in_place, self._free, strict=True):
            made = values.take(over, root)
            if made is None:
                made = memory.empty(root.shape, TO_NUMPY[root.dtype])
            values[root] = made
            written.append(values.address_of(root))
        return read, written


def _epilogue(lowered: Lowered) -> Epilogue:
    strides = tuple([o.strides for o in (*lowered.inputs, *lowered.outputs)])
    return Epilogue(lowered.program, lowered.sizes, strides)


class _EpilogueLowering(Lowering):
    """A group as an epilogue. The product is read first, and a result in its place is written
    first. The space has two or more axes, the last of which is a row. Numbers are operands."""

    def __init__(
        self,
        fused: FusedEpilogue,
        layouts: Mapping[Value, StridedLayout],
        live_outs: Collection[Value],
    ) -> None:
        super().__init__(fused.group, layouts, live_outs, numbers=())
        (self.product,) = fused.product.outputs
        self.written.sort(key=lambda member: member.result.dtype is not self.product.dtype)
        self.stores_product = (
            fused.stores_product or self.written[0].result.dtype is not self.product.dtype
        )

    def _reads(self) -> list[Operand]:
        return sorted(super()._reads(), key=lambda operand: operand.root is not self.product)

    def _writes(self) -> list[Operand]:
        product = [Operand(self.product, 0, contiguous(self.space))] if self.stores_product else []
        return [*product, *super()._writes()]

    def _axes(self, strides: list[Shape]) -> tuple[Shape, int, list[Shape]]:
        sizes, row_axes, strides = join_axes(self.space, 1, strides)
        if len(sizes) > 1:
            return sizes, row_axes, strides
        return (1, *sizes), row_axes, [(0, *s) for s in strides]

    def _letters(self, strides: Shape, sizes: Shape, row_axes: int) -> str:
        return letters(strides, sizes, row_axes).replace("t", "s")

    def _outputs(
        self,
        build: Builder,
        read: Mapping[Operand, int],
        made: Mapping[Value, int],
        rank: int,
        row_axes: int,
    ) -> None:
        if self.stores_product:
            (product,) = [read[operand] for operand in read if operand.root is self.product]
            build.output(product, output_letters("full", rank, row_axes))
        super()._outputs(build, read, made, rank, row_axes)
