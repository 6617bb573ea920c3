"""A rank that checks every result, until a fault ends it: ``python fault_rank.py COMMUNICATOR``.

The environment says which rank it is (``FL_DIST_*``, or mpiexec). ``FAULT_FOLDER`` is where it
writes its process number, a line for each phase, and how it ended.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import fl_dist as dist
import fl_tensor as ft

#: Seconds that a rank waits for another one, and that the program runs when nothing breaks.
TIMEOUT, LENGTH = 2.0, 6.0
#: Exit statuses: the world is broken, or a result was wrong.
BROKEN, WRONG = 75, 3
SIZES = (1, 100, 20_000, 300_000)


class WrongResultError(Exception):
    """A collective returned something else than the reduction of the operands."""


def shut_sockets(*_: Any) -> None:
    """Shut all connections of this process, as a broken network would."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                with socket.socket(fileno=os.dup(int(name))) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed, or it listens


def step(comm: dist.Communicator, number: int) -> None:
    """A random operation, the same on all ranks, with a result that is known."""
    rng = random.Random(number)
    kind, size = rng.choice(["reduce", "gather", "async", "ring"]), rng.choice(SIZES)
    n, rank = comm.world_size, comm.rank
    mine = np.full(size, number % 1000 + rank, np.int64)
    x = ft.asarray(mine)
    if kind == "gather":
        found, expected = comm.all_gather(x)[n - 1].numpy(), mine + (n - 1 - rank)
    elif kind == "ring":
        comm.send(x, (rank + 1) % n)
        found = comm.recv((rank - 1) % n).numpy()
        expected = mine + ((rank - 1) % n - rank)
    else:
        total = comm.all_reduce(x, async_op=kind == "async")
        found = (total.wait() if kind == "async" else total).numpy()
        expected = np.full(size, n * (number % 1000) + n * (n - 1) // 2, np.int64)
    if not np.array_equal(found, expected):
        raise WrongResultError(f"step {number}, {kind} of {size} on rank {rank}")


def work(name: str, write: Any) -> None:
    info = dist.environment()
    with dist.load(name).join(info, timeout=2 * TIMEOUT) as comm:
        comm.timeout = TIMEOUT
        write(f"joined{comm.rank}", os.getpid())
        number, end = 0, time.monotonic() + LENGTH
        # Rank 0 decides when all of them end.
        while dist.broadcast_object(comm, time.monotonic() < end):
            step(comm, number)
            number += 1


def main(name: str) -> int:
    folder = Path(os.environ["FAULT_FOLDER"])
    signal.signal(signal.SIGUSR1, shut_sockets)

    def write(file: str, content: Any) -> None:
        part = folder / f"{file}.{os.getpid()}.part"
        part.write_text(json.dumps(content))
        part.rename(folder / file)

    found: dict[str, Any] = {"error": None}
    try:
        if os.environ.get("FAULT_FULL") == os.environ.get("FL_DIST_RANK", ""):
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
            try:
                work(name, write)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        else:
            work(name, write)
        status = 0
    except WrongResultError as error:
        found, status = {"error": "WrongResultError", "text": str(error)}, WRONG
    except dist.FlError as error:
        found = {"error": type(error).__name__, "text": str(error)}
        found["rank"], status = getattr(error, "rank", None), BROKEN
    write(f"ended{os.getpid()}", {**found, "at": time.monotonic()})
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
