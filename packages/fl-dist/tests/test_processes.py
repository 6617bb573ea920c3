"""``processes``: what the kit for all communicators does not ask."""

from __future__ import annotations

import ast
import errno
import os
import platform
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import process_programs as programs
import pytest

import fl_tensor as ft
from fl_dist import (
    Communicator,
    DistError,
    DistTimeoutError,
    FlError,
    PeerError,
    ProgramError,
    RankInfo,
    ThreadsCommunicator,
    load,
)
from fl_dist.processes import ProcessesCommunicator, arena, fence
from fl_dist.testing.random_programs import available_dtypes

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and signals")


def join_by_hand(
    tmp_path: Path,
    infos: list[RankInfo],
    program: Callable[..., Any],
    *args: Any,
    timeout: float = 30.0,
) -> list[Any]:
    """Ranks that join one by one in threads of this process: each result, or its exception."""
    found: list[Any] = [None] * len(infos)

    def body(i: int, info: RankInfo) -> None:
        try:
            with ProcessesCommunicator.join(info, timeout=timeout) as comm:
                comm.timeout = timeout
                found[i] = program(comm, *args)
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=body, args=item) for item in enumerate(infos)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def nodes(tmp_path: Path, sizes: list[int]) -> list[RankInfo]:
    """The ranks of several hosts, as a launcher would number them."""
    places = [(node, local, size) for node, size in enumerate(sizes) for local in range(size)]
    return [
        RankInfo(rank, len(places), local, size, node, store=f"file:{tmp_path}/store")
        for rank, (node, local, size) in enumerate(places)
    ]


# ---- the same bits -------------------------------------------------------------------------------


def test_it_is_found_by_its_name() -> None:
    assert load("processes") is ProcessesCommunicator


@pytest.mark.parametrize("world_size", [2, 4])
def test_200_random_programs_have_the_bits_of_threads(world_size: int) -> None:
    dtypes = available_dtypes()
    wanted = ThreadsCommunicator.run(world_size, programs.random_programs, range(200), dtypes)
    found = ProcessesCommunicator.run(world_size, programs.random_programs, range(200), dtypes)
    for rank in range(world_size):
        for seed in range(200):
            assert found[rank][seed] == wanted[rank][seed], f"rank {rank}, program {seed}"


@pytest.mark.parametrize("world_size", [2, 3])
def test_large_tensors_have_the_bits_of_threads(world_size: int) -> None:
    seeds = range(60)
    wanted = ThreadsCommunicator.run(world_size, programs.large, seeds)
    assert ProcessesCommunicator.run(world_size, programs.large, seeds) == wanted


def test_nan_wins_and_halves_are_added_in_float32() -> None:
    for highest, lowest, total in ProcessesCommunicator.run(3, programs.extremes):
        assert highest == ["nan", "nan", "inf", "4.0", "0.0"]
        assert lowest == ["nan", "nan", "3.0", "-inf", "-1.0"]
        assert total == ["2050.0"]  # 2048 + 1 + 1; in float16 each step would end at 2048


# ---- hosts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[1, 1], [2, 1], [2, 2]], ids=str)
def test_between_hosts_too(tmp_path: Path, sizes: list[int]) -> None:
    infos, dtypes = nodes(tmp_path, sizes), available_dtypes()
    for program, args in (
        (programs.random_programs, (range(20), dtypes)),
        (programs.large, (range(25),)),
    ):
        wanted = ThreadsCommunicator.run(len(infos), program, *args)
        assert join_by_hand(tmp_path, infos, program, *args) == wanted


def test_a_rank_that_goes_away_on_another_host_is_named(tmp_path: Path) -> None:
    def program(comm: Communicator) -> None:
        if comm.rank == 1:
            raise ValueError("no disk")
        comm.all_reduce(ft.ones(3))

    first, second, third = join_by_hand(tmp_path, nodes(tmp_path, [1, 1, 1]), program)
    assert isinstance(second, ValueError)
    for error in (first, third):
        assert isinstance(error, PeerError) and error.rank == 1
        assert error.cause == "ValueError: no disk"


# ---- joining -------------------------------------------------------------------------------------


def test_a_rank_that_never_comes_is_named_by_the_others(tmp_path: Path) -> None:
    infos = nodes(tmp_path, [3])[:2]
    for error in join_by_hand(tmp_path, infos, programs.extremes, timeout=1.0):
        assert isinstance(error, DistTimeoutError)
        assert "rank 2 of 3 did not come" in str(error)


def test_a_rank_that_is_started_twice_is_an_error_for_all(tmp_path: Path) -> None:
    infos = nodes(tmp_path, [3])
    for error in join_by_hand(tmp_path, [infos[0], infos[1], infos[1]], programs.extremes):
        assert isinstance(error, DistError) and "rank 1 was started twice" in str(error)


def test_ranks_of_two_sizes_of_world_are_an_error_for_all(tmp_path: Path) -> None:
    infos = [nodes(tmp_path, [2])[0], nodes(tmp_path, [3])[1]]
    for error in join_by_hand(tmp_path, infos, programs.extremes):
        assert isinstance(error, DistError) and "world size" in str(error)


def test_too_little_shared_memory_is_an_error_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    for error in join_by_hand(tmp_path, nodes(tmp_path, [3]), programs.extremes):
        assert isinstance(error, DistError)
        assert "shared memory" in str(error) and "No space left" in str(error)


