"""Programs of ``test_mpi.py``: for mpiexec as a script, for ``run`` as functions."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import fl_dist as dist
import fl_tensor as ft
from fl_dist.mpi import MPICommunicator

BUSY = 2.0  # seconds


def greet() -> None:
    with dist.init(timeout=30) as comm:
        total = comm.all_reduce(ft.asarray(float(comm.rank))).item()
        print(f"rank {comm.rank} of {comm.world_size} has {total}\n", end="", flush=True)


def fail() -> None:
    with dist.init(timeout=30) as comm:
        comm.barrier()
        if comm.rank == 1:
            raise ValueError("injected failure")
        comm.barrier()


def ask_for_a_restart() -> None:
    with dist.init(timeout=30) as comm:
        comm.barrier()
    sys.exit(75)


def fail_while_others_sleep() -> None:
    comm = dist.init(timeout=30)
    if comm.rank == 0:
        raise ValueError("injected failure")
    time.sleep(600)


def leave() -> None:
    comm = dist.init(timeout=30)
    if comm.rank == 0:
        comm.barrier()


def join_alone() -> None:
    MPICommunicator.join(dist.RankInfo(0, 2, 0, 2, store="mpi:"))


def end_process(comm: dist.Communicator, how: str) -> None:
    comm.barrier()
    if comm.rank == 1:
        if how == "exit":
            os._exit(3)
        os.kill(os.getpid(), signal.Signals[how])
    comm.barrier()


def stop_process(comm: dist.Communicator, folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    comm.barrier()


def send_and_compute(comm: dist.Communicator) -> float:
    """How long the receive of 32 MB takes while its sender does not call MPI."""
    comm.barrier()
    start = time.monotonic()
    if comm.rank == 0:
        comm.send(ft.ones((8 << 20,)), 1)
        time.sleep(BUSY)
    else:
        assert comm.recv(0).shape == (8 << 20,)
    seconds = time.monotonic() - start
    comm.barrier()
    return seconds


def many_groups(comm: dist.Communicator) -> bool:
    """More groups than MPI can have at a time, closed one after the other."""
    for _ in range(1200):
        half = comm.split(comm.rank // 2)
        assert half is not None
        pair = half.split(0, key=-half.rank)
        assert pair is not None and pair.rank == 1 - half.rank
        pair.close()
        half.close()
    return bool(comm.all_reduce(ft.asarray(1.0)).item() == comm.world_size)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
