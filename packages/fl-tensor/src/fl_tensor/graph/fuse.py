"""Fusion: which operations run together, as one pass over the same elements.

Groups (``group.py``) are made greedily in the order of the graph: an operation joins the group of
one of its operands, and the groups of the others are merged with it. In a second round groups merge
that read the same arrays, and in a third values that go from one group to another are computed
anew where that is cheaper (``recompute.py``).

Three questions decide. Can it be done: members must agree on the space, which is a matter of
strides (``layout.py``), so that changes of shape between them do no harm. Can it run: no path may
lead out of the group and back in (``precedence.py``). Does it pay: ``fusion_cost.py`` weighs what
is saved against what is lost. ``most`` bounds a group, as LLVM takes more than twice as long for
twice as many instructions.

A node is looked at once, with the groups of its operands, and an array once with the groups that
read it, each beside the next: time grows with the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from math import prod
from typing import NamedTuple

from fl_tensor.graph import fusion_cost
from fl_tensor.graph.fusion_cost import Verdict
from fl_tensor.graph.group import (
    Group,
    Member,
    crossing,
    form_of,
    own_space,
    read,
    reads_what_is_made,
    rows_of,
)
from fl_tensor.graph.ir import Graph, Node, Value
from fl_tensor.graph.layout import VIEWS, Layout, Shape
from fl_tensor.graph.precedence import Precedence
from fl_tensor.graph.recompute import Again, recompute
from fl_tensor.graph.reductions import REDUCTIONS


class Fit(NamedTuple):
    """A node as a member of a group that goes over ``space``, in rows of so many axes."""

    member: Member
    space: Shape
    row_axes: int


class Fusion:
    """The groups of a graph, in an order in which they can run.

    ``fusible(node)`` says which nodes may share a group; views (``layout.VIEWS``) that move no data
    belong to none. Nodes of other kinds are groups of one. ``layouts`` gets those of values that
    are computed anew; ``again`` says which these are.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: dict[Value, Layout],
        fusible: Callable[[Node], bool],
        most: int = 96,
    ) -> None:
        self.layouts = layouts
        self.most = most
        self._groups: dict[int, Group] = {}
        self._precedence = Precedence()
        #: The group that makes a root, and the form of it there.
        self._home: dict[Value, Group] = {}
        self._forms: dict[Value, str] = {}
        for number, node in enumerate(graph.nodes):
            if node.op in VIEWS and layouts[node.outputs[0]].root is not node.outputs[0]:
                continue
            self._place(number, node, fusible(node))
        self._join_readers()
        groups = [self._groups[number] for number in self._precedence.order()]
        results = {layouts[v].root for v in graph.outputs}
        self.again: list[Again] = recompute(graph, groups, layouts, results, most)
        self.groups = [group for group in groups if group.members]

    def explain(self) -> list[str]:
        """Lines for people: which values are computed again, and of each that one group makes and
        another reads, why they are two."""
        found = [f"{v} {v.type} is computed again: {said}" for v, _, said in self.again]
        home = {v: group for group in self.groups for node in group.nodes for v in node.outputs}
        for value, readers in crossing(self.groups, self.layouts, ()).items():
            for reader in readers:
                if home[value].space is not None and reader.space is not None:
                    said = self.obstacle(home[value], reader) or "they were apart too early"
                    found.append(f"{value} {value.type} is written and read: {said}")
        return found

    # ---- placing a node ------------------------------------------------------------------------

    def _place(self, number: int, node: Node, fusible: bool) -> None:
        reads = dict.fromkeys(self.layouts[v].root for v in node.operands)
        homes = list(dict.fromkeys(self._home[r] for r in reads if r in self._home))
        if fusible:
            for group in sorted(homes, key=lambda g: -g.number):
                fit = self._fit(node, group, reads, homes)
                if isinstance(fit, Fit):
                    self._join(fit, group, reads, homes)
                    return
        group = Group(number, own_space(node) if fusible else None)
        self._groups[number] = group
        self._precedence.add(number, [home.number for home in homes])
        member = Member(node, [], "full")
        if group.space is not None:
            member.form = form_of(node, 0) or "full"
            group.row_axes = rows_of(node, member.form, 0)
            found = [read(v, self.layouts, group.space, group.space) for v in node.operands]
            member.strides = [s for s in found if s is not None]
        self._settle(member, group, reads)

    def _settle(self, member: Member, group: Group, reads: Iterable[Value]) -> None:
        group.members.append(member)
        group.reads.update((r, None) for r in reads if self._home.get(r) is not group)
        for value in member.node.outputs:
            self._home[value] = group
            self._forms[value] = member.form

    def _join(
        self, fit: Fit, group: Group, reads: Iterable[Value], homes: Collection[Group]
    ) -> None:
        if fit.space != group.space:
            group.move_to(fit.space)
        group.row_axes = fit.row_axes
        others = [home for home in homes if home is not group]
        self._settle(fit.member, group, reads)
        self._precedence.extend(group.number, [home.number for home in others])
        for other in others:
            if self.obstacle(other, group) is None:
                self._merge(other, group)

    def _fit(
        self, node: Node, group: Group, reads: Collection[Value], homes: Collection[Group]
    ) -> Fit | Verdict | None:
        # How the node joins the group; None where it cannot, a verdict where it should not.
        if group.space is None or len(group.members) >= self.most:
            return None
        if any(self._precedence.needs(h.number, group.number) for h in homes if h is not group):
            return None
        fit = self._over_elements(node, group) or self._over_rows(node, group)
        if fit is None:
            return None
        joining: Iterable[Node] = ()
        if fit.row_axes:
            joining = [node] if group.row_axes else group.nodes
        if fit.member.form == "row" and node.op not in REDUCTIONS:
            joining = ()  # once for each row
        shared = [r for r in reads if r in group.reads or self._home.get(r) is group]
        outside = [r for r in reads if self._home.get(r) is not group]
        whole = fit.member.form == "row" or group.has_whole_rows
        verdict = fusion_cost.together(
            shared, group.reads, outside, fit.space, fit.row_axes, joining, whole
        )
        return fit if verdict.pays else verdict

    def _over_elements(self, node: Node, group: Group) -> Fit | None:
        own, space = own_space(node), group.space
        assert space is not None
        if prod(own) != prod(space):
            return None
        form = form_of(node, group.row_axes)
        if own != space and group.moved_to(own) is not None:
            if fit := self._member(node, group, own, own, own, form):
                return fit
        if own == space or node.op not in REDUCTIONS:
            return self._member(node, group, own, space, space, form)
        return None

    def _over_rows(self, node: Node, group: Group) -> Fit | None:
        assert group.space is not None
        own, outer = own_space(node), group.space[: len(group.space) - group.row_axes]
        if not group.row_axes or node.op in REDUCTIONS or prod(own) != prod(outer):
            return None
        return self._member(node, group, own, outer, group.space, "row")

    def _member(
        self, node: Node, group: Group, own: Shape, over: Shape, space: Shape, form: str | None
    ) -> Fit | None:
        # The node over these axes of the space that the group is to have, if every operand that the
        # group makes is read where it is made.
        still = (0,) * (len(space) - len(over))
        strides = [read(v, self.layouts, own, over) for v in node.operands]
        found = [s + still for s in strides if s is not None]
        if form is None or len(found) != len(strides):
            return None
        moved = Group(group.number, space, group.row_axes)
        for value, each in zip(node.operands, found, strict=True):
            root = self.layouts[value].root
            if self._home.get(root) is group:
                made = moved.made(self._forms[root])
                if not reads_what_is_made(value, each, made, space, self.layouts):
                    return None
        rows = group.row_axes if form == "row" and over != space else 0
        return Fit(Member(node, found, form), space, rows or rows_of(node, form, group.row_axes))

    # ---- merging groups ------------------------------------------------------------------------

    def _join_readers(self) -> None:
        # Groups that read the same elements read them once, if they run together.
        readers: dict[Value, list[Group]] = {}
        for group in self._groups.values():
            for root in group.reads if group.space is not None else ():
                assert group.space is not None
                if prod(root.shape) == prod(group.space):
                    readers.setdefault(root, []).append(group)
        now: dict[Group, Group] = {}
        for found in readers.values():
            last = None
            for group in found:
                while group in now:
                    group = now[group]
                if last is not None and last is not group and self.obstacle(last, group) is None:
                    if self._precedence.needs(last.number, group.number):
                        last, group = group, last
                    self._merge(last, group)
                    now[last] = group
                last = group

    def obstacle(self, one: Group, other: Group) -> str | None:
        """Why the groups do not run together, where ``other`` may read what ``one`` makes."""
        if one.space is None or other.space is None:
            return "one of them runs alone"
        if len(one.members) + len(other.members) > self.most:
            return f"together they have more than {self.most} operations"
        if one.row_axes != other.row_axes and one.row_axes and other.row_axes:
            return "their rows differ"
        if not self._precedence.can_merge(one.number, other.number):
            return "a third group has to run between them"
        space = self._common_space(one, other)
        if space is None:
            return "they go over elements in different ways"
        row_axes = one.row_axes or other.row_axes
        if said := self._misread(one, other, space, row_axes):
            return said
        shared = [r for r in other.reads if r in one.reads or self._home.get(r) is one]
        outside = [r for r in other.reads if self._home.get(r) is not one]
        joining = [] if one.row_axes == other.row_axes else (other if one.row_axes else one).nodes
        whole = one.has_whole_rows or other.has_whole_rows
        verdict = fusion_cost.together(
            shared, one.reads, outside, space, row_axes, joining, whole
        )
        return None if verdict.pays else str(verdict)

    def _common_space(self, one: Group, other: Group) -> Shape | None:
        if one.space == other.space:
            return one.space
        assert one.space is not None and other.space is not None
        if one.moved_to(other.space) is not None:
            return other.space
        return one.space if other.moved_to(one.space) is not None else None

    def _misread(self, one: Group, other: Group, space: Shape, row_axes: int) -> str | None:
        # What keeps members of the two from reading each other's results where they are made.
        both = Group(other.number, space, row_axes)
        for group in (one, other):
            strides = [m.strides for m in group.members]
            if group.space != space:
                strides = group.moved_to(space) or []
            for member, reads in zip(group.members, strides, strict=True):
                for value, each in zip(member.node.operands, reads, strict=True):
                    root = self.layouts[value].root
                    if self._home.get(root) not in (one, other):
                        continue
                    made = both.made(self._forms[root])
                    if made is None:
                        return "it is known only when the first has run"
                    if not reads_what_is_made(value, each, made, space, self.layouts):
                        return "elements are read elsewhere than they are made"
        return None

    def _merge(self, other: Group, group: Group) -> None:
        """Take the members of ``other``, whose results those of ``group`` may read, into it."""
        space = self._common_space(other, group)
        assert space is not None
        for each in (other, group):
            if each.space != space:
                each.move_to(space)
        group.row_axes = group.row_axes or other.row_axes
        group.members = [*other.members, *group.members]
        for node in other.nodes:
            self._home.update(dict.fromkeys(node.outputs, group))
        reads = {**other.reads, **group.reads}
        group.reads = {r: None for r in reads if self._home.get(r) is not group}
        del self._groups[other.number]
        self._precedence.merge(other.number, group.number)