def test_strangers_at_the_port_are_sent_away(tmp_path: Path) -> None:
    import socket

    from fl_dist.processes import connections

    there: list[tuple[str, int]] = []
    listen = connections._listen_everywhere

    def listen_and_be_visited(store: str) -> Any:
        listener, address = listen(store)
        there.append(address)
        with socket.create_connection(address) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + bytes(100))
        return listener, address

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "_listen_everywhere", listen_and_be_visited)
        found = join_by_hand(tmp_path, nodes(tmp_path, [1, 1]), lambda comm: comm.world_size)
    assert found == [2, 2] and len(there) == 2


# ---- the end -------------------------------------------------------------------------------------


@linux
@pytest.mark.parametrize("waiting_in", ["all_reduce", "recv"])
def test_a_killed_rank_is_named_by_all_survivors(tmp_path: Path, waiting_in: str) -> None:
    with pytest.raises(ProgramError, match="SIGKILL") as caught:
        ProcessesCommunicator.run(3, programs.kill_one, waiting_in, str(tmp_path))
    assert caught.value.rank == 2
    for rank in range(2):
        kind, gone, cause, seconds = ast.literal_eval((tmp_path / str(rank)).read_text())
        assert (kind, gone) == ("PeerError", 2) and "killed" in cause
        assert seconds < 5.0  # the timeout is 600


@linux
def test_a_stopped_rank_is_named_when_time_is_up(tmp_path: Path) -> None:
    ProcessesCommunicator.run(3, programs.wait_for_the_stopped, str(tmp_path))
    for rank in range(2):
        text = (tmp_path / str(rank)).read_text()
        assert "gave up after 0.5 s waiting for rank 2" in text


@linux
def test_shared_memory_has_no_names() -> None:
    before = sorted(os.listdir("/dev/shm"))
    for names in ProcessesCommunicator.run(2, programs.shared_memory_names):
        assert set(names) <= set(before)


def test_closing_twice_and_using_afterwards(tmp_path: Path) -> None:
    def program(comm: Communicator) -> str:
        comm.close()
        comm.close()
        with pytest.raises(DistError, match="closed") as caught:
            comm.barrier()
        return type(caught.value).__name__

    assert join_by_hand(tmp_path, nodes(tmp_path, [2]), program) == ["DistError"] * 2


def test_abort_ends_waits_on_all_ranks_and_threads(tmp_path: Path) -> None:
    def program(comm: Communicator) -> str:
        if comm.rank == 0:
            work = comm.recv(1, async_op=True)
            comm.recv(1, tag=1)
            comm.abort("out of patience")
            with pytest.raises(DistError, match="out of patience"):
                work.wait(5.0)
            return ""
        comm.send(ft.ones(1), 0, tag=1)
        with pytest.raises(PeerError, match="out of patience") as caught:
            comm.recv(0)
        return str(caught.value.rank)

    assert join_by_hand(tmp_path, nodes(tmp_path, [2]), program) == ["", "0"]


def test_the_cause_of_an_abort_comes_behind_a_message_under_way(tmp_path: Path) -> None:
    def program(comm: Communicator) -> str:
        if comm.rank == 0:

            def send() -> None:
                with suppress(FlError):  # the abort may come first
                    comm.send(ft.ones(1 << 23), 1)

            sender = threading.Thread(target=send)
            sender.start()
            comm.recv(1, tag=1)
            comm.abort("out of patience")
            sender.join()
            return ""
        comm.send(ft.ones(1), 0, tag=1)
        with pytest.raises(PeerError, match="out of patience"):
            while True:
                comm.recv(0)
        return "told"

    assert join_by_hand(tmp_path, nodes(tmp_path, [2]), program) == ["", "told"]


def test_after_the_failure_of_another_rank_every_call_names_it(tmp_path: Path) -> None:
    def program(comm: Communicator) -> list[int]:
        if comm.rank == 1:
            comm.recv(0)
            comm.abort("no disk")
            return []
        work = comm.all_reduce(ft.ones(3), async_op=True)
        comm.send(ft.ones(1), 1)
        found = []
        for call in (work.wait, comm.barrier, lambda: comm.all_gather(ft.ones(1))):
            with pytest.raises(PeerError, match="no disk") as caught:
                call()
            found.append(caught.value.rank)
        return found

    assert join_by_hand(tmp_path, nodes(tmp_path, [2]), program) == [[1, 1, 1], []]


# ---- memory --------------------------------------------------------------------------------------


def test_an_arena_takes_whole_pages() -> None:
    import mmap

    for ranks in (2, 63, 64, 65, 1000):
        assert arena.size(ranks) % mmap.ALLOCATIONGRANULARITY == 0
        assert arena.size(ranks) >= 64 * ranks + 2 * (ranks + 1) * arena.CHUNK


@linux
def test_the_fence_of_other_processors_runs_here() -> None:
    call = fence.membarrier(platform.machine())
    assert call is not None
    call()
    assert fence.available


def test_more_ranks_than_cores_never_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from fl_dist import Deadline

    asleep: list[float] = []
    fd = arena.create()
    arena.reserve(fd, 0, 2)
    looks = iter([None, None])

    def look(late: list[int], deadline: Deadline) -> None:
        assert late == [1]
        if next(looks, "enough") is not None:
            raise deadline.error("rank 1")

    def spin() -> None:
        raise AssertionError("it spins")

    monkeypatch.setattr(time, "sleep", asleep.append)
    monkeypatch.setattr(os, "sched_yield", spin)
    one = arena.Arena(fd, 0, 0, 2, look, may_spin=False)
    with pytest.raises(DistTimeoutError, match="rank 1"):
        one.meet(Deadline(1.0, "[test]"))
    assert len(asleep) == 2 and all(nap > 0 for nap in asleep)
    one.close()
    os.close(fd)
