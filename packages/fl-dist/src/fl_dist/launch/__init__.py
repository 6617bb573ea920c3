"""Launching programs on the ranks of a new world: in threads or in processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import ArgumentError
from fl_dist.launch import threads
from fl_dist.launch.threads import contexts as contexts
from fl_dist.launch.threads import in_threads as in_threads
from fl_dist.launch.threads import shared as shared

__all__ = ["check", "contexts", "in_threads", "run", "shared"]


def run(
    communicator: type[Communicator],
    world_size: int,
    fn: Callable[..., Any],
    *args: Any,
    timeout: float | None = None,
) -> list[Any]:
    """``communicator.run``: what it says there."""
    check(communicator, world_size, timeout)
    if communicator.ranks_are == "threads":
        return threads.run(communicator, world_size, fn, args, timeout)
    from fl_dist.launch import processes

    return processes.run(communicator, world_size, fn, args, timeout)


def check(communicator: type[Communicator], world_size: int, timeout: float | None = None) -> None:
    """Raise ArgumentError for a world that cannot be launched."""
    Deadline(timeout, "[run]")
    if isinstance(world_size, bool) or not isinstance(world_size, int) or world_size < 1:
        raise ArgumentError(f"[run] world_size {world_size!r}: expected an int of at least 1")
    if not communicator.offers(world_size):
        raise ArgumentError(f"[run] {communicator.name!r} offers no world of size {world_size}")
