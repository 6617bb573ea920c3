"""Fusion: which operations run together, as one pass over the same elements.

Groups (``group.py``) are made greedily in the order of the graph: an operation joins the group of
one of its operands, and the groups of the others are merged with it (``merge.py``). In a second
round groups merge that read the same arrays, or make single numbers for the same readers; in a
third values that go from one group to another are computed anew where that is cheaper
(``recompute.py``).

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

from fl_jit.passes import fusion_cost
from fl_jit.passes.fusion_cost import Verdict
from fl_jit.passes.group import (
    Group,
    Member,
    crossing,
    form_of,
    own_space,
    read,
    reads_what_is_made,
    rows_of,
)
from fl_jit.passes.group_merging import Merging
from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_jit.passes.rematerialization import Rematerialized, rematerialize
from fl_tensor.cached import cached_property
from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.strides import VIEWS, Shape, StridedLayout


class Fit(NamedTuple):
    """A node as a member of a group that goes over ``space``, in rows of so many axes."""

    member: Member
    space: Shape
    row_axes: int


class Fusion(Merging):
    """The groups of a graph, in an order in which they can run.

    ``fusible(node)`` says which nodes may share a group; views (``layout.VIEWS``) that move no data
    belong to none. Nodes of other kinds are groups of one. ``layouts`` gets those of values that
    are computed anew; ``again`` says which these are.
    """

    def __init__(
        self,
        graph: Graph,
        layouts: dict[Value, StridedLayout],
        fusible: Callable[[Node], bool],
        most: int = 96,
    ) -> None:
        super().__init__(layouts, most)
        for number, node in enumerate(graph.nodes):
            if node.op in VIEWS and layouts[node.outputs[0]].root is not node.outputs[0]:
                continue
            self._place(number, node, fusible(node))
        self.join_readers()
        self.join_numbers()
        groups = [self.by_number[number] for number in self.precedence.order()]
        results = {layouts[v].root for v in graph.outputs}
        self.again: list[Rematerialized] = rematerialize(graph, groups, layouts, results, most)
        self.groups = [group for group in groups if group.members]

    def explain(self) -> list[str]:
        """Lines for people: which values are computed again, and of those that one kernel makes and
        another reads, why they are two."""
        again = [f"{v} {v.type} is computed again: {said}" for v, _, said in self.again]
        return again + [f"{v} {v.type} is written: {said}" for v, said in self.apart.items()]

    @cached_property
    def apart(self) -> dict[Value, str]:
        """Of each value that one group with a kernel makes and another reads: why they are two."""
        found: dict[Value, str] = {}
        home = {v: group for group in self.groups for node in group.nodes for v in node.outputs}
        for value, readers in crossing(self.groups, self.layouts, ()).items():
            kernels = [group for group in readers if group.space is not None]
            if kernels and home[value].space is not None:
                said = self.obstacle(home[value], kernels[0])
                found[value] = said or "that was not known when they were made"
        return found

    # ---- placing a node ------------------------------------------------------------------------

    def _place(self, number: int, node: Node, fusible: bool) -> None:
        reads = dict.fromkeys(self.layouts[v].root for v in node.operands)
        homes = list(dict.fromkeys(self.home[r] for r in reads if r in self.home))
        if fusible:
            for group in sorted(homes, key=lambda g: -g.number):
                fit = self._fit(node, group, reads, homes)
                if isinstance(fit, Fit):
                    self._join(fit, group, reads, homes)
                    return
        group = Group(number, own_space(node) if fusible else None)
        self.by_number[number] = group
        self.precedence.add(number, [home.number for home in homes])
        member = Member(node, [], "full")
        if group.space is not None:
            member.form = form_of(node, 0) or "full"
            group.row_axes = rows_of(node, member.form, 0)
            found = [read(v, self.layouts, group.space, group.space) for v in node.operands]
            member.strides = [s for s in found if s is not None]
        self.settle(member, group, reads)

    def _join(
        self, fit: Fit, group: Group, reads: Iterable[Value], homes: Collection[Group]
    ) -> None:
        if fit.space != group.space:
            group.move_to(fit.space)
        group.row_axes = fit.row_axes
        others = [home for home in homes if home is not group]
        self.settle(fit.member, group, reads)
        self.precedence.extend(group.number, [home.number for home in others])
        for other in others:
            if self.obstacle(other, group) is None:
                self.merge(other, group)

    def _fit(
        self, node: Node, group: Group, reads: Collection[Value], homes: Collection[Group]
    ) -> Fit | Verdict | None:
        # How the node joins the group; None where it cannot, a verdict where it should not.
        if group.space is None or len(group.members) >= self.most:
            return None
        if any(self.precedence.needs(h.number, group.number) for h in homes if h is not group):
            return None
        fit = self._over_elements(node, group) or self._over_rows(node, group)
        if fit is None:
            return None
        joining: Collection[Node] = ()
        if fit.row_axes:
            joining = [node] if group.row_axes else group.nodes
        if fit.member.form == "row" and node.op not in REDUCTIONS:
            joining = ()  # once for each row
        shared = [r for r in reads if r in group.reads or self.home.get(r) is group]
        outside = [r for r in reads if self.home.get(r) is not group]
        whole = fit.member.form == "row" or group.has_whole_rows
        lost = fusion_cost.losses(group.reads, outside, joining, fit.space, fit.row_axes, whole)
        verdict = fusion_cost.together(shared, lost)
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
            if self.home.get(root) is group:
                made = moved.made(self.forms[root])
                if not reads_what_is_made(value, each, made, space, self.layouts):
                    return None
        rows = group.row_axes if form == "row" and over != space else 0
        return Fit(Member(node, found, form), space, rows or rows_of(node, form, group.row_axes))
