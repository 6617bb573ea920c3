"""Shares: how many of `size` elements, rows or columns each rank has."""

from __future__ import annotations

from collections.abc import Sequence

import fl_dist as dist
from fl_nn.errors import ModuleError


def bounds(counts: Sequence[int], rank: int) -> tuple[int, int]:
    """Where the share of `rank` begins and ends."""
    start = sum(counts[:rank])
    return start, start + counts[rank]


def divided(where: str, name: str, size: int, comm: dist.Communicator) -> int:
    """`size` over the ranks of `comm`. Raises ModuleError where it does not divide."""
    each, rest = divmod(size, comm.world_size)
    if rest or not each:
        raise ModuleError(
            f"[{where}] {size} {name} do not divide over {comm.world_size} ranks: give a multiple "
            "of it, or a smaller group"
        )
    return each
