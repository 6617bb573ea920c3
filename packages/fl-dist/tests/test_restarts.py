"""A training script whose ranks are killed and started anew ends as one that nobody disturbed."""

from __future__ import annotations

import json

import pytest

#: Least squares on 12 samples. A step takes 4 of them, shared out over the ranks; rank 0 saves the
#: weights after each. With DIES=1, rank 1 is killed in the middle of step 4 of generation 0.
TRAINING = """
import json, os, signal
from pathlib import Path
import fl_dist as dist
import fl_tensor as ft

info = dist.environment()
x = ft.asarray([[float(i % 5), float(i % 3), 1.0] for i in range(12)], dtype="float64")
y = ft.asarray([2.0 * (i % 5) - (i % 3) + 0.5 for i in range(12)], dtype="float64")
saved = Path("saved.json")
with dist.init(timeout=60) as comm:
    start = json.loads(saved.read_text()) if saved.exists() else {"step": 0, "w": [0.0] * 3}
    w = ft.asarray(start["w"], dtype="float64")
    if start["step"]:
        print("from step", start["step"])
    for step in range(start["step"], 8):
        mine = [4 * step % 12 + i for i in range(comm.rank, 4, comm.world_size)]
        gradient = ft.zeros((3,), dtype="float64")
        for i in mine:
            gradient = gradient + x[i] * ((x[i] * w).sum() - y[i])
        if os.environ["DIES"] == "1" and info.generation == 0 and (step, comm.rank) == (4, 1):
            os.kill(os.getpid(), signal.SIGKILL)
        w = w - 0.02 * comm.all_reduce(gradient)
        if comm.rank == 0:
            Path("part").write_text(json.dumps({"step": step + 1, "w": w.tolist()}))
            os.replace("part", saved)
    if comm.rank == 0:
        print("ends", json.dumps(w.tolist()))
"""


def trained(out):
    (line,) = [line for line in out.splitlines() if " ends " in line]
    return json.loads(line.partition(" ends ")[2])


@pytest.fixture
def undisturbed(launch, tmp_path):
    status, out, err = launch(TRAINING, "-n", "2", variables={"DIES": "0"})
    assert status == 0, err
    (tmp_path / "saved.json").unlink()
    return trained(out)


def test_with_as_many_ranks_it_ends_with_the_same_bits(launch, undisturbed):
    status, out, err = launch(TRAINING, "-n", "2", "--restarts", "1", variables={"DIES": "1"})
    assert status == 0, err
    assert trained(out) == undisturbed
    assert sorted(line for line in out.splitlines() if "from" in line) == [
        "[0] from step 4",
        "[1] from step 4",
    ]
    assert "fl-dist run: rank 1 was killed by SIGKILL" in err
    assert "rank 1 is gone" in err  # the PeerError of rank 0


def test_with_fewer_ranks_it_ends_with_the_same_weights(launch, undisturbed):
    options = ("-n", "2", "--restarts", "1", "--min-ranks", "1")
    status, out, err = launch(TRAINING, *options, variables={"DIES": "1"})
    assert status == 0, err
    assert "1 ranks here" in err and "[1] from" not in out
    assert trained(out) == pytest.approx(undisturbed, rel=1e-12)


def test_started_again_by_hand_with_more_ranks_it_goes_on_from_what_was_saved(launch, undisturbed):
    assert launch(TRAINING, "-n", "2", variables={"DIES": "1"})[0] == 137
    status, out, err = launch(TRAINING, "-n", "3", variables={"DIES": "0"})
    assert status == 0, err
    assert "[2] from step 4" in out
    assert trained(out) == pytest.approx(undisturbed, rel=1e-12)
