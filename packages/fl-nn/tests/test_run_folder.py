"""The folder of a run: one process at a time writes to it, and no run is replaced unasked."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fl_nn as nn
import fl_tensor as ft

PROGRAM = Path(__file__).with_name("locked_program.py")
#: `nox -s run_folders` asks for 20.
TIMES = int(os.environ.get("FL_RUN_FOLDERS", "1"))


def make(out: Path | None, *callbacks: nn.Callback, seed: int = 0, **options) -> nn.Trainer:
    model = nn.Linear(2, 1, generator=ft.Generator(seed))
    return nn.Trainer(
        model, nn.SGD(model.parameters(), lr=0.1), nn.mse,
        callbacks=callbacks, out=out, progress=False, **options,
    )  # fmt: skip


def batches(count: int = 2) -> list[tuple[ft.Tensor, ft.Tensor]]:
    return [(ft.ones((4, 2)), ft.ones((4, 1)))] * count


def start(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    environment = {**os.environ, "FL_TENSOR_BACKEND": "numpy"}  # starts soonest
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


# ---- a run that is there -------------------------------------------------------------------------


@pytest.mark.defect("P3")
def test_a_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    make(tmp_path).fit(batches(), epochs=3)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(nn.RunFolderError, match=r"holds a run already: resume\(\).*overwrite=True"):
        make(tmp_path, seed=1).fit(batches(), epochs=1)
    with pytest.raises(nn.RunFolderError, match="holds a run already"):
        make(tmp_path, seed=1).save()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.defect("P3")
def test_resume_goes_on_and_so_does_the_trainer_itself(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.fit(batches(), epochs=1)
    run.fit(batches(), epochs=2)
    run.save()
    more = make(tmp_path, seed=1)
    more.resume()
    assert len(more.fit(batches(), epochs=3)) == 3


@pytest.mark.defect("P3")
def test_overwrite_leaves_nothing_of_the_run_before(tmp_path: Path) -> None:
    make(tmp_path, nn.KeepBest(2, "train_loss"), log_every=1).fit(batches(), epochs=4)
    assert len(list(tmp_path.glob("best-*"))) == 2
    make(tmp_path, seed=1, overwrite=True).fit(batches(), epochs=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoint.safetensors", "log.jsonl", "run.lock",
    ]  # fmt: skip
    assert [r["event"] for r in nn.JsonLog(tmp_path / "log.jsonl").read()] == ["start", "epoch"]


@pytest.mark.defect("P3")
def test_overwrite_removes_nothing_for_a_run_that_cannot_begin(tmp_path: Path) -> None:
    make(tmp_path).fit(batches(), epochs=1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(nn.TrainingError, match="no training batches"):
        make(tmp_path, overwrite=True).fit([], epochs=1)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.defect("P4")
def test_a_run_that_went_on_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    stale = make(tmp_path)
    stale.fit(batches(), epochs=1)
    other = make(tmp_path)
    other.resume()
    late = make(tmp_path)
    late.resume()
    other.fit(batches(), epochs=2)
    log = (tmp_path / "log.jsonl").read_bytes()
    for run in (stale, late):
        with pytest.raises(nn.RunFolderError, match="went on with this run"):
            run.fit(batches(), epochs=2)
    assert (tmp_path / "log.jsonl").read_bytes() == log  # `resume` alone changes nothing


# ---- the lock ------------------------------------------------------------------------------------


@pytest.mark.defect("P4")
def test_of_two_at_once_one_trains(tmp_path: Path) -> None:
    for number in range(TIMES):
        folder = tmp_path / f"pair {number}"
        pair = [start(folder, name) for name in "ab"]
        lost = wait_for_one(pair)
        said, errors = pair[lost].communicate()
        trains = pair[1 - lost]
        assert pair[lost].returncode == 3, errors
        assert f"process {trains.pid} writes a run there" in said and "training" not in said
        (folder / "stop").touch()
        said, errors = trains.communicate(timeout=60)
        assert trains.returncode == 0, errors

        winner, log = "ab"[1 - lost], nn.JsonLog(folder / "log.jsonl").read()
        starts = [r["metadata"]["name"] for r in log if r["event"] == "start"]
        steps = [r["step"] for r in log if r["event"] == "step"]
        assert starts == [winner] and steps == list(range(1, len(steps) + 1))
        assert len(steps) == len(said.splitlines())
        assert nn.load_checkpoint(folder / "checkpoint.safetensors").metadata == {"name": winner}


def wait_for_one(pair: list[subprocess.Popen[str]]) -> int:
    """The one that ends first."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for index, process in enumerate(pair):
            if process.poll() is not None:
                return index
        time.sleep(0.005)
    raise AssertionError("both trainings go on in one folder")


@pytest.mark.defect("P4")
def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    delays = random.Random(7)
    for _ in range(TIMES):
        process = start(tmp_path, "a", "--resume")
        assert process.stdout is not None
        assert process.stdout.readline().startswith("training")
        time.sleep(delays.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (tmp_path / "stop").touch()
    last = start(tmp_path, "a", "--resume")
    assert last.communicate(timeout=60)[0].startswith("training") and last.returncode == 0
    steps = [r["step"] for r in nn.JsonLog(tmp_path / "log.jsonl").read() if r["event"] == "step"]
    assert steps == list(range(1, len(steps) + 1))


FORKS = """
import fl_nn as nn, os, sys, time
with nn.run_folder(sys.argv[1]):
    if not os.fork():
        print(os.getpid(), flush=True)
    time.sleep(60)
"""


@pytest.mark.defect("P4")
def test_a_forked_worker_does_not_keep_the_lock(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FORKS, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        with nn.run_folder(tmp_path):
            os.kill(child, 0)  # it lives
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


@pytest.mark.defect("P4")
def test_two_threads_of_a_process_are_two(tmp_path: Path) -> None:
    refused: list[str] = []

    def try_it() -> None:
        with pytest.raises(nn.RunFolderError) as error:
            make(tmp_path).fit(batches(), epochs=1)
        refused.append(str(error.value))

    with nn.run_folder(tmp_path):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert f"process {os.getpid()} (this one) writes a run there" in refused[0]


def test_an_inner_block_shares_the_outer_one(tmp_path: Path) -> None:
    with nn.run_folder(tmp_path / "new" / "run") as folder:
        make(folder).fit(batches(), epochs=1)
        with nn.run_folder(folder / ".." / "run"):
            pass
        (folder / "picture.png").touch()
    with nn.run_folder(folder):
        pass


@pytest.mark.parametrize("left", [b"", b"999999999 elsewhere", b"1234567", b"\xff\xff\n", b"x y\n"])
def test_what_the_lock_file_says_does_not_lock(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "run.lock").write_bytes(left)
    with nn.run_folder(tmp_path):
        assert (tmp_path / "run.lock").read_text().split()[0] == str(os.getpid())
    assert (tmp_path / "run.lock").read_bytes() == b""


def test_a_file_system_without_locks_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*arguments: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.warns(nn.TrainingWarning, match="no locks"), nn.run_folder(tmp_path):
        pass
