"""Merging of fusion groups: the conditions for a merge, and the merge itself.

Two groups can merge if they have the same elements and the same rows. Values that one computes and
the other reads must be read where they are computed, and be known in time. No third group may have
to run between them. The cost model decides (``fusion_cost.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from fl_jit.passes import fusion_cost
from fl_jit.passes.group import Group, Member, reads_as_computed
from fl_jit.passes.group_order import Precedence
from fl_tensor.graph import Value, cost
from fl_tensor.graph.strides import Shape, StridedLayout


class Merging:
    """Groups of at most ``most`` members by number, and their execution order."""

    def __init__(self, layouts: Mapping[Value, StridedLayout], most: int) -> None:
        self.layouts, self.most = layouts, most
        self.by_number: dict[int, Group] = {}
        self.precedence = Precedence()
        #: The group that computes a root, and the form of the root there.
        self.home: dict[Value, Group] = {}
        self.forms: dict[Value, str] = {}

    def add_member(self, member: Member, group: Group, reads: Iterable[Value]) -> None:
        """Add a member, which reads these roots, to the group."""
        group.members.append(member)
        group.reads.update((r, None) for r in reads if self.home.get(r) is not group)
        for value in member.node.outputs:
            self.home[value] = group
            self.forms[value] = member.form

    def join_readers(self) -> None:
        """Merge groups that read the same elements, which are then read once. Small arrays are in
        caches, and their groups may be fused horizontally (``horizontal_fusion.py``)."""
        readers: dict[Value, list[Group]] = {}
        for group in self.by_number.values():
            for root in group.reads if group.space is not None else ():
                assert group.space is not None
                if prod(root.shape) == prod(group.space) and cost.size(root) >= fusion_cost.CACHED:
                    readers.setdefault(root, []).append(group)
        now: dict[Group, Group] = {}
        for reading in readers.values():
            last = None
            for group in reading:
                while group in now:
                    group = now[group]
                if last is not None and last is not group and self.obstacle(last, group) is None:
                    if self.precedence.needs(last.number, group.number):
                        last, group = group, last
                    self.merge(last, group)
                    now[last] = group
                last = group

    def join_numbers(self) -> None:
        """Merge groups that compute single numbers for the same readers. An example are the norms
        of all gradients, which are added up. The readers wait for all of them anyway."""
        readers: dict[Group, list[int]] = {}
        for group in self.by_number.values():
            for home in dict.fromkeys(self.home.get(root) for root in group.reads):
                if home is not None and home.space is not None and prod(home.space) == 1:
                    readers.setdefault(home, []).append(group.number)
        last: dict[tuple[int, ...], Group] = {}
        for group, numbers in readers.items():
            before = last.get(tuple(numbers))
            if before is not None and self.obstacle(before, group) is None:
                self.merge(before, group)
            last[tuple(numbers)] = group

    def obstacle(self, first: Group, second: Group) -> str | None:
        """The reason why the groups do not merge, or None. ``second`` may read results of
        ``first``."""
        if first.space is None or second.space is None:
            return "one of them runs alone"
        if len(first.members) + len(second.members) > self.most:
            return f"together they have more than {self.most} operations"
        if first.row_axes != second.row_axes and first.row_axes and second.row_axes:
            return "their rows differ"
        if not self.precedence.can_merge(first.number, second.number):
            return "a third group has to run between them"
        space = self._common_space(first, second)
        if space is None:
            return "they go over elements in different ways"
        row_axes = first.row_axes or second.row_axes
        if reason := self._conflict(first, second, space, row_axes):
            return reason
        shared = [r for r in second.reads if r in first.reads or self.home.get(r) is first]
        outside = [r for r in second.reads if self.home.get(r) is not first]
        joining = (
            [] if first.row_axes == second.row_axes else (second if first.row_axes else first).nodes
        )
        row_results = first.has_row_results or second.has_row_results
        lost = fusion_cost.losses(first.reads, outside, joining, space, row_axes, row_results)
        verdict = fusion_cost.together(shared, lost)
        return None if verdict.pays else str(verdict)

    def _common_space(self, first: Group, second: Group) -> Shape | None:
        if first.space == second.space:
            return first.space
        assert first.space is not None and second.space is not None
        if first.reshaped_strides(second.space) is not None:
            return second.space
        return first.space if second.reshaped_strides(first.space) is not None else None

    def _conflict(self, first: Group, second: Group, space: Shape, row_axes: int) -> str | None:
        # The reason why members of the two cannot read each other's results where they are
        # computed.
        both = Group(second.number, space, row_axes)
        for group in (first, second):
            strides = [m.strides for m in group.members]
            if group.space != space:
                strides = group.reshaped_strides(space) or []
            for member, reads in zip(group.members, strides, strict=True):
                for value, each in zip(member.node.operands, reads, strict=True):
                    root = self.layouts[value].root
                    if self.home.get(root) not in (first, second):
                        continue
                    computed = both.result_strides(self.forms[root])
                    if computed is None:
                        return "it is known only when the first has run"
                    if not reads_as_computed(value, each, computed, space, self.layouts):
                        return "elements are read elsewhere than they are made"
        return None

    def merge(self, other: Group, group: Group) -> None:
        """Merge the members of ``other``, whose results those of ``group`` may read, into
        ``group``."""
        space = self._common_space(other, group)
        assert space is not None
        for each in (other, group):
            if each.space != space:
                each.reshape(space)
        group.row_axes = group.row_axes or other.row_axes
        group.members = [*other.members, *group.members]
        for node in other.nodes:
            self.home.update(dict.fromkeys(node.outputs, group))
        reads = {**other.reads, **group.reads}
        group.reads = {r: None for r in reads if self.home.get(r) is not group}
        del self.by_number[other.number]
        self.precedence.merge(other.number, group.number)
