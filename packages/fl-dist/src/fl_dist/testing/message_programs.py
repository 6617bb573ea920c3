"""Programs of the suite about messages and asynchronous work.

Functions of a module with plain data in and out, like those in ``fl_dist.testing.programs``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.objects import all_gather_object, broadcast_object
from fl_dist.testing.data import Plain, Spec
from fl_dist.testing.failure_programs import error_of
from fl_dist.testing.programs import operand, plain
from fl_dist.work import wait_any


def messages(comm: Communicator, specs: Sequence[Spec]) -> list[Plain | None]:
    """Everybody sends everything to everybody before anybody receives."""
    others = [r for r in range(comm.world_size) if r != comm.rank]
    for other in others:
        for i, spec in enumerate(specs):
            comm.send(operand(comm.rank + i, spec), other)
    return [plain(comm.recv(other)) for other in others for _ in specs]


def every_dtype(comm: Communicator) -> dict[str, bool]:
    """Do the bits of each dtype of the backend survive a broadcast, a gather, a message?"""
    last, intact = comm.world_size - 1, {}
    for dtype in sorted(ft.current_backend().dtypes, key=str):
        count = 3 * dtype.itemsize
        sent = [bytes((r + i * i) % 2 for i in range(count)) for r in range(last + 1)]
        x = ft.frombytes(sent[comm.rank], (3,), dtype)
        got = [comm.broadcast(x, last), *comm.all_gather(x)]
        want = [sent[last], *sent]
        if last:
            comm.send(x, (comm.rank + 1) % (last + 1))
            got.append(comm.recv((comm.rank - 1) % (last + 1)))
            want.append(sent[comm.rank - 1])
        same = [bytes(y.tobytes()) for y in got] == want
        intact[str(dtype)] = same and all(y.dtype is dtype for y in got)
    return intact


def tags(comm: Communicator) -> list[float]:
    """Rank 1 takes messages in another order of tags; within a tag they keep theirs."""
    order = [(7, 1.0), (0, 2.0), (7, 3.0), (32767, 4.0)]
    if comm.rank == 0:
        for tag, value in order:
            comm.send(ft.asarray(value), 1, tag=tag)
    if comm.rank != 1:
        return []
    return [comm.recv(0, tag=tag).item() for tag in (32767, 0, 7, 7)]


def sender_goes_on(comm: Communicator) -> list[float]:
    """What the sender does to its handle after ``send`` does not reach the receiver."""
    if comm.rank == 0:
        x = ft.asarray([1.0, 2.0])
        comm.send(x, 1)
        x[0] = 99.0
        x += 5.0
    comm.barrier()
    return list(comm.recv(0).tolist()) if comm.rank == 1 else []


def posted_receives(comm: Communicator) -> dict[str, Any]:
    """Receives that are posted before the sends, with collectives in between."""
    peer = comm.rank ^ 1
    first = comm.recv(peer, async_op=True)
    second = comm.recv(peer, async_op=True)
    total = comm.all_reduce(ft.asarray(1.0)).item()
    early = first.done
    comm.barrier()
    for value in (10.0, 20.0):
        sent = comm.send(ft.asarray(value + comm.rank), peer, async_op=True)
        sent.wait()
    return {"early": early, "total": total, "got": [second.wait().item(), first.wait().item()]}


def from_anybody(comm: Communicator) -> list[Any]:
    """Rank 0 takes two messages of every other rank, in the order of their coming."""
    if comm.rank != 0:
        for value in (1.0, 2.0):
            comm.send(ft.asarray(10.0 * comm.rank + value), 0, tag=3)
        comm.send(ft.asarray(-1.0), 0, tag=4)  # another tag is not meant
        comm.barrier()
        return []
    found = []
    for _ in range(2 * (comm.world_size - 1)):
        src, x = comm.recv(None, tag=3)
        found.append((src, x.item()))
    others = [comm.recv(r, tag=4).item() for r in range(1, comm.world_size)]
    comm.barrier()
    return [found, others, error_of(lambda: comm.recv(None, tag=3, timeout=0.1))]


def probed(comm: Communicator) -> list[Any]:
    """What ``probe`` says before and after messages came, and what is then received."""
    peer = comm.rank ^ 1
    if peer >= comm.world_size:
        comm.barrier()
        return []
    early = comm.probe(peer, tag=5)
    comm.barrier()
    for value in (1.0, 2.0):
        comm.send(ft.asarray(value), peer, tag=5)
    end = time.monotonic() + 20.0
    while not comm.probe(peer, tag=5) and time.monotonic() < end:
        time.sleep(1e-3)
    found = [comm.probe(peer, tag=5), comm.probe(peer, tag=6)]
    found += [comm.recv(peer, tag=5).item(), comm.recv(peer, tag=5).item()]
    return [early, *found, comm.probe(peer, tag=5)]


def waited_for_any(comm: Communicator) -> list[Any]:
    """Rank 0 waits for whichever of its receives ends first."""
    others = list(range(1, comm.world_size))
    if comm.rank != 0:
        for turn in range(len(others)):  # the last rank first
            if others[-1 - turn] == comm.rank:
                comm.send(ft.asarray(float(comm.rank)), 0)
            comm.barrier()
        return []
    works = [comm.recv(r, async_op=True) for r in others]
    order = []
    for _ in others:
        index = wait_any(works, timeout=20.0)
        order.append(works[index].wait().item())
        del works[index]
        comm.barrier()
    return [order, error_of(lambda: wait_any([])), error_of(lambda: _wait_in_vain(comm))]


def _wait_in_vain(comm: Communicator) -> None:
    work = comm.recv(1, tag=9, async_op=True, timeout=0.3)
    try:
        wait_any([work], timeout=0.05)
    finally:
        error_of(work.wait)


def received_like(comm: Communicator) -> list[Any]:
    """Receives into a known shape, and of a message that is another one."""
    shape, other = (2, 3), (comm.rank + 1) % comm.world_size
    before = (comm.rank - 1) % comm.world_size
    for _ in range(2):
        comm.send(ft.full(shape, float(comm.rank)), other)
    like = ft.zeros(shape)
    good = comm.recv(before, like=like)
    return [plain(good), good is not like, error_of(lambda: comm.recv(before, like=ft.zeros((6,))))]


def followed(comm: Communicator) -> list[Any]:
    """Callbacks of works that end well, that fail, and callbacks that fail themselves."""
    x = ft.asarray([1.0, 2.0])

    def total(y: ft.Tensor) -> float:
        return float(y.sum().item())

    def fails(y: ft.Tensor) -> None:
        raise KeyError("in the callback")

    called: list[Any] = []
    good = comm.all_reduce(x, async_op=True).then(total).then(lambda s: s + 1.0)
    bad = comm.all_reduce(x, async_op=True).then(fails)
    late = comm.recv((comm.rank + 1) % comm.world_size, tag=8, async_op=True, timeout=0.2)
    never = late.then(called.append)
    found = [good.wait(), good.done, type(_error(bad)).__name__, type(_error(never)).__name__]
    y = comm.all_reduce(x, async_op=True).synchronize()
    return [*found, called, y.tolist()]


def _error(work: Any) -> Any:
    try:
        work.wait()
    except Exception as error:
        return error
    return None


def objects(comm: Communicator) -> list[Any]:
    """Plain values of different length, from every rank and from the last one."""
    mine = {"rank": comm.rank, "text": "x" * (5 * comm.rank), "number": 0.1 * comm.rank}
    last = comm.world_size - 1
    refused = error_of(lambda: all_gather_object(comm, object()))
    return [all_gather_object(comm, mine), broadcast_object(comm, mine, last), refused]
