"""Ranks in processes of this host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fl_dist.communicator import Communicator


def run(
    communicator: type[Communicator],
    world_size: int,
    fn: Callable[..., Any],
    args: Sequence[Any],
    timeout: float | None = None,
) -> list[Any]:
    """``fn(communicator, *args)`` on ``world_size`` processes; the results in rank order."""
    raise NotImplementedError
