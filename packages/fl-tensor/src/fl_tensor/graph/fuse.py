"""Fusion: which operations run together, as one pass over the same elements.

A *group* has an iteration space. Its members are operations over that space, over its rows (the
space without its last axes, once one of them is reduced over these), and reductions of its leading
axes, whose results leave the group. A member reads a value of its own group element by element, so
that it need not be in memory; what others need is written.

Groups are made greedily in the order of the graph: an operation joins the group of its first
operand that can take it, or the groups of several operands are merged. Two rules decide. Members
must agree on the space, which is a matter of strides (``fl_tensor.graph.layout``), so that changes
of shape between them do no harm. And no path may lead out of the group and back in. The cost model
is simple: a pass over memory that is saved is always worth it, up to ``most`` members and operands,
beyond which registers and prefetching suffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fl_tensor.graph import layout
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.layout import VIEWS, Layout, Shape
from fl_tensor.graph.reductions import REDUCTIONS, reduction_form


@dataclass(eq=False)
class Member:
    """A node in a group: the strides with which it reads each operand over the space of the group,
    and what it gives: a value per element (``"full"``), per row (``"row"``), or of a reduction over
    the outer axes or all (``"column"``, ``"all"``)."""

    node: Node
    strides: list[Shape]
    form: str

    @property
    def result(self) -> Value:
        return self.node.outputs[0]


@dataclass(eq=False)
class Group:
    """Operations that run together over ``space``, whose last ``row_axes`` axes are a row (0 as
    long as nothing is reduced). ``space`` is None for a node that runs alone in its own way."""

    number: int
    space: Shape | None
    row_axes: int = 0
    members: list[Member] = field(default_factory=list)
    #: Groups that must have run before, as a set of bits.
    before: int = 0

    @property
    def nodes(self) -> list[Node]:
        return [member.node for member in self.members]


class Fusion:
    """The groups of a graph, in an order in which they can run.

    ``fusible(node)`` says which nodes may share a group; views (``layout.VIEWS``) that move no data
    belong to none. Nodes of other kinds are groups of one.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: Mapping[Value, Layout],
        fusible: Callable[[Node], bool],
        most: int = 96,
    ) -> None:
        self.layouts = layouts
        self.most = most
        self._groups: dict[int, Group] = {}
        #: The group that makes a root, and the form of it there.
        self._home: dict[Value, Group] = {}
        self._forms: dict[Value, Member] = {}
        self._count = 0
        for node in graph.nodes:
            if node.op in VIEWS and layouts[node.outputs[0]].root is not node.outputs[0]:
                continue
            self._place(node, fusible(node))
        self.groups = self._ordered()

    # ---- placing a node ------------------------------------------------------------------------

    def _place(self, node: Node, fusible: bool) -> None:
        sources = [self.layouts[v].root for v in node.operands]
        homes = list(dict.fromkeys(self._home[r] for r in sources if r in self._home))
        if fusible:
            for group in sorted(homes, key=lambda g: -g.number):
                if group.space is not None and self._joins(node, group, homes):
                    return
        space = self._space(node) if fusible else None
        group = Group(self._count, space)
        self._count += 1
        self._groups[group.number] = group
        for home in homes:
            group.before |= home.before | 1 << home.number
        if space is None:
            self._settle(Member(node, [], "full"), group)
            return
        strides = [self._read(v, space, space) for v in node.operands]
        form = self._enter(node, group)
        self._settle(Member(node, [s for s in strides if s is not None], form), group)

    def _settle(self, member: Member, group: Group) -> None:
        group.members.append(member)
        for value in member.node.outputs:
            self._home[value] = group
            self._forms[value] = member

    def _space(self, node: Node) -> Shape:
        # What a node iterates over: what it gives, but what it reduces, or copies in C order.
        if node.op in REDUCTIONS or node.op == "reshape":
            return node.operands[0].shape
        return node.outputs[0].shape

    def _read(self, value: Value, own: Shape, space: Shape) -> Shape | None:
        # The strides with which ``value``, broadcast to ``own``, is read over ``space``.
        strides = layout.broadcast(value.shape, self.layouts[value].strides, own)
        return strides if own == space else layout.reshape(own, strides, space)

    # ---- joining -------------------------------------------------------------------------------

    def _joins(self, node: Node, group: Group, homes: list[Group]) -> bool:
        if len(group.members) >= self.most or group.space is None:
            return False
        if any(self._depends(home, group) for home in homes if home is not group):
            return False
        member = self._as_member(node, group)
        if member is None:
            return False
        before = group.before
        for home in homes:
            if home is not group:
                before |= home.before | 1 << home.number
        self._settle(member, group)
        self._now_before(group, before)
        for other in homes:
            if other is not group and other.number in self._groups:
                self._merge(other, group)
        return True

    def _as_member(self, node: Node, group: Group) -> Member | None:
        space = group.space
        assert space is not None
        own = self._space(node)
        outer = space[: len(space) - group.row_axes]
        if own != space and math.prod(own) == math.prod(space) and self._respace(group, own):
            space, outer = own, own[: len(own) - group.row_axes]
        if own == space or (node.op not in REDUCTIONS and math.prod(own) == math.prod(space)):
            strides = [self._read(v, own, space) for v in node.operands]
            form = self._form(node, group)
            if form and all(s is not None for s in strides):
                found = [s for s in strides if s is not None]
                if self._agree(node, found, group, space):
                    if node.op in REDUCTIONS:
                        form = self._enter(node, group)
                    return Member(node, found, form)
        if group.row_axes and node.op not in REDUCTIONS and math.prod(own) == math.prod(outer):
            strides = [self._read(v, own, outer) for v in node.operands]
            found = [s + (0,) * group.row_axes for s in strides if s is not None]
            if len(found) == len(strides) and self._agree(node, found, group, outer):
                return Member(node, found, "row")
        return None

    def _respace(self, group: Group, target: Shape) -> bool:
        # Have a group iterate over its elements in another shape, where no row is torn apart.
        space, rows = group.space, group.row_axes
        assert space is not None
        if rows and space[-rows:] != target[-rows:]:
            return False
        if any(
            m.form == "column" or m.node.op in REDUCTIONS and m.form == "all" and rows
            for m in group.members
        ):
            return False
        strides = [[layout.reshape(space, s, target) for s in m.strides] for m in group.members]
        if any(s is None for found in strides for s in found):
            return False
        for member, found in zip(group.members, strides, strict=True):
            member.strides = [s for s in found if s is not None]
        group.space = target
        return True

    def _form(self, node: Node, group: Group) -> str | None:
        if node.op not in REDUCTIONS:
            return "full"
        return reduction_form(node, group.row_axes)

    def _enter(self, node: Node, group: Group) -> str:
        # The form of a node that is known to fit; a row reduction sets the rows of its group.
        if node.op not in REDUCTIONS:
            return "full"
        form = reduction_form(node, group.row_axes)
        assert form is not None
        if form == "row":
            group.row_axes = len(node.parameters["axis"])
        elif form == "column" and not group.row_axes:
            group.row_axes = len(node.operands[0].shape) - len(node.parameters["axis"])
        return form

    def _agree(self, node: Node, strides: list[Shape], group: Group, space: Shape) -> bool:
        # Whether every operand that the group makes is read where it is made.
        for value, read in zip(node.operands, strides, strict=True):
            root = self.layouts[value].root
            if self._home.get(root) is group and not self._reads_its_own(root, value, read, group):
                return False
        return True

    def _reads_its_own(self, root: Value, value: Value, read: Shape, group: Group) -> bool:
        member = self._forms[root]
        space = group.space
        assert space is not None
        if member.form in ("column", "all") or self.layouts[value].offset:
            return False
        outer = len(space) - group.row_axes
        made = layout.contiguous(space)
        if member.form == "row":
            made = layout.contiguous(space[:outer]) + (0,) * group.row_axes
        return all(n == 1 or a == b for n, a, b in zip(space, read, made, strict=True))

    # ---- order ---------------------------------------------------------------------------------

    def _depends(self, later: Group, earlier: Group) -> bool:
        """Whether ``later`` needs ``earlier`` to have run."""
        return bool(later.before >> earlier.number & 1)

    def _now_before(self, group: Group, before: int) -> None:
        # More must have run before ``group``: also before all that comes after it.
        if before == group.before:
            return
        group.before = before
        bit = 1 << group.number
        for other in self._groups.values():
            if other.before & bit:
                other.before |= before

    def _merge(self, other: Group, group: Group) -> None:
        """Take the members of ``other``, which a member of ``group`` reads, into ``group``."""
        if other.space is None or group.space is None:
            return
        if other.space != group.space and not (
            math.prod(other.space) == math.prod(group.space)
            and (self._respace(other, group.space) or self._respace(group, other.space))
        ):
            return
        if other.row_axes != group.row_axes and other.row_axes and group.row_axes:
            return
        if len(other.members) + len(group.members) > self.most:
            return
        # A path from one to the other through a third group would run in a circle.
        bit, own = 1 << other.number, 1 << group.number
        between = [
            g for g in self._groups.values() if g.before & bit and group.before >> g.number & 1
        ]
        if between or other.before & own:
            return
        row_axes = other.row_axes or group.row_axes
        moved = [*other.members, *group.members]
        before_rows, group.row_axes = group.row_axes, row_axes
        homes = {m.result for m in moved}
        for member in moved:
            for value, read in zip(member.node.operands, member.strides, strict=True):
                root = self.layouts[value].root
                if root in homes and not self._reads_its_own(root, value, read, group):
                    group.row_axes = before_rows
                    return
        group.members = moved
        for member in other.members:
            for value in member.node.outputs:
                self._home[value] = group
        del self._groups[other.number]
        group.before = (group.before | other.before) & ~bit
        for each in self._groups.values():
            if each is not group and each.before & (bit | own):
                each.before = each.before & ~bit | own | group.before

    def _ordered(self) -> list[Group]:
        # Depth first, so that what a group makes is used soon after.
        done: set[int] = set()
        order: list[Group] = []
        for group in self._groups.values():
            if group.number in done:
                continue
            missing = group.before
            ready = [g for n, g in self._groups.items() if missing >> n & 1 and n not in done]
            ready.sort(key=lambda g: (g.before.bit_count(), g.number))
            for each in [*ready, group]:
                order.append(each)
                done.add(each.number)
        return order
