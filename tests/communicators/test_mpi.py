"""The whole conformance kit on ``mpi``, and what mpiexec starts from outside, with exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mpi_programs as programs
from fl_dist import ProgramError
from fl_dist.mpi import MPICommunicator
from fl_dist.mpi_world import mpiexec
from fl_dist.testing import CommunicatorSuite

LIMIT = 60  # seconds


class TestMPI(CommunicatorSuite):
    communicator = MPICommunicator


def ended(ranks: int, program: str) -> subprocess.CompletedProcess[str]:
    """A program of ``mpi_programs`` that joins by itself under mpiexec."""
    start = [str(mpiexec()), "-n", str(ranks), sys.executable, programs.__file__, program]
    return subprocess.run(start, capture_output=True, text=True, timeout=LIMIT)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_of_mpiexec_join_and_end_well(ranks: int) -> None:
    found = ended(ranks, "greet")
    assert found.returncode == 0, found.stderr
    for rank in range(ranks):
        assert f"rank {rank} of {ranks} has {ranks * (ranks - 1) // 2}.0" in found.stdout


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_rank_that_raises_ends_all_with_its_cause(ranks: int) -> None:
    found = ended(ranks, "fail")
    assert found.returncode not in (0, None)
    assert found.stderr.count("rank 1 is gone (ValueError: injected failure)") == ranks - 1


def test_an_exit_code_is_that_of_the_program() -> None:
    assert ended(2, "ask_for_a_restart").returncode == 75


def test_ranks_that_never_come_to_the_end_are_ended() -> None:
    found = ended(2, "fail_while_others_sleep")
    assert found.returncode not in (0, None)
    assert "injected failure" in found.stderr


def test_a_rank_that_ends_without_closing_is_gone() -> None:
    found = ended(2, "leave")
    assert found.returncode not in (0, None)
    assert "rank 1 is gone (its program ended)" in found.stderr


def test_a_world_of_another_size_is_refused() -> None:
    found = subprocess.run(
        [sys.executable, programs.__file__, "join_alone"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert "start the program with mpiexec -n 2" in found.stderr


@pytest.mark.parametrize(
    ("how", "text"),
    [("SIGKILL", "rank 1 was killed by SIGKILL"), ("exit", "rank 1 ended with exit code 3")],
)
def test_the_launcher_names_the_rank_whose_process_ended(how: str, text: str) -> None:
    with pytest.raises(ProgramError, match=text) as caught:
        MPICommunicator.run(4, programs.end_process, how)
    assert caught.value.rank == 1 and len(caught.value.errors) == 4


def test_a_stopped_rank_is_a_timeout_and_nobody_stays(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="gave up after 1 s") as caught:
        MPICommunicator.run(2, programs.stop_process, str(tmp_path), timeout=1.0)
    assert type(caught.value.errors[0]).__name__ == "DistTimeoutError"
    states = [Path("/proc", file.name, "stat") for file in tmp_path.iterdir()]
    assert len(states) == 2
    assert [file for file in states if file.exists() and ") Z " not in file.read_text()] == []


def test_long_messages_arrive_while_the_sender_computes() -> None:
    seconds: list[Any] = MPICommunicator.run(2, programs.send_and_compute)
    assert seconds[1] < 0.5 * programs.BUSY


def test_groups_of_groups_have_communicators_of_their_own() -> None:
    assert MPICommunicator.run(4, programs.many_groups) == [True] * 4
