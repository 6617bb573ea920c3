"""Merging of fusion groups: the conditions for a merge, and the merge itself.

Two groups can merge if they have the same elements and the same rows. Values that one computes and
the other reads must be read where they are computed, and be known in time. No third group may have
to run between them. The cost model decides (``fusion_cost.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from fl_jit.passes import fusion_cost
from fl_jit.passes.group import Group, Member, reads_what_is_made
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

    def settle(self, member: Member, group: Group, reads: Iterable[Value]) -> None:
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
        for found in readers.values():
            last = None
            for group in found:
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

    def obstacle(self, one: Group, other: Group) -> str | None:
        """The reason why the groups do not merge, or None. ``other`` may read results of
        ``one``."""
        if one.space is None or other.space is None:
            return "one of them runs alone"
        if len(one.members) + len(other.members) > self.most:
            return f"together they have more than {self.most} operations"
        if one.row_axes != other.row_axes and one.row_axes and other.row_axes:
            return "their rows differ"
        if not self.precedence.can_merge(one.number, other.number):
            return "a third group has to run between them"
        space = self._common_space(one, other)
        if space is None:
            return "they go over elements in different ways"
        row_axes = one.row_axes or other.row_axes
        if said := self._misread(one, other, space, row_axes):
            return said
        shared = [r for r in other.reads if r in one.reads or self.home.get(r) is one]
        outside = [r for r in other.reads if self.home.get(r) is not one]
        joining = [] if one.row_axes == other.row_axes else (other if one.row_axes else one).nodes
        whole = one.has_whole_rows or other.has_whole_rows
        lost = fusion_cost.losses(one.reads, outside, joining, space, row_axes, whole)
        verdict = fusion_cost.together(shared, lost)
        return None if verdict.pays else str(verdict)

    def _common_space(self, one: Group, other: Group) -> Shape | None:
        if one.space == other.space:
            return one.space
        assert one.space is not None and other.space is not None
        if one.moved_to(other.space) is not None:
            return other.space
        return one.space if other.moved_to(one.space) is not None else None

    def _misread(self, one: Group, other: Group, space: Shape, row_axes: int) -> str | None:
        # The reason why members of the two cannot read each other's results where they are
        # computed.
        both = Group(other.number, space, row_axes)
        for group in (one, other):
            strides = [m.strides for m in group.members]
            if group.space != space:
                strides = group.moved_to(space) or []
            for member, reads in zip(group.members, strides, strict=True):
                for value, each in zip(member.node.operands, reads, strict=True):
                    root = self.layouts[value].root
                    if self.home.get(root) not in (one, other):
                        continue
                    made = both.made(self.forms[root])
                    if made is None:
                        return "it is known only when the first has run"
                    if not reads_what_is_made(value, each, made, space, self.layouts):
                        return "elements are read elsewhere than they are made"
        return None

    def merge(self, other: Group, group: Group) -> None:
        """Merge the members of ``other``, whose results those of ``group`` may read, into
        ``group``."""
        space = self._common_space(other, group)
        assert space is not None
        for each in (other, group):
            if each.space != space:
                each.move_to(space)
        group.row_axes = group.row_axes or other.row_axes
        group.members = [*other.members, *group.members]
        for node in other.nodes:
            self.home.update(dict.fromkeys(node.outputs, group))
        reads = {**other.reads, **group.reads}
        group.reads = {r: None for r in reads if self.home.get(r) is not group}
        del self.by_number[other.number]
        self.precedence.merge(other.number, group.number)
