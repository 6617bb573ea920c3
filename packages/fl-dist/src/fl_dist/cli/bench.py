"""``fl-dist bench``: latency and bandwidth of the collectives of a communicator.

Alone it launches its own ranks; started by a launcher (``fl-dist run -m fl_dist bench``, mpiexec,
torchrun) it measures the world that it is in.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.initialize import init
from fl_dist.rank_info import environment
from fl_dist.registry import load

#: Bytes of the tensor that each rank passes, and calls that are measured.
SIZES = {1 << 10: 200, 1 << 16: 100, 1 << 20: 30, 1 << 24: 5}
WARM_UP = 3


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    given = options().parse_args(arguments)
    sizes = {size: count for size, count in SIZES.items() if size <= given.max_bytes}
    if environment().world_size > 1:
        with init(given.communicator) as comm:
            name, rank, count, rows = comm.name, comm.rank, comm.world_size, measure(comm, sizes)
        if rank:
            return 0
    else:
        name, count = given.communicator or "processes", given.n
        rows = load(name).run(count, measure, sizes)[0]
    print(f"{name}, {count} ranks, float32; median time of a call, bytes of one rank / that time")
    print(f"{'':<24}{'bytes':>10}{'us':>12}{'MB/s':>10}")
    for operation, size, seconds in rows:
        rate = f"{size / seconds / 1e6:>10.0f}" if size else ""
        print(f"{operation:<24}{size or '':>10}{seconds * 1e6:>12.1f}{rate}")
    return 0


def measure(comm: Communicator, sizes: dict[int, int]) -> list[tuple[str, int, float]]:
    """Rows of operation, bytes per rank, and the median seconds of a call on the slowest rank."""
    rows = [("barrier", 0, median(comm, comm.barrier, max(sizes.values(), default=1)))]
    for name, operation in OPERATIONS.items():
        for size, count in sizes.items():
            x = ft.ones((size // 4,), dtype="float32")
            rows.append((name, size, median(comm, partial(operation, comm, x), count)))
    return rows


def median(comm: Communicator, call: Callable[[], Any], count: int) -> float:
    """Seconds of a call: the median of each rank, the largest of all ranks."""
    times = []
    for _ in range(WARM_UP + count):
        comm.barrier()
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    mine = ft.asarray([statistics.median(times[WARM_UP:])], dtype="float64")
    slowest: float = comm.all_reduce(mine, "max").item()
    return slowest


def ping_pong(comm: Communicator, x: ft.Tensor) -> None:
    """Half of it is a message; ranks above 1 look on."""
    if comm.rank == 0 and comm.world_size > 1:
        comm.send(x, 1)
        comm.recv(1)
    elif comm.rank == 1:
        comm.send(comm.recv(0), 0)


OPERATIONS: dict[str, Callable[[Communicator, ft.Tensor], Any]] = {
    "all_reduce": lambda comm, x: comm.all_reduce(x),
    "broadcast": lambda comm, x: comm.broadcast(x),
    "all_gather_tensor": lambda comm, x: comm.all_gather_tensor(
        x, counts=[len(x)] * comm.world_size
    ),
    "reduce_scatter_tensor": lambda comm, x: comm.reduce_scatter_tensor(x),
    "send there and back": ping_pong,
}


def options() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(prog="fl-dist bench", description=__doc__)
    add = parser.add_argument
    add("--communicator", metavar="C", help="default: processes, or what the launcher says")
    add("-n", type=int, default=2, metavar="N", help="ranks to launch (default 2)")
    add("--max-bytes", type=int, default=max(SIZES), help="leave out larger tensors")
    return parser
