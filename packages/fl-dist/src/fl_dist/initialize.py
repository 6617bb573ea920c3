"""``init``: the communicator of a script that a launcher has started."""

from __future__ import annotations

import os

from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError
from fl_dist.rank_info import environment
from fl_dist.registry import load


def init(communicator: str | None = None, *, timeout: float | None = None) -> Communicator:
    """Join the world that the launcher describes in the environment; ``local`` where it is one.

    communicator  a name; default: FL_DIST_COMMUNICATOR, else "mpi" under mpiexec, else "processes"
    timeout       seconds for the meeting, and the default of later operations

    Use it as ``with dist.init() as comm:``. Raises ArgumentError for contradictory variables and
    for a communicator whose ranks are threads; StoreError or DistTimeoutError when not all ranks
    of one job meet.
    """
    info = environment()
    name = communicator or os.environ.get("FL_DIST_COMMUNICATOR", "")
    name = name or ("mpi" if info.store == "mpi:" else "processes")
    cls = load("local" if info.world_size == 1 else name)
    if cls.ranks_are == "threads" and info.world_size > 1:
        raise ArgumentError(
            f"[init] the ranks of {name!r} are threads of one process, and this is rank "
            f"{info.rank} of {info.world_size} processes: call fl_dist.{name}.run there, or name "
            "another communicator"
        )
    return cls.join(info, timeout=timeout)
