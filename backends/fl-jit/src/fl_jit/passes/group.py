"""Fusion groups: operations that run together, and their iteration space.

A *group* has an iteration space. Its members are of three kinds:

* operations over that space;
* operations over its rows, the space without its last axes, once a member reduces over these;
* reductions of its leading axes, whose results leave the group.

A member reads a value of its own group element by element, so that it need not be in memory. Values
that other groups read are written.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from fl_jit.passes.reduction_forms import REDUCTIONS, reduction_form
from fl_tensor.graph import Node, Value
from fl_tensor.graph import strides as layout
from fl_tensor.graph.strides import Shape, StridedLayout

T = TypeVar("T")


@dataclass(eq=False)
class Member:
    """A node in a group: the strides with which it reads each operand over the group's space, and
    its form.

    The form is ``"full"`` for a value per element, ``"row"`` for one per row. It is ``"column"``
    for a reduction over the outer axes, and ``"all"`` for one over all axes.
    """

    node: Node
    strides: list[Shape]
    form: str

    @property
    def result(self) -> Value:
        return self.node.outputs[0]


@dataclass(eq=False)
class Group:
    """Operations that run together over ``space``, whose last ``row_axes`` axes are a row.
    ``row_axes`` is 0 without a reduction. ``space`` is None for a node that is not fused."""

    number: int
    space: Shape | None
    row_axes: int = 0
    members: list[Member] = field(default_factory=list)
    #: The roots that members read from memory.
    reads: dict[Value, None] = field(default_factory=dict)

    @property
    def has_row_results(self) -> bool:
        """Whether a result is known only after a whole row was read."""
        return any(m.form == "row" and m.node.op in REDUCTIONS for m in self.members)

    @property
    def nodes(self) -> list[Node]:
        return [member.node for member in self.members]

    def result_strides(self, form: str) -> Shape | None:
        """The strides over the space of the result of a member of that form, as later members can
        read it. None if it is known only when the group has run."""
        assert self.space is not None
        outer = len(self.space) - self.row_axes
        if form == "full":
            return layout.contiguous(self.space)
        if form == "row":
            return layout.contiguous(self.space[:outer]) + (0,) * self.row_axes
        return None

    def reshaped_strides(self, target: Shape) -> list[list[Shape]] | None:
        """The strides of the members if the group's space had another shape. None if that splits a
        row, or there are no such strides."""
        space, rows = self.space, self.row_axes
        assert space is not None
        if math.prod(space) != math.prod(target) or rows and space[-rows:] != target[-rows:]:
            return None
        return complete(
            complete(layout.reshape(space, strides, target) for strides in member.strides)
            for member in self.members
        )

    def reshape(self, target: Shape) -> None:
        """Change the space to that shape, for which ``reshaped_strides`` has strides."""
        moved = self.reshaped_strides(target)
        assert moved is not None
        for member, strides in zip(self.members, moved, strict=True):
            member.strides = strides
        self.space = target


def complete(values: Iterable[T | None]) -> list[T] | None:
    """The values as a list; None if one of them is None."""
    found = []
    for value in values:
        if value is None:
            return None
        found.append(value)
    return found


def iteration_space(node: Node) -> Shape:
    """The iteration space of a node: the shape of its result. Reductions, and copies in C order,
    iterate over the shape of their operand."""
    if node.op in REDUCTIONS or node.op == "reshape":
        return node.operands[0].shape
    return node.outputs[0].shape


def form_of(node: Node, row_axes: int) -> str | None:
    """The form of a node in a group with such rows. None if its axes fit no rows."""
    return reduction_form(node, row_axes) if node.op in REDUCTIONS else "full"


def rows_of(node: Node, form: str, row_axes: int) -> int:
    """The number of row axes of a group with such rows, with this node."""
    if form == "row":
        return len(node.parameters["axis"])
    if form == "column" and not row_axes:
        return len(node.operands[0].shape) - len(node.parameters["axis"])
    return row_axes


def read(
    value: Value, layouts: Mapping[Value, StridedLayout], own: Shape, space: Shape
) -> Shape | None:
    """The strides with which ``value``, broadcast to ``own``, is read over ``space``."""
    strides = layout.broadcast(value.shape, layouts[value].strides, own)
    return strides if own == space else layout.reshape(own, strides, space)


def reads_as_computed(
    value: Value,
    strides: Shape,
    made: Shape | None,
    space: Shape,
    layouts: Mapping[Value, StridedLayout],
) -> bool:
    """Whether ``value`` is read with ``strides`` where its group computes it."""
    if made is None or layouts[value].offset:
        return False
    return all(n == 1 or a == b for n, a, b in zip(space, strides, made, strict=True))


def crossing(
    groups: Collection[Group], layouts: Mapping[Value, StridedLayout], results: Collection[Value]
) -> dict[Value, list[Group]]:
    """The roots that must be written, each with the other groups that read it.

    These are the roots that one group computes and another reads, and ``results``.
    """
    home = {v: group for group in groups for node in group.nodes for v in node.outputs}
    readers: dict[Value, list[Group]] = {v: [] for v in results if v in home}
    for group in groups:
        roots = {layouts[v].root: None for node in group.nodes for v in node.operands}
        for root in roots:
            if root in home and home[root] is not group:
                readers.setdefault(root, []).append(group)
    return readers
