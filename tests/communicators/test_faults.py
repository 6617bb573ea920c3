"""Ranks are killed, stopped, cut off or without space at random moments.

Nobody hangs, nothing stays behind, no result is wrong, and who is left says what happened.
``--faults N`` is how many faults, ``FL_TEST_COMMUNICATOR`` on which communicator.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fault_rank
import pytest
from fault_rank import BROKEN, TIMEOUT

NAME = os.environ.get("FL_TEST_COMMUNICATOR", "processes")
RANKS = 3
KINDS = ("SIGKILL", "SIGSTOP", "sockets", "full store")
#: Seconds after a fault in which all ranks end. Gloo has a limit of 30 seconds of its own.
LIMIT = TIMEOUT + 1 if NAME != "gloo" else 35
#: Seconds from an error to the end of the process. A rank of MPI waits 5 for the others first.
LEAVE = 1 if NAME != "mpi" else 6
#: Seconds of the start, on a busy machine.
START = 60
SEED = 2022


class World:
    """The processes of the ranks, as they were started."""

    def __init__(self, folder: Path, full: int | None) -> None:
        self.folder = folder
        env = {**os.environ, "FAULT_FOLDER": str(folder), "FAULT_FULL": str(full)}
        env["OMP_NUM_THREADS"] = env["OPENBLAS_NUM_THREADS"] = "1"
        command = [sys.executable, fault_rank.__file__, NAME]
        if NAME == "mpi":
            from fl_dist.mpi_world import mpiexec

            commands = [([str(mpiexec()), "-n", str(RANKS), *command], env)]
        else:
            env["FL_DIST_STORE"] = f"file:{folder}/store"
            commands = [(command, env | _place(rank)) for rank in range(RANKS)]
        with (folder / "output").open("ab") as output:
            self.processes = [
                subprocess.Popen(c, env=e, stdout=output, stderr=output, start_new_session=True)
                for c, e in commands
            ]

    def ranks(self) -> dict[int, int]:
        """The process numbers of those that have joined, by rank."""
        files = self.folder.glob("joined[0-9]")
        return {int(file.name[6:]): json.loads(file.read_text()) for file in files}

    def ends(self) -> dict[int, dict[str, Any]]:
        """How processes ended, by their numbers, as far as they could say it."""
        files = self.folder.glob("ended*[0-9]")
        return {int(file.name[5:]): json.loads(file.read_text()) for file in files}

    def wait(self, seconds: float) -> bool:
        """Whether all processes that were started have ended within this time."""
        end = time.monotonic() + seconds
        while any(process.poll() is None for process in self.processes):
            if time.monotonic() > end:
                return False
            time.sleep(0.005)
        return True

    def kill(self) -> None:
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()


def _place(rank: int) -> dict[str, str]:
    sizes = {"FL_DIST_WORLD_SIZE": str(RANKS), "FL_DIST_LOCAL_SIZE": str(RANKS)}
    return {"FL_DIST_RANK": str(rank), "FL_DIST_LOCAL_RANK": str(rank), **sizes}


def _runs(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _shared_names() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "fl" in name}


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[list[World]]:
    made: list[World] = []
    yield made
    for world in made:
        world.kill()


def test_a_fault_ends_the_world_in_time_and_nothing_else(
    worlds: list[World], tmp_path: Path, fault: int
) -> None:
    rng = random.Random(SEED + fault)
    kinds = KINDS if NAME != "mpi" else KINDS[:3]  # the ranks of MPI meet without a store
    kind, victim, moment = kinds[fault % len(kinds)], rng.randrange(RANKS), rng.uniform(0, 1.5)
    names = _shared_names()
    world = World(tmp_path, victim if kind == "full store" else None)
    worlds.append(world)
    if kind == "full store":
        assert world.wait(START + 2 * TIMEOUT)
        errors = world.ends()
        assert len(errors) == RANKS, (tmp_path / "output").read_text()
        assert all(e["error"] for e in errors.values()), errors
        assert "StoreError" in {e["error"] for e in errors.values()}, errors
        assert [p.returncode for p in world.processes] == [BROKEN] * RANKS
    else:
        end = time.monotonic() + START
        while len(world.ranks()) < RANKS:
            assert time.monotonic() < end, "the ranks never joined"
            time.sleep(0.01)
        pids = world.ranks()
        time.sleep(moment)
        struck = time.monotonic()
        if kind == "sockets":
            os.kill(pids[victim], signal.SIGUSR1)
        else:
            os.kill(pids[victim], signal.SIGKILL if kind == "SIGKILL" else signal.SIGSTOP)
        _check(world, kind, pids, victim, struck)
    assert _shared_names() == names


def _check(world: World, kind: str, pids: dict[int, int], victim: int, struck: float) -> None:
    survivors = {rank: pid for rank, pid in pids.items() if rank != victim}
    limit = LIMIT + (fault_rank.LENGTH if kind == "sockets" else 0)  # MPI may not need them
    end = struck + limit + LEAVE
    while any(_runs(pid) for pid in survivors.values()) and time.monotonic() < end:
        time.sleep(0.005)
    assert not [rank for rank, pid in survivors.items() if _runs(pid)], "ranks hang"
    if kind == "SIGSTOP":
        if _runs(pids[victim]):
            os.kill(pids[victim], signal.SIGKILL)
    assert world.wait(limit + LEAVE), "a process stays behind"
    ends = world.ends()
    assert "WrongResultError" not in {e["error"] for e in ends.values()}, ends
    for rank, pid in survivors.items():
        if NAME == "mpi" and pid not in ends:
            continue  # mpiexec ends all ranks when one is gone
        found = ends[pid]
        if kind != "sockets":
            assert found["error"] in ("PeerError", "DistTimeoutError"), found
        if kind == "SIGKILL" and NAME == "processes":
            assert (found["error"], found["rank"]) == ("PeerError", victim), (rank, found)
            assert found["at"] - struck < 1.0, found
        elif found["error"] is not None:
            assert found["at"] - struck < limit, found
