"""Operator fusion: groups of operations that run as one pass over the same elements.

Groups (``group.py``) are made greedily in the order of the graph. An operation joins the group of
one of its operands, and the groups of the others are merged with it (``group_merging.py``). In a
second round groups are merged that read the same arrays, or that compute single numbers for the
same readers. In a third round values that go from one group to another are recomputed where that is
cheaper (``rematerialization.py``).

There are three conditions:

* Members must agree on the space. This is checked on strides (``strides.py``), so reshapes between
  them do not prevent fusion.
* No path may lead out of the group and back in (``group_order.py``).
* Fusion must save time according to the cost model (``fusion_cost.py``).

``most`` bounds the size of a group, as LLVM takes more than twice as long for twice as many
instructions.

A node is visited once, with the groups of its operands. An array is visited once, with consecutive
pairs of the groups that read it. Time grows with the size of the graph.
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
    complete,
    crossing,
    form_of,
    iteration_space,
    read,
    reads_as_computed,
    rows_of,
)
from fl_jit.passes.group_merging import Merging
from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_jit.passes.rematerialization import rematerialize
from fl_tensor.extend import cached_property
from fl_tensor.graph import Graph, Node, Value
from fl_tensor.graph.strides import VIEWS, Shape, StridedLayout


class Fit(NamedTuple):
    """A node as a member of a group over ``space``, in rows of ``row_axes`` axes."""

    member: Member
    space: Shape
    row_axes: int


class Fusion(Merging):
    """The groups of a graph, in an order in which they can run.

    ``fusible(node)``: whether a node may share a group. Other nodes are groups of one. Views
    (``strides.VIEWS``) that move no data are in no group. The layouts of rematerialized values are
    added to ``layouts``. ``rematerialized`` lists these values.
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
        self.rematerialized = rematerialize(graph, groups, layouts, results, most)
        self.groups = [group for group in groups if group.members]

    def explain(self) -> list[str]:
        """Lines for people: the rematerialized values, and the values that one kernel writes for
        another. For the latter, they say why the two kernels are not one."""
        lines = [f"{v} {v.type} is computed again: {why}" for v, _, why in self.rematerialized]
        return lines + [f"{v} {v.type} is written: {why}" for v, why in self.unfused.items()]

    @cached_property
    def unfused(self) -> dict[Value, str]:
        """The reason why two groups are not one, for each value that one kernel writes and another
        reads."""
        reasons: dict[Value, str] = {}
        home = {v: group for group in self.groups for node in group.nodes for v in node.outputs}
        for value, readers in crossing(self.groups, self.layouts, ()).items():
            kernels = [group for group in readers if group.space is not None]
            if kernels and home[value].space is not None:
                reason = self.obstacle(home[value], kernels[0])
                reasons[value] = reason or "that was not known when they were made"
        return reasons

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
        group = Group(number, iteration_space(node) if fusible else None)
        self.by_number[number] = group
        self.precedence.add(number, [home.number for home in homes])
        member = Member(node, [], "full")
        if group.space is not None:
            member.form = form_of(node, 0) or "full"
            group.row_axes = rows_of(node, member.form, 0)
            strides = [read(v, self.layouts, group.space, group.space) for v in node.operands]
            member.strides = [s for s in strides if s is not None]
        self.add_member(member, group, reads)

    def _join(
        self, fit: Fit, group: Group, reads: Iterable[Value], homes: Collection[Group]
    ) -> None:
        if fit.space != group.space:
            group.reshape(fit.space)
        group.row_axes = fit.row_axes
        others = [home for home in homes if home is not group]
        self.add_member(fit.member, group, reads)
        self.precedence.extend(group.number, [home.number for home in others])
        for other in others:
            if self.obstacle(other, group) is None:
                self.merge(other, group)

    def _fit(
        self, node: Node, group: Group, reads: Collection[Value], homes: Collection[Group]
    ) -> Fit | Verdict | None:
        # The node as a member of the group; None if it cannot join, a verdict if it should not.
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
        by_row = fit.member.form == "row" or group.has_row_results
        lost = fusion_cost.losses(group.reads, outside, joining, fit.space, fit.row_axes, by_row)
        verdict = fusion_cost.together(shared, lost)
        return fit if verdict.pays else verdict

    def _over_elements(self, node: Node, group: Group) -> Fit | None:
        own, space = iteration_space(node), group.space
        assert space is not None
        if prod(own) != prod(space):
            return None
        form = form_of(node, group.row_axes)
        if own != space and group.reshaped_strides(own) is not None:
            if fit := self._member(node, group, own, own, own, form):
                return fit
        if own == space or node.op not in REDUCTIONS:
            return self._member(node, group, own, space, space, form)
        return None

    def _over_rows(self, node: Node, group: Group) -> Fit | None:
        assert group.space is not None
        own, outer = iteration_space(node), group.space[: len(group.space) - group.row_axes]
        if not group.row_axes or node.op in REDUCTIONS or prod(own) != prod(outer):
            return None
        return self._member(node, group, own, outer, group.space, "row")

    def _member(
        self, node: Node, group: Group, own: Shape, over: Shape, space: Shape, form: str | None
    ) -> Fit | None:
        # The node over these axes of the group's future space. Every operand from the group must be
        # read where it is computed.
        still = (0,) * (len(space) - len(over))
        strides = complete(read(v, self.layouts, own, over) for v in node.operands)
        if form is None or strides is None:
            return None
        wide = [s + still for s in strides]
        moved = Group(group.number, space, group.row_axes)
        for value, each in zip(node.operands, wide, strict=True):
            root = self.layouts[value].root
            if self.home.get(root) is group:
                made = moved.result_strides(self.forms[root])
                if not reads_as_computed(value, each, made, space, self.layouts):
                    return None
        rows = group.row_axes if form == "row" and over != space else 0
        return Fit(Member(node, wide, form), space, rows or rows_of(node, form, group.row_axes))
