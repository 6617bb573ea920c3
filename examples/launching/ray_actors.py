"""Ranks as Ray actors: ``python ray_actors.py [RANKS]``.

Ray places, starts and restarts the actors. Each joins the world with ``Communicator.join(info)``.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections import Counter
from typing import Any

import ray

import fl_dist as dist
import fl_tensor as ft


@ray.remote(num_cpus=1, max_restarts=0)
class Rank:
    """One rank of a world."""

    def host(self) -> tuple[str, str, int]:
        """The node of this actor, its address, and a port that is free there."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), port

    def train(self, info: dist.RankInfo) -> float:
        """What a script does after ``dist.init()``."""
        with dist.load("processes").join(info, timeout=60) as comm:
            total: float = comm.all_reduce(ft.asarray([comm.rank + 1.0])).item()
        return total


def places(hosts: list[tuple[str, str, int]], generation: int) -> list[dist.RankInfo]:
    """Where every actor stands; rank 0 serves the store."""
    nodes = [node for node, _, _ in hosts]
    numbers, seen = {node: i for i, node in enumerate(dict.fromkeys(nodes))}, Counter[str]()
    _, address, port = hosts[0]
    token, infos = secrets.token_hex(16), []
    for rank, node in enumerate(nodes):
        infos.append(
            dist.RankInfo(
                rank=rank,
                world_size=len(nodes),
                local_rank=seen[node],
                local_size=nodes.count(node),
                node=numbers[node],
                store=f"tcp://{address}:{port}",
                token=token,
                generation=generation,
            )
        )
        seen[node] += 1
    return infos


def run(world_size: int, restarts: int = 3) -> list[Any]:
    """The result of every rank. After the death of an actor all are started anew."""
    for generation in range(restarts + 1):
        ranks = [Rank.remote() for _ in range(world_size)]
        infos = places(ray.get([rank.host.remote() for rank in ranks]), generation)
        try:
            return ray.get([rank.train.remote(info) for rank, info in zip(ranks, infos)])
        except (ray.exceptions.RayActorError, dist.PeerError):
            for rank in ranks:
                ray.kill(rank)
    raise SystemExit(f"gave up after {restarts} restarts")


if __name__ == "__main__":
    ray.init(include_dashboard=False)
    print(run(int(sys.argv[1]) if sys.argv[1:] else 2))
