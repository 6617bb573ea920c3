"""Where a rank stands in its job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankInfo:
    """What a rank must know to join its world; plain data.

    rank        number of this rank, 0 .. world_size - 1
    world_size  number of ranks
    local_rank  number among the ranks of this host
    local_size  number of ranks on this host
    node        number of this host
    store       where ranks meet: ``"file:/folder"``, ``"tcp://host:port"``, ``"mpi:"``, or the name
                of a store of another distribution
    token       secret that the ranks of one job share
    generation  how often the job was restarted; part of every key
    job         name of the job
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int = 1
    node: int = 0
    store: str = ""
    token: str = ""
    generation: int = 0
    job: str = ""
