"""Rematerialization: values that are cheaper to recompute than to write and read.

A value that one group computes and others read must be written. But it may be a few operations away
from values that are in memory anyway, or that take less memory. Each reader can compute it then.
Examples are a centred array from the array and its mean, a gradient from the incoming gradient and
a mask, or a scaled dropout mask from the mask in single bytes. A value that its own group does not
need is not computed there any more. ``fusion_cost.recomputed`` decides.

Chen et al., "Training deep nets with sublinear memory cost", 2016, recompute whole layers. Here
only operations of almost no cost are recomputed. Each value is visited once, with at most
``LONGEST`` operations, so time grows with the number of values.
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod
from typing import NamedTuple

from fl_jit.passes import fusion_cost
from fl_jit.passes.fusion_cost import Verdict
from fl_jit.passes.group import Group, Member, complete, crossing, reads_as_computed
from fl_jit.passes.reduction_forms import REDUCTIONS
from fl_tensor.graph import Graph, Node, Ref, Value, cost
from fl_tensor.graph import strides as layout
from fl_tensor.graph.strides import Shape, StridedLayout

#: Length of a chain of recomputed operations.
LONGEST = 6


class Rematerialized(NamedTuple):
    """``value`` is computed by each of its readers, by ``nodes``."""

    value: Value
    nodes: list[Node]
    verdict: Verdict


def rematerialize(
    graph: Graph,
    groups: Collection[Group],
    layouts: dict[Value, StridedLayout],
    results: Collection[Value],
    most: int,
) -> list[Rematerialized]:
    """Change ``groups``, which are in execution order, so that less is written.

    ``results`` are always written. The layouts of new values are added to ``layouts``. No group has
    more than ``most`` members. Groups may become empty.
    """
    return _Recomputation(graph, groups, layouts, results, most).done


class _Recomputation:
    def __init__(
        self,
        graph: Graph,
        groups: Collection[Group],
        layouts: dict[Value, StridedLayout],
        results: Collection[Value],
        most: int,
    ) -> None:
        self.graph, self.layouts, self.most = graph, layouts, most
        self.results = frozenset(results)
        self.home = {v: g for g in groups for node in g.nodes for v in node.outputs}
        self.member = {m.result: m for g in groups for m in g.members}
        #: The written values, and the other groups that read them.
        self.readers = crossing(groups, layouts, results)
        self.done: list[Rematerialized] = []
        for value in list(self.readers):
            if value in self.readers:
                self.consider(value)

    def consider(self, value: Value) -> None:
        producer, readers = self.home[value], self.readers[value]
        if value in self.results or producer.space is None or self.member[value].form != "full":
            return
        if not readers or not all(self.can_read(value, reader) for reader in readers):
            return
        chain, written = self.chain(value, producer)
        if chain is None or any(len(g.members) + len(chain) > self.most for g in readers):
            return
        made = {member.result for member in chain}
        inputs = {
            self.layouts[v].root: v
            for member in chain
            for v in member.node.operands
            if self.layouts[v].root not in made
        }
        read = sum(
            cost.touched(v, self.layouts[v])
            for reader in readers
            for root, v in inputs.items()
            if root not in reader.reads
        )
        stay = self.needed_without(value, producer)
        nodes = {m.node: len(readers) - (m not in stay) for m in chain}
        lost = [self.lost(reader, inputs, list(nodes), producer) for reader in readers]
        verdict = fusion_cost.recomputed(value, nodes, read, written, lost)
        if not verdict.pays:
            return
        for reader in readers:
            strides = [self.moved(member, producer, reader) for member in chain]
            if None in strides:
                return
        for reader in readers:
            self.compute_in(reader, value, chain, producer)
        del self.readers[value]
        for root in inputs:
            if root in self.home:
                known = self.readers.setdefault(root, [])
                known += [g for g in readers if g not in known and self.home[root] is not g]
        self.drop_unread(producer)
        self.done.append(Rematerialized(value, list(nodes), verdict))

    def lost(
        self, reader: Group, inputs: Collection[Value], nodes: list[Node], producer: Group
    ) -> dict[str, float]:
        # The losses of a reader that runs these nodes, too.
        assert reader.space is not None
        more = [root for root in inputs if root not in reader.reads]
        joining = nodes if reader.row_axes and not producer.row_axes else []
        space, rows = reader.space, reader.row_axes
        row_results = reader.has_row_results
        return fusion_cost.losses(reader.reads, more, joining, space, rows, row_results)

    def can_read(self, value: Value, reader: Group) -> bool:
        # Whether a group reads the value element by element, as it would compute it.
        space = reader.space
        if space is None or prod(space) != prod(value.shape):
            return False
        made = layout.contiguous(space)
        return all(
            reads_as_computed(v, strides, made, space, self.layouts)
            for member in reader.members
            for v, strides in zip(member.node.operands, member.strides, strict=True)
            if self.layouts[v].root is value
        )

    def chain(self, value: Value, producer: Group) -> tuple[list[Member] | None, list[Value]]:
        """The members that compute ``value`` from values in memory, and additional values to write
        for it. The latter take at most half as much memory each."""
        members: dict[Value, Member] = {}
        written: dict[Value, None] = {}
        waiting = [value]
        while waiting:
            each = waiting.pop()
            if each in members:
                continue
            member = self.member[each]
            if member.node.op in REDUCTIONS or member.form != "full" or len(members) == LONGEST:
                return None, []
            members[each] = member
            for v in member.node.operands:
                root = self.layouts[v].root
                if self.home.get(root) is not producer or root in self.readers:
                    continue
                if 2 * cost.size(root) <= cost.size(value):
                    written[root] = None
                else:
                    waiting.append(root)
        return [m for m in producer.members if m.result in members], list(written)

    def moved(self, member: Member, producer: Group, reader: Group) -> list[Shape] | None:
        # The strides of a member over the space of another group.
        assert producer.space is not None and reader.space is not None
        if producer.space == reader.space:
            return member.strides
        return complete(layout.reshape(producer.space, s, reader.space) for s in member.strides)

    def compute_in(self, reader: Group, value: Value, chain: list[Member], producer: Group) -> None:
        copies: dict[Value, Value] = {}
        made: list[Member] = []
        for member in chain:
            (out,) = member.node.outputs
            new = copies[out] = self.copy(out)
            node = self.fed(member.node, copies, (new,))
            strides = self.moved(member, producer, reader)
            assert strides is not None
            made.append(Member(node, strides, "full"))
            self.home[new], self.member[new] = reader, made[-1]
        for member in reader.members:
            if any(self.layouts[v].root is value for v in member.node.operands):
                member.node = self.fed(member.node, {value: copies[value]}, member.node.outputs)
        reader.members = [*made, *reader.members]
        self.update_reads(reader)

    def copy(self, value: Value) -> Value:
        new = self.graph.value(value.shape, value.dtype, value.device)
        self.layouts[new] = StridedLayout(new, 0, layout.contiguous(new.shape))
        return new

    def fed(self, node: Node, copies: dict[Value, Value], outputs: tuple[Value, ...]) -> Node:
        # The node with copies of its operands, or views of copies in place of views.
        def other(value: Value) -> Value:
            root, offset, strides = self.layouts[value]
            if root not in copies:
                return value
            if value is root:
                return copies[root]
            view = self.graph.value(value.shape, value.dtype, value.device)
            self.layouts[view] = StridedLayout(copies[root], offset, strides)
            return view

        def fed(ref: Ref) -> Ref:
            if isinstance(ref, tuple):
                return tuple(map(other, ref))
            return None if ref is None else other(ref)

        return Node(node.op, tuple(map(fed, node.inputs)), node.parameters, outputs)

    def needed_without(self, value: Value | None, group: Group) -> list[Member]:
        # The members whose results are needed if no other group reads ``value``, last ones first.
        read: set[Value] = set()
        needed = []
        for member in reversed(group.members):
            out = member.result
            if out in read or out in self.readers and out is not value:
                needed.append(member)
                read.update(self.layouts[v].root for v in member.node.operands)
        return needed

    def drop_unread(self, group: Group) -> None:
        # Remove members whose results are not needed any more.
        group.members = self.needed_without(None, group)[::-1]
        before = group.reads
        self.update_reads(group)
        for root in before.keys() - group.reads.keys():
            others = self.readers.get(root, [])
            if group in others:
                others.remove(group)
                if not others and root not in self.results:
                    del self.readers[root]
                    self.drop_unread(self.home[root])

    def update_reads(self, group: Group) -> None:
        made = {member.result for member in group.members}
        roots = (self.layouts[v].root for node in group.nodes for v in node.operands)
        group.reads = dict.fromkeys(root for root in roots if root not in made)
