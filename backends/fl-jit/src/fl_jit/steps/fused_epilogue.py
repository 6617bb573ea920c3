"""The step of a plan that computes a GEMM or convolution and its epilogue.

The epilogue is found by ``passes.epilogue_fusion``. Where a kernel library supports both, the step
is one call. Where none does, the product and its group run one after the other, as two steps would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fl_jit.eager import conv_dispatch, gemm_dispatch
from fl_jit.eager.dispatch_recorder import recording_dispatches
from fl_jit.eager.views import strided
from fl_jit.kernels import registry
from fl_jit.kernels.codegen.axes import join_axes, letters, output_letters
from fl_jit.kernels.codegen.program import Builder
from fl_jit.kernels.descriptors import Epilogue
from fl_jit.kernels.post_ops import PostOp, post_op
from fl_jit.passes.epilogue_fusion import FusedEpilogue, fuse_epilogues
from fl_jit.passes.group import Group
from fl_jit.passes.layout_assignment import channels_last, inverse
from fl_jit.steps.bound_dispatch import BoundDispatch
from fl_jit.steps.donation import Values, places
from fl_jit.steps.lower import Lowered, Lowering, Operand
from fl_jit.steps.views import show
from fl_tensor.extend import cached_property
from fl_tensor.extend.numpy import TO_NUMPY, memory
from fl_tensor.graph import Node, Value
from fl_tensor.graph.strides import Shape, StridedLayout, contiguous


def attached(
    groups: list[Group],
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    wanted: Collection[Value],
    ours: Callable[[Node], bool],
) -> dict[Group, FusedEpilogue]:
    """The epilogues of products (``passes.epilogue_fusion``) that the active kernel library may
    support: any elementwise work, or a post-op with a name. ``wanted`` are the values that are read
    outside the group that computes them. ``ours(node)``: no registered kernel computes the node."""
    library = registry.active_library()
    if library is None:
        return {}

    def computes(made: FusedEpilogue) -> bool:
        if made.strides is not None or library.has_epilogues:
            return True
        name = post_op(_epilogue(_Lowering(made, layouts, wanted).result()))
        return name is not None and name.activation in library.activations

    found = fuse_epilogues(groups, layouts, results, lambda node: ours(node) and takes(node))
    return {group: made for group, made in found.items() if computes(made)}


def _epilogue(lowered: Lowered) -> Epilogue:
    strides = tuple([o.strides for o in (*lowered.inputs, *lowered.outputs)])
    return Epilogue(lowered.program, lowered.sizes, strides)


def takes(node: Node) -> bool:
    """Whether a kernel library may be called for the node, with matrices in their memory layout."""
    if node.op not in ("matmul", "conv", "conv_data_gradient"):
        return False
    x, y = node.operands
    (out,) = node.outputs
    if node.op == "matmul":
        return gemm_dispatch.is_product_worth(out.shape, x.shape[-1], out.dtype)
    if node.parameters.get("order") != channels_last(len(out.shape)):
        return False
    order = inverse(node.parameters["order"])
    images = tuple([out.shape[axis] for axis in order])
    return gemm_dispatch.is_worth(conv_dispatch.work(images, y.shape), out.dtype)


class FusedEpilogueStep:
    """See the module. ``operation`` is the step that computes the product alone. ``launch()`` makes
    the step that computes the group alone."""

    kind = "contraction"
    dying: list[Value]

    def __init__(
        self,
        made: FusedEpilogue,
        layouts: Mapping[Value, StridedLayout],
        wanted: Collection[Value],
        operation: Any,
        launch: Callable[[], Any],
    ) -> None:
        self.node = made.product
        self.nodes = [made.product, *made.group.nodes]
        self.operation, self._make_launch = operation, launch
        (self.product,) = made.product.outputs
        self.operands = [(v, layouts[v]) for v in made.product.operands]
        self._again = BoundDispatch(self.operands)
        self.strides = made.strides
        self.epilogue: Epilogue | None = None
        self.reads: list[Operand] = []
        self.writes = [member.result for member in made.group.members]
        self._over: list[list[Value]] = []
        if made.strides is None:
            lowered = _Lowering(made, layouts, wanted).result()
            self.epilogue = _epilogue(lowered)
            self.reads = lowered.inputs[1:]
            self.writes = [o.root for o in lowered.outputs]
            self._over = places(lowered)[1:]
        self.roots = [layout.root for _, layout in self.operands]
        self.roots += [*(o.root for o in self.reads), *self.writes]

    @cached_property
    def _free(self) -> list[list[Value]]:
        # The roots that each further result may overwrite, if they have no other references.
        # Operands of the product, which other blocks still read, are referenced during the call.
        return [[root for root in roots if root in self.dying] for roots in self._over]

    @cached_property
    def _name(self) -> PostOp | None:
        return None if self.epilogue is None else post_op(self.epilogue)

    @cached_property
    def _launch(self) -> Any:
        step = self._make_launch()
        step.dying = [*self.dying, *([] if self.product in self.writes else [self.product])]
        return step

    def __call__(self, values: Values) -> None:
        first = self.writes[0]
        made = memory.empty(first.shape, TO_NUMPY[first.dtype])
        numbers: list[Any] = []  # referenced until the call returns
        follow = None
        if self.epilogue is not None:
            follow = gemm_dispatch.EpilogueRequest(
                self.epilogue,
                lambda: self._addresses(values, numbers),
                lambda: self._named(values),
            )
        if self._again.run(values, made, follow) or self._asked(values, made, follow):
            values[first] = made
            return
        del made
        self.operation(values)
        self._launch(values)
        if self.product not in self.writes:
            del values[self.product]

    def _asked(
        self, values: Values, made: Any, follow: gemm_dispatch.EpilogueRequest | None
    ) -> bool:
        # The product into ``made``, with the epilogue, from a library that computes both.
        if self.strides is None:
            out = made.reshape(self.product.shape)
        else:
            out = strided(made, made.dtype, 0, self.product.shape, self.strides)
        with recording_dispatches() as asked:
            operands = [show(values, v, layout) for v, layout in self.operands]
            done = _computed(self.node, operands, out, follow)
        self._again.learn(asked, values, made)
        return done

    def _named(self, values: Values) -> PostOp | None:
        # The post-op with the numbers of this call.
        if self._name is None:
            return None
        for place, number in self._name.numbers:
            root = self.reads[place].root
            if root.shape or gemm_dispatch.one(values[root], root.dtype) != number:
                return None
        return self._name

    def _addresses(self, values: Values, numbers: list[Any]) -> tuple[list[int], list[int]]:
        read = []
        for root, offset, _ in self.reads:
            if not root.shape:
                numbers.append(gemm_dispatch.one(values[root], root.dtype))
                read.append(gemm_dispatch.address(numbers[-1]))
            else:
                read.append(gemm_dispatch.address(values[root]) + offset * root.dtype.itemsize)
        written = []
        for root, over in zip(self.writes[1:], self._free, strict=True):
            made = values.take(over, root)
            if made is None:
                made = memory.empty(root.shape, TO_NUMPY[root.dtype])
            written.append(gemm_dispatch.address(made))
            values[root] = made
        return read, written


def _computed(
    node: Node, operands: list[Any], out: Any, follow: gemm_dispatch.EpilogueRequest | None
) -> bool:
    # The product into ``out``, with the epilogue. False where no kernel library computes it.
    x, y = operands
    if node.op == "matmul":
        return gemm_dispatch.matmul(x, y, out.shape, out, follow) is not None
    given = dict(node.parameters)
    out = out.transpose(inverse(given.pop("order")))
    given |= {"out": out, "follow": follow}
    if node.op == "conv_data_gradient":
        return conv_dispatch.data_gradient(x, y, **given) is not None
    return conv_dispatch.convolve(x, y, out_shape=out.shape, **given) is not None


class _Lowering(Lowering):
    """A group as an epilogue. The product is read first, and a result in its place is written
    first. The space has two or more axes, the last of which is a row. Numbers are operands."""

    def __init__(
        self, made: FusedEpilogue, layouts: Mapping[Value, StridedLayout], wanted: Collection[Value]
    ) -> None:
        super().__init__(made.group, layouts, wanted, numbers=())
        (self.product,) = made.product.outputs
        self.written.sort(key=lambda member: member.result.dtype is not self.product.dtype)
        self.kept = made.kept or self.written[0].result.dtype is not self.product.dtype

    def _reads(self) -> list[Operand]:
        return sorted(super()._reads(), key=lambda operand: operand.root is not self.product)

    def _writes(self) -> list[Operand]:
        product = [Operand(self.product, 0, contiguous(self.space))] if self.kept else []
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
        if self.kept:
            (product,) = [read[operand] for operand in read if operand.root is self.product]
            build.output(product, output_letters("full", rank, row_axes))
        super()._outputs(build, read, made, rank, row_axes)
