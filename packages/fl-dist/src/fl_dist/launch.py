"""Helpers of launchers: a context and a random generator per rank, and ranks in threads."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import ArgumentError, ProgramError


def check(communicator: type[Communicator], world_size: int, timeout: float | None = None) -> None:
    """Raise ArgumentError for a world that cannot be launched."""
    Deadline(timeout, "[run]")
    if isinstance(world_size, bool) or not isinstance(world_size, int) or world_size < 1:
        raise ArgumentError(f"[run] world_size {world_size!r}: expected an int of at least 1")
    if not communicator.offers(world_size):
        raise ArgumentError(f"[run] {communicator.name!r} offers no world of size {world_size}")


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
    failed: Callable[[int, BaseException], None] = lambda rank, error: None,
) -> list[Any]:
    """``[body(0), body(1), ...]``, each in a thread and in one of the ``contexts``.

    ``failed(rank, error)`` is called at once, in the thread of a body that raised, and is expected
    to make the other bodies end. Raises ProgramError when all have ended; interrupted (Ctrl-C), it
    calls ``failed(-1, ...)`` and passes the interrupt on without waiting.
    """
    results: list[Any] = [None] * world_size
    errors: dict[int, BaseException] = {}

    def thread(rank: int) -> None:
        try:
            results[rank] = body(rank)
        except BaseException as error:
            errors[rank] = error  # the first entry is the first failure: dicts keep their order
            failed(rank, error)

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
        failed(-1, interrupt)
        raise
    if errors:
        raise ProgramError(next(iter(errors)), errors, world_size)
    return results
