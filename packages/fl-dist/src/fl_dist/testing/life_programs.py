"""Programs of the suite about the beginning and the end of a world.

Functions of a module with plain data in and out, like those in ``fl_dist.testing.programs``.
"""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import PeerError
from fl_dist.testing.failure_programs import error_of


def greet(comm: Communicator) -> list[float]:
    """What a script does that joined: a collective, a message to the next rank."""
    total = comm.all_reduce(ft.asarray(float(comm.rank))).item()
    comm.send(ft.asarray(float(comm.rank)), (comm.rank + 1) % comm.world_size)
    heard = comm.recv((comm.rank - 1) % comm.world_size).item()
    return [total, heard]


def greet_and_fail(comm: Communicator) -> None:
    """The last rank fails when all have met."""
    comm.barrier()
    if comm.rank == comm.world_size - 1:
        raise ValueError("injected failure")
    comm.barrier()


def close_twice(comm: Communicator) -> list[tuple[list[str], str]]:
    """The errors of closing twice, of a call after that, and of ``abort`` after that."""
    comm.barrier()
    work = comm.all_reduce(ft.asarray(1.0), async_op=True)
    comm.close()
    found = [([], "") if work.done else (["under way"], "")]
    found.append(error_of(comm.close))
    found.append(error_of(comm.barrier))
    return found


def closed_by_with(comm: Communicator) -> tuple[list[str], str]:
    with comm:
        comm.barrier()
    return error_of(comm.barrier)


def one_aborts(comm: Communicator) -> tuple[str, int, str]:
    """Rank 0 aborts while the others wait for it. What the others get: error, rank, cause."""
    comm.barrier()
    if comm.rank == 0:
        for other in range(1, comm.world_size):
            comm.recv(other)  # else it might abort while some are still in the barrier
        comm.abort("injected abort")
        return "", 0, ""
    comm.send(ft.asarray(1.0), 0)
    try:
        comm.all_reduce(ft.asarray(1.0))
    except PeerError as error:
        return type(error).__name__, error.rank, error.cause
    return "no error", -1, ""


class PlainError(Exception):
    """An error with arguments of its own."""

    def __init__(self, code: int, place: str) -> None:
        super().__init__(f"code {code} at {place}")
        self.code = code
        self.place = place

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.place)


def one_raises(comm: Communicator) -> None:
    comm.barrier()
    if comm.rank == 0:
        raise PlainError(7, "the start")
    comm.barrier()
