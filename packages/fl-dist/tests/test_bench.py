"""``fl-dist bench`` prints a row for every collective and size."""

from __future__ import annotations

import pytest

from fl_dist.cli import main
from fl_dist.cli.bench import OPERATIONS


@pytest.mark.parametrize("communicator", ["threads", "processes"])
def test_a_row_for_every_collective_and_size(capsys, communicator):
    assert main(["bench", "-n", "2", "--communicator", communicator, "--max-bytes", "65536"]) == 0
    title, _, barrier, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith(f"{communicator}, 2 ranks, float32")
    assert barrier.split()[0] == "barrier" and float(barrier.split()[1]) > 0
    assert [row[:24].strip() for row in rows] == [name for name in OPERATIONS for _ in range(2)]
    for row, size in zip(rows, [1024, 65536] * len(OPERATIONS)):
        bytes_, microseconds, rate = row[24:].split()
        assert int(bytes_) == size and float(microseconds) > 0
        assert float(rate) == pytest.approx(size / float(microseconds), rel=0.1, abs=1)


def test_in_a_world_that_a_launcher_made_it_measures_that_one(launch):
    program = "from fl_dist.cli import main; main(['bench', '--max-bytes', '1024'])"
    status, out, _ = launch(program, "-n", "2")
    assert status == 0
    assert out.startswith("[0] processes, 2 ranks") and "[1]" not in out


def test_an_unknown_communicator_is_an_error(capsys):
    assert main(["bench", "--communicator", "nccll"]) == 1
    assert "fl-dist bench: no communicator named 'nccll'" in capsys.readouterr().err


def test_a_world_of_no_rank_is_an_error(capsys):
    assert main(["bench", "-n", "0"]) == 1
    assert "world_size 0" in capsys.readouterr().err
