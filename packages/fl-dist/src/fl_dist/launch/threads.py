"""Ranks in threads of this process: a context and a random generator per rank."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from secrets import token_hex
from typing import Any, TypeVar

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import ProgramError, one_line
from fl_dist.rank_info import RankInfo

T = TypeVar("T")

_meetings: dict[str, tuple[Any, int]] = {}  # store -> what its ranks share, how many took it
_lock = threading.Lock()


def run(
    communicator: type[Communicator],
    world_size: int,
    fn: Callable[..., Any],
    args: Sequence[Any],
    timeout: float | None = None,
) -> list[Any]:
    """``fn(communicator, *args)`` on ``world_size`` threads; the results in rank order."""
    store = f"threads:{token_hex(8)}"
    joined: dict[int, Communicator] = {}

    def body(rank: int) -> Any:
        info = RankInfo(rank, world_size, rank, world_size, store=store)
        comm = joined[rank] = communicator.join(info)
        comm.timeout = timeout or communicator.timeout
        result = fn(comm, *args)
        comm.close()
        return result

    def failed(rank: int, error: BaseException) -> None:
        for r, comm in list(joined.items()):
            if rank in (r, -1):  # -1: the caller was interrupted, and all are to end
                comm.abort(one_line(error))

    return in_threads(world_size, body, failed)


def shared(info: RankInfo, make: Callable[[], T]) -> T:
    """One object for all ranks of the world ``info.store`` in this process, for ``join`` of
    communicators whose ranks are threads. The first rank makes it, the last one forgets it."""
    with _lock:
        value, count = _meetings.pop(info.store, None) or (make(), 0)
        if count + 1 < info.world_size:
            _meetings[info.store] = (value, count + 1)
        return value


def contexts(world_size: int) -> list[contextvars.Context]:
    """A copy of the caller's context for every rank (the backend in use, overrides ...), each with
    its own default generator, split from the caller's."""
    made = []
    for generator in ft.default_generator().split(world_size):
        context = contextvars.copy_context()
        context.run(ft.set_default_generator, generator)
        made.append(context)
    return made


def in_threads(
    world_size: int,
    body: Callable[[int], Any],
    failed: Callable[[int, BaseException], None] | None = None,
) -> list[Any]:
    """``[body(0), body(1), ...]``, each in a thread and in one of the ``contexts``.

    ``failed(rank, error)`` is called at once, in the thread of a body that raised, and is expected
    to make the other bodies end. Raises ProgramError when all have ended; interrupted (Ctrl-C), it
    calls ``failed(-1, ...)`` and passes the interrupt on without waiting.
    """
    tell = failed or (lambda rank, error: None)
    results: list[Any] = [None] * world_size
    errors: dict[int, BaseException] = {}

    def thread(rank: int) -> None:
        try:
            results[rank] = body(rank)
        except BaseException as error:
            errors[rank] = error  # the first entry is the first failure: dicts keep their order
            tell(rank, error)

    threads = [
        threading.Thread(target=context.run, args=(thread, rank), name=f"rank {rank}", daemon=True)
        for rank, context in enumerate(contexts(world_size))
    ]
    try:
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    except BaseException as interrupt:
        tell(-1, interrupt)
        raise
    if errors:
        raise ProgramError(next(iter(errors)), errors, world_size)
    return results
