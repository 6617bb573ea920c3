"""Derived collectives, written with ``do_send`` and ``do_recv``.

Plain algorithms that are easy to trust: values meet at one rank or everybody writes to everybody.
Sends never wait, so all sends of a step go out before its first receive and nothing can block in a
circle. A communicator with a better way overrides the method, not this file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate
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
    from fl_dist.transport import Transport

__all__ = [
    "all_gather",
    "all_gather_tensor",
    "all_reduce",
    "all_reduce_many",
    "all_to_all",
    "barrier",
    "broadcast",
    "check_consistent",
    "compare_descriptions",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "row_counts",
    "rows",
    "scatter",
    "split",
]

# One tag per algorithm: where nobody checks consistency, a mix-up waits in vain instead of
# taking another collective's message for its own.
CHECK, REDUCE, BROADCAST, GATHER, EXCHANGE, BARRIER, SPLIT, TEXTS, SCATTER = range(
    TAG_LIMIT, TAG_LIMIT + 9
)


def _send(comm: Transport, x: Tensor, dst: int, tag: int, deadline: Deadline) -> None:
    comm.do_send(x, dst, tag, comm.channel, deadline)


def _recv(comm: Transport, src: int, tag: int, deadline: Deadline) -> Tensor:
    return comm.do_recv(src, tag, comm.channel, deadline)


# ---- reductions ----------------------------------------------------------------------------------


def all_reduce(comm: Transport, x: Tensor, op: str, deadline: Deadline) -> Tensor:
    """Reduced on rank 0 and sent out from there, so that all ranks hold the same bits."""
    total = reduce(comm, x, op, 0, deadline)
    return broadcast(comm, x if total is None else total, 0, deadline)


def all_reduce_many(
    comm: Transport, xs: Sequence[Tensor], op: str, deadline: Deadline
) -> list[Tensor]:
    """One ``do_all_reduce`` per dtype: its tensors travel as one flat tensor."""
    if comm.world_size == 1:
        return [fresh(x) for x in xs]
    results: list[Tensor] = list(xs)
    by_dtype: dict[DType, list[int]] = {}
    for i, x in enumerate(xs):
        by_dtype.setdefault(x.dtype, []).append(i)
    for places in by_dtype.values():
        packed = comm.do_all_reduce(_packed([xs[i] for i in places]), op, deadline)
        start = 0
        for i in places:
            part = packed[start : start + xs[i].size]
            start += xs[i].size
            results[i] = beside(xs[i], ft.reshape(part, xs[i].shape))
    return results


def reduce(comm: Transport, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
    """The root takes the values in rank order, whatever the order of their arrival."""
    if comm.rank != root:
        _send(comm, x, root, REDUCE, deadline)
        return None
    total: Tensor | None = None
    for r in range(comm.world_size):
        value = x if r == root else beside(x, _recv(comm, r, REDUCE, deadline))
        if total is None:
            total = reduction.widen(op, value)
        else:
            total = reduction.combine(op, total, value)
    assert total is not None  # there is at least this rank
    return fresh(reduction.finish(op, total, comm.world_size, x.dtype))


def reduce_scatter(comm: Transport, xs: Sequence[Tensor], op: str, deadline: Deadline) -> Tensor:
    """``xs`` as one flat tensor, for a transport that divides one in its own way."""
    if comm.world_size > 1 and _overrides(comm, "do_reduce_scatter_tensor"):
        counts = tuple([x.size for x in xs])
        share = comm.do_reduce_scatter_tensor(_packed(xs), op, counts, deadline)
        mine = xs[comm.rank]
        return beside(mine, ft.reshape(share, mine.shape))
    return reduction.fold(op, _exchange(comm, xs, EXCHANGE, deadline))


def reduce_scatter_tensor(
    comm: Transport, x: Tensor, op: str, counts: Sequence[int], deadline: Deadline
) -> Tensor:
    return reduction.fold(op, _exchange(comm, rows(x, counts), EXCHANGE, deadline))


# ---- values as they are --------------------------------------------------------------------------


def broadcast(comm: Transport, x: Tensor, root: int, deadline: Deadline) -> Tensor:
    if comm.rank != root:
        return beside(x, _recv(comm, root, BROADCAST, deadline))
    for other in _others(comm):
        _send(comm, x, other, BROADCAST, deadline)
    return fresh(x)


def all_gather(comm: Transport, x: Tensor, deadline: Deadline, tag: int = GATHER) -> list[Tensor]:
    """Parts of one flat tensor, for a transport that gathers one in its own way."""
    if tag == GATHER and comm.world_size > 1 and _overrides(comm, "do_all_gather_tensor"):
        counts = (x.size,) * comm.world_size
        joined = comm.do_all_gather_tensor(ft.reshape(x, (-1,)), counts, deadline)
        return [ft.reshape(part, x.shape) for part in rows(joined, counts)]
    return _exchange(comm, [x] * comm.world_size, tag, deadline)


def all_gather_tensor(
    comm: Transport, x: Tensor, counts: Sequence[int], deadline: Deadline
) -> Tensor:
    if comm.world_size == 1:
        return fresh(x)
    return ft.concatenate(_exchange(comm, [x] * comm.world_size, GATHER, deadline))


def row_counts(comm: Transport, x: Tensor, deadline: Deadline) -> tuple[int, ...]:
    """The length of axis 0 on every rank."""
    if comm.world_size == 1:
        return (x.shape[0],)
    mine = ft.asarray([x.shape[0]], ft.int64)
    return tuple([count.item() for count in comm.do_all_gather(mine, deadline)])


def gather(comm: Transport, x: Tensor, root: int, deadline: Deadline) -> list[Tensor] | None:
    if comm.rank != root:
        _send(comm, x, root, GATHER, deadline)
        return None
    return [
        fresh(x) if r == root else beside(x, _recv(comm, r, GATHER, deadline))
        for r in range(comm.world_size)
    ]


def scatter(comm: Transport, xs: Sequence[Tensor], root: int, deadline: Deadline) -> Tensor:
    if comm.rank != root:
        return _recv(comm, root, SCATTER, deadline)
    for other in _others(comm):
        _send(comm, xs[other], other, SCATTER, deadline)
    return fresh(xs[root])


def all_to_all(comm: Transport, xs: Sequence[Tensor], deadline: Deadline) -> list[Tensor]:
    return _exchange(comm, xs, EXCHANGE, deadline)


# ---- meetings ------------------------------------------------------------------------------------


def barrier(comm: Transport, deadline: Deadline) -> None:
    """Dissemination: after round k a rank has heard, directly or not, of 2^(k+1) - 1 others."""
    token = ft.zeros((0,), ft.uint8)
    for before, behind in _rounds(comm):
        _send(comm, token, behind, BARRIER, deadline)
        _recv(comm, before, BARRIER, deadline)


def check_consistent(comm: Transport, fingerprint: int, deadline: Deadline) -> bool:
    """Dissemination of the least and the greatest word: equal iff all words are."""
    least = greatest = fingerprint
    for before, behind in _rounds(comm):
        mine = struct.pack("=qq", least, greatest)
        _send(comm, ft.frombytes(mine, (2,), ft.int64), behind, CHECK, deadline)
        heard = _recv(comm, before, CHECK, deadline)
        low, high = struct.unpack("=qq", heard.tobytes())
        least, greatest = min(least, low), max(greatest, high)
    return least == greatest


def compare_descriptions(comm: Transport, text: str, deadline: Deadline, tag: int = TEXTS) -> None:
    """Everybody tells everybody what it is about to do. MismatchError unless all say the same."""
    texts = _exchange(comm, [pack_text(text)] * comm.world_size, tag, deadline)
    compare(deadline.where, [unpack_text(x) for x in texts])


def split(comm: Transport, color: int | None, key: int, deadline: Deadline) -> Communicator | None:
    """A ``Group``: the same transport with ranks renumbered and a channel of their own."""
    from fl_dist.group import Group

    base, ranks = Group.ground(comm)
    mine = ft.asarray([-1 if color is None else color, key, base._channels], ft.int64)
    requested = [row.tolist() for row in all_gather(comm, mine, deadline, SPLIT)]
    # Groups that share two ranks need different channels. Each rank's count only grows, so the
    # largest count among the ranks of this split is new to all of them.
    channel = max(row[2] for row in requested)
    if channel >= 1 << 15:
        raise DistError(f"{deadline.where}: a world can be split {1 << 15} times; keep the parts")
    base._channels = channel + 1
    if color is None:
        return None
    members = sorted((row[1], r) for r, row in enumerate(requested) if row[0] == color)
    return Group(base, [ranks[r] for _, r in members], channel)


# ---- steps ---------------------------------------------------------------------------------------


def rows(x: Tensor, counts: Sequence[int]) -> list[Tensor]:
    """Axis 0 of ``x`` divided into parts of ``counts`` rows."""
    ends = list(accumulate(counts))
    return [x[end - count : end] for end, count in zip(ends, counts)]


def _packed(xs: Sequence[Tensor]) -> Tensor:
    """One flat tensor, beside the first."""
    flat = [beside(xs[0], ft.reshape(x, (-1,))) for x in xs]
    return ft.concatenate(flat) if len(flat) > 1 else flat[0]


def _overrides(comm: Transport, name: str) -> bool:
    from fl_dist.transport import Transport  # which takes its defaults from here

    return getattr(type(comm), name) is not getattr(Transport, name)


def _exchange(comm: Transport, xs: Sequence[Tensor], tag: int, deadline: Deadline) -> list[Tensor]:
    """Send ``xs[r]`` to every rank r; the list of what every rank sent here."""
    mine = xs[comm.rank]
    for other in _others(comm):
        _send(comm, xs[other], other, tag, deadline)
    received = {r: beside(mine, _recv(comm, r, tag, deadline)) for r in _others(comm)}
    return [received[r] if r in received else fresh(mine) for r in range(comm.world_size)]


def _rounds(comm: Transport) -> Iterator[tuple[int, int]]:
    """For each round of a dissemination: whom to hear, and whom to tell."""
    step = 1
    while step < comm.world_size:
        yield (comm.rank - step) % comm.world_size, (comm.rank + step) % comm.world_size
        step *= 2


def _others(comm: Transport) -> list[int]:
    return [r for r in range(comm.world_size) if r != comm.rank]
