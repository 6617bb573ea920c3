"""Layout assignment: the order of a value's axes in memory.

Values are stored in C order. Some operations are faster with another order of axes, as convolutions
are with channels last. Such an operation can write a *twin* of its result, with permuted axes. The
value itself is then a view of the twin. ``reorder`` applies this to the preferred operations, and
to all elementwise operations on a twin. No data is moved between them.

This module makes the decision (``preferred_order``). The kernel library states which order its
kernels write best (``KernelLibrary.preferred_order``). The step of a node with a parameter
``order`` writes it.

    y = conv(x, w); z = maximum(y, 0)
    y' = conv(x, w, order); y = permute(y'); z' = maximum(y', 0); z = permute(z')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fl_jit.eager.kernel_dispatch import is_large
from fl_jit.kernels import registry
from fl_jit.kernels.codegen import instructions
from fl_jit.kernels.descriptors import ConvDataGrad, Convolution, ConvWeightGrad
from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_tensor.extend import Shape, is_reproducible
from fl_tensor.graph import Graph, Node, Value

#: For each axis in memory, slowest first, the axis of the value.
Order = tuple[int, ...]

#: Operations whose result has the order of their operand, and their arguments per axis.
_PER_AXIS = {"pad": ("low", "high", "interior"), "slice": ("starts", "sizes", "steps")}
#: Windows over the spatial axes. Their kernels take ``order`` as an additional parameter.
_WINDOWS = frozenset(("max_pool", "avg_pool", "max_pool_gradient", "avg_pool_gradient"))
_CONVOLUTIONS: dict[str, type] = {
    "conv": Convolution,
    "conv_data_gradient": ConvDataGrad,
    "conv_weight_gradient": ConvWeightGrad,
}


def preferred_order(node: Node, every: bool = False) -> Order | None:
    """The preferred axis order of a result: that of the kernel library, where it computes the node.
    The state of an optimizer has the order of the gradients, and so have the weights from the first
    step on. Under ``reproducible`` weights stay in C order, since a resumed run begins with weights
    of a file. ``every`` as for ``is_large``: an epilogue relies on this order."""
    kind = _CONVOLUTIONS.get(node.op)
    library = registry.active_library()
    if kind is None or library is None:
        return None
    x, y = [value.shape for value in node.operands]
    (out,) = node.outputs
    if not is_large(node.op, x, y, out.shape, out.dtype, every):
        return None
    if kind is ConvWeightGrad:
        return None if is_reproducible() else library.preferred_order(kind, y, x, out.shape)
    return library.preferred_order(kind, x, y, out.shape)


def is_elementwise(op: str) -> bool:
    """Whether ``op`` is elementwise, with broadcasting operands."""
    return op in instructions.ELEMENTWISE or op in ("where", "cast")


def inverse(order: Order) -> Order:
    """The inverse permutation."""
    return tuple(order.index(axis) for axis in range(len(order)))


def order_of(shape: Shape, strides: Shape) -> Order | None:
    """The axis order of a dense array with these strides. None for C order, or if it is not
    dense."""
    order = tuple(sorted(range(len(shape)), key=lambda a: (-strides[a], a)))
    step = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != step:
            return None
        step *= shape[axis]
    return None if order == tuple(range(len(shape))) else order


def reorder(
    graph: Graph,
    elementwise: Callable[[str], bool],
    preferred: Callable[[Node], Order | None],
    given: Mapping[Value, Order] | None = None,
) -> Graph:
    """``graph`` with the ``preferred`` orders for results of single operations, propagated to
    others.

    An operation with a preferred order, or a window operation on a twin, has ``order`` as a
    parameter, and gives the twin. ``elementwise(op)``: whether ``op`` is elementwise with
    broadcasting. ``given``: inputs that have another order than C order.
    """
    return _Reordering(graph, elementwise, preferred, given or {}).result


class _Reordering:
    def __init__(
        self,
        graph: Graph,
        elementwise: Callable[[str], bool],
        preferred: Callable[[Node], Order | None],
        given: Mapping[Value, Order],
    ) -> None:
        self.graph = graph
        self.elementwise = elementwise
        self.twins: dict[Value, tuple[Value, Order]] = {}
        self.nodes: list[Node] = []
        for value, order in given.items():
            self.twins[value] = self.permuted(value, order), order
        for node in graph.nodes:
            self.place(node, preferred(node))
        self.result = graph.replace(nodes=self.nodes)

    def value(self, shape: Shape, like: Value) -> Value:
        return self.graph.value(shape, like.dtype, like.device)

    def permuted(self, x: Value, order: Order) -> Value:
        twin = self.value(tuple(x.shape[a] for a in order), x)
        self.nodes.append(Node("permute", (x,), {"axes": order}, (twin,)))
        return twin

    def make(
        self, node: Node, operands: tuple[Any, ...], given: Mapping[str, Any], order: Order
    ) -> None:
        # Compute the twin of a node's result by the same operation. The result is a view of it.
        (out,) = node.outputs
        twin = self.value(tuple(out.shape[a] for a in order), out)
        self.nodes.append(Node(node.op, operands, given, (twin,)))
        self.nodes.append(Node("permute", (twin,), {"axes": inverse(order)}, (out,)))
        self.twins[out] = twin, order

    def place(self, node: Node, preferred: Order | None) -> None:
        if preferred is not None:
            self.make(node, node.inputs, {**node.parameters, "order": preferred}, preferred)
            return
        order = self.inherited(node)
        if order is None:
            self.nodes.append(node)
            if node.op == "permute":
                self.permute_twin(node)
        elif node.op in _WINDOWS:
            self.make(node, node.inputs, {**node.parameters, "order": order}, order)
        elif node.op in _PER_AXIS:
            named = _PER_AXIS[node.op]
            given = {
                name: tuple(value[a] for a in order) if name in named else value
                for name, value in node.parameters.items()
            }
            self.make(node, (self.aligned(node.operands[0], order),), given, order)
        elif node.op == "concatenate":
            operands = tuple([self.aligned(v, order) for v in node.operands])
            self.make(node, (operands,), {"axis": order.index(node.parameters["axis"])}, order)
        elif node.op == "broadcast_to":
            shape = tuple(node.parameters["shape"][a] for a in order)
            self.make(node, (self.aligned(node.operands[0], order),), {"shape": shape}, order)
        elif node.op in REDUCTIONS:
            self.reduce(node, order)
        else:
            operands = tuple([self.aligned(v, order) for v in node.operands])
            self.make(node, operands, node.parameters, order)

    def permute_twin(self, node: Node) -> None:
        # A permutation of a value with a twin has that twin, too, unless it has C order.
        (x,), (out,), axes = node.operands, node.outputs, node.parameters["axes"]
        if x in self.twins:
            twin, order = self.twins[x]
            moved = tuple([axes.index(axis) for axis in order])
            if moved != tuple(range(len(moved))):
                self.twins[out] = twin, moved

    def inherited(self, node: Node) -> Order | None:
        # The order of the first of the largest operands with a twin, if the operation can have it.
        if len(node.outputs) != 1:
            return None
        known = node.op in _PER_AXIS or node.op in _WINDOWS or node.op in REDUCTIONS
        known = known or node.op in ("concatenate", "broadcast_to") or self.elementwise(node.op)
        if not known:
            return None
        rank = len(node.outputs[0].shape)
        if node.op in REDUCTIONS:
            rank = len(node.operands[0].shape)
        found = None
        for v in node.operands:
            if v in self.twins and len(v.shape) == rank:
                if v.shape == node.outputs[0].shape:
                    return self.twins[v][1]
                found = found or self.twins[v][1]
        return found if node.op != "broadcast_to" or len(node.operands[0].shape) == rank else None

    def aligned(self, v: Value, order: Order) -> Value:
        # An operand in the order of a result of that rank.
        if not v.shape:
            return v
        if v in self.twins and self.twins[v][1] == order:
            return self.twins[v][0]
        missing = len(order) - len(v.shape)
        if missing:
            whole = self.value((1,) * missing + v.shape, v)
            self.nodes.append(Node("reshape", (v,), {"shape": whole.shape}, (whole,)))
            v = whole
        return self.permuted(v, order)

    def reduce(self, node: Node, order: Order) -> None:
        (x,), (out,) = node.operands, node.outputs
        axes = node.parameters["axis"]
        moved = tuple(sorted(order.index(a) for a in axes))
        given = {**node.parameters, "axis": moved}
        operands = (self.aligned(x, order),)
        if node.parameters["keepdims"]:
            self.make(node, operands, given, order)
            return
        left = [a for a in range(len(order)) if a not in axes]
        rest = tuple(left.index(a) for a in order if a in left)
        if rest == tuple(range(len(rest))):
            self.nodes.append(Node(node.op, operands, given, (out,)))
        else:
            self.make(node, operands, given, rest)
