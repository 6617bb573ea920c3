"""Epilogue fusion: elementwise work on a product, done by the kernel that computes the product.

A *product* is the result of a GEMM, a convolution or one of its gradients. A kernel library can run
an epilogue on a block of rows and columns that is complete and still in cache. Examples are a bias,
an activation, a residual, or an optimizer's update of the weights whose gradient it is. The product
then need not be in memory, unless others read it, and is not read again. ``fuse_epilogues`` finds
groups (``fusion.py``) that can be epilogues. It rewrites each over the rows and columns of its
product. ``profitability.epilogue_pays`` estimates whether that saves time.

A group that only copies a product into another order of axes is fused, too. It has ``strides``: the
kernel writes the product with these.

The product runs when its group does. No group that runs earlier may read it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from fl_jit.passes import profitability
from fl_jit.passes.group import Group, Member, complete
from fl_tensor.graph import Node, Value
from fl_tensor.graph import strides as layout
from fl_tensor.graph.strides import Shape, StridedLayout


class FusedEpilogue(NamedTuple):
    """``group`` over the axes of ``product``, the last one being its row.

    ``stores_product``: others read the product, too. ``strides``: those of the product in the
    memory of the group's only result, if the group is only a copy, else None.
    """

    product: Node
    group: Group
    stores_product: bool
    strides: Shape | None = None


def fuse_epilogues(
    groups: Sequence[Group],
    layouts: Mapping[Value, StridedLayout],
    results: Collection[Value],
    takes: Callable[[Node], bool],
) -> dict[Group, FusedEpilogue]:
    """The fused epilogues by their groups in ``groups``, which are in execution order.

    ``takes(node)``: whether the kernel of a node accepts an epilogue. ``results`` are the roots
    that are read outside.
    """
    readers: dict[Value, list[Group]] = {}
    for group in groups:
        roots = {layouts[v].root for node in group.nodes for v in node.operands}
        for root in roots:
            readers.setdefault(root, []).append(group)
    epilogues: dict[Group, FusedEpilogue] = {}
    for producer in groups:
        if producer.space is not None or not takes(producer.nodes[0]):
            continue
        (product,) = producer.nodes
        reading = readers.get(product.outputs[0], [])
        if not reading or reading[0] in epilogues:
            continue
        group, *others = reading
        stores_product = bool(others) or product.outputs[0] in results
        made = _epilogue_of(product, group, stores_product, layouts)
        if made is None:
            continue
        made_here = {member.result for member in group.members}
        seen = {v for v in made_here if v in results or readers.get(v, [group]) != [group]}
        if profitability.epilogue_pays(product, group.nodes, stores_product, layouts, seen):
            epilogues[group] = made
    return epilogues


def _epilogue_of(
    product: Node, group: Group, stores_product: bool, layouts: Mapping[Value, StridedLayout]
) -> FusedEpilogue | None:
    (value,) = product.outputs
    if group.space is None or any(m.form != "full" for m in group.members):
        return None
    if len(value.shape) < 2 or math.prod(group.space) != math.prod(value.shape):
        return None
    reads = {
        strides
        for member in group.members
        for v, strides in zip(member.node.operands, member.strides, strict=True)
        if layouts[v].root is value
    }
    if len(reads) > 1:  # an element also reads another element of the product
        return None
    (strides,) = reads
    if [m.node.op for m in group.members] == ["reshape"]:
        made = None if stores_product else _copied(value.shape, strides, group.space)
        return None if made is None else FusedEpilogue(product, group, stores_product, made)
    if layout.reshape(group.space, strides, value.shape) != _c_order(value.shape):
        return None
    members = complete(_reshaped(member, group.space, value.shape) for member in group.members)
    if members is None:
        return None
    return FusedEpilogue(product, Group(group.number, value.shape, 1, members), stores_product)


def _c_order(shape: Shape) -> Shape:
    # The strides of C order, as ``layout.reshape`` gives them: 0 along axes of one element.
    strides = layout.contiguous(shape)
    return tuple([0 if n == 1 else s for n, s in zip(shape, strides, strict=True)])


def _reshaped(member: Member, space: Shape, target: Shape) -> Member | None:
    strides = complete(layout.reshape(space, s, target) for s in member.strides)
    return None if strides is None else Member(member.node, strides, member.form)


def _copied(shape: Shape, strides: Shape, space: Shape) -> Shape | None:
    # A copy reads the product of this shape with ``strides`` over ``space``, and writes it in C
    # order. The result are the strides of the product's axes in the copy.
    axes = {s: (n, to) for n, s, to in zip(space, strides, layout.contiguous(space)) if n > 1}
    strides_of_product = []
    for n, s in zip(shape, layout.contiguous(shape), strict=True):
        size, to = axes.get(s, (0, 0)) if n > 1 else (1, 1)
        if size != n:
            return None
        strides_of_product.append(to)
    return tuple(strides_of_product)
