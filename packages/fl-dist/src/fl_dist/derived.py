"""Derived collectives, written with ``do_send`` and ``do_recv``.

Plain algorithms that are easy to trust: values meet at one rank or everybody writes to everybody.
Sends never wait, so all sends of a step go out before its first receive and nothing can block in a
circle. A communicator with a better way overrides the method, not this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_dist import reduction
from fl_dist.arguments import TAG_LIMIT
from fl_dist.call import compare
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError
from fl_dist.values import beside, fresh, pack_text, unpack_text
from fl_tensor import DType, Tensor

if TYPE_CHECKING:
    from fl_dist.communicator import Communicator

# One tag per algorithm: where nobody checks agreement, a mix-up waits in vain instead of
# taking another collective's message for its own.
AGREE, REDUCE, BROADCAST, GATHER, EXCHANGE, BARRIER, SPLIT = range(TAG_LIMIT, TAG_LIMIT + 7)


def all_reduce(comm: Communicator, x: Tensor, op: str, deadline: Deadline) -> Tensor:
    """Reduced on rank 0 and sent out from there, so that all ranks hold the same bits."""
    total = reduce(comm, x, op, 0, deadline)
    return broadcast(comm, x if total is None else total, 0, deadline)


def all_reduce_many(
    comm: Communicator, xs: Sequence[Tensor], op: str, deadline: Deadline
) -> list[Tensor]:
    """One ``do_all_reduce`` per dtype: its tensors travel as one flat tensor."""
    results: list[Tensor] = list(xs)
    by_dtype: dict[DType, list[int]] = {}
    for i, x in enumerate(xs):
        by_dtype.setdefault(x.dtype, []).append(i)
    for places in by_dtype.values():
        first = xs[places[0]]
        flat = [beside(first, ft.reshape(xs[i], (-1,))) for i in places]
        packed = ft.concatenate(flat) if len(flat) > 1 else flat[0]
        packed = comm.do_all_reduce(packed, op, deadline)
        start = 0
        for i in places:
            part = packed[start : start + xs[i].size]
            start += xs[i].size
            results[i] = beside(xs[i], ft.reshape(part, xs[i].shape))
    return results


def broadcast(comm: Communicator, x: Tensor, root: int, deadline: Deadline) -> Tensor:
    if comm.rank != root:
        return beside(x, comm.do_recv(root, BROADCAST, deadline))
    for other in _others(comm):
        comm.do_send(x, other, BROADCAST, deadline)
    return fresh(x)


def reduce(comm: Communicator, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
    """The root takes the values in rank order, whatever the order of their arrival."""
    if comm.rank != root:
        comm.do_send(x, root, REDUCE, deadline)
        return None
    total: Tensor | None = None
    for r in range(comm.world_size):
        value = x if r == root else beside(x, comm.do_recv(r, REDUCE, deadline))
        total = value if total is None else reduction.combine(op, total, value)
    assert total is not None  # there is at least this rank
    return fresh(reduction.finish(op, total, comm.world_size))


def all_gather(
    comm: Communicator, x: Tensor, deadline: Deadline, tag: int = GATHER
) -> list[Tensor]:
    return _exchange(comm, [x] * comm.world_size, tag, deadline)


def reduce_scatter(comm: Communicator, xs: Sequence[Tensor], op: str, deadline: Deadline) -> Tensor:
    return reduction.fold(op, _exchange(comm, xs, EXCHANGE, deadline))


def all_to_all(comm: Communicator, xs: Sequence[Tensor], deadline: Deadline) -> list[Tensor]:
    return _exchange(comm, xs, EXCHANGE, deadline)


def barrier(comm: Communicator, deadline: Deadline) -> None:
    """Dissemination: after round k a rank has heard, directly or not, of 2^(k+1) - 1 others."""
    token = ft.zeros((0,), ft.uint8)
    step = 1
    while step < comm.world_size:
        comm.do_send(token, (comm.rank + step) % comm.world_size, BARRIER, deadline)
        comm.do_recv((comm.rank - step) % comm.world_size, BARRIER, deadline)
        step *= 2


def agree(comm: Communicator, text: str, deadline: Deadline, tag: int = AGREE) -> None:
    """Rank 0 collects what everybody is about to do and tells everybody what it saw."""
    if comm.world_size == 1:
        return
    if comm.rank == 0:
        texts = [text] + [unpack_text(comm.do_recv(r, tag, deadline)) for r in _others(comm)]
        verdict = pack_text("" if all(t == text for t in texts) else "\0".join(texts))
        for other in _others(comm):
            comm.do_send(verdict, other, tag, deadline)
    else:
        comm.do_send(pack_text(text), 0, tag, deadline)
        verdict = comm.do_recv(0, tag, deadline)
    if verdict.size:
        compare(deadline.where, unpack_text(verdict).split("\0"))


def split(
    comm: Communicator, color: int | None, key: int, deadline: Deadline
) -> Communicator | None:
    """A ``Group``: the same transport with ranks renumbered and tags in a range of their own."""
    from fl_dist.group import Group

    base, ranks = Group.ground(comm)
    mine = ft.asarray([-1 if color is None else color, key, base._channels], ft.int64)
    rows = [row.tolist() for row in all_gather(comm, mine, deadline, SPLIT)]
    # Groups that share two ranks need different channels. Each rank's count only grows, so the
    # largest count among the ranks of this split is new to all of them.
    channel = max(row[2] for row in rows)
    if channel >= 1 << 15:
        raise DistError(f"{deadline.where}: a world can be split {1 << 15} times; keep the parts")
    base._channels = channel + 1
    if color is None:
        return None
    members = sorted((row[1], r) for r, row in enumerate(rows) if row[0] == color)
    return Group(base, [ranks[r] for _, r in members], channel)


def _exchange(
    comm: Communicator, xs: Sequence[Tensor], tag: int, deadline: Deadline
) -> list[Tensor]:
    """Send ``xs[r]`` to every rank r; the list of what every rank sent here."""
    mine = xs[comm.rank]
    for other in _others(comm):
        comm.do_send(xs[other], other, tag, deadline)
    received = {r: beside(mine, comm.do_recv(r, tag, deadline)) for r in _others(comm)}
    return [received[r] if r in received else fresh(mine) for r in range(comm.world_size)]


def _others(comm: Communicator) -> list[int]:
    return [r for r in range(comm.world_size) if r != comm.rank]
