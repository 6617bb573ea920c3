"""A run that is killed again and again ends with the bits of one that is not.

20 kills by SIGKILL, at moments that differ from run to run, over all optimizers, with prefetching,
mixed precision and everything else that has state; two more on `jit`, and one with processes that
make the batches. `FL_KILLS=500` kills more often, `FL_KILL_SEED` draws other steps.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kill_program import EPOCHS, OPTIMIZERS, STEPS, apart

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.testing import needs

KILLS = int(os.environ.get("FL_KILLS", "20"))
SEED = os.environ.get("FL_KILL_SEED", "2022")
PROGRAM = Path(__file__).with_name("kill_program.py")
PER_RUN = 4  # kills of one run; more begin another one


def test_all_optimizers_are_here():
    classes = [x for x in vars(nn).values() if isinstance(x, type) and issubclass(x, nn.Optimizer)]
    # A step of LBFGS takes a closure: test_lbfgs.py resumes it.
    assert set(OPTIMIZERS) == {x.__name__ for x in classes} - {"Optimizer", "LBFGS"}


@pytest.mark.fl_heavy
@needs("float16")
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_killed_and_resumed(tmp_path, optimizer):
    place, count = list(OPTIMIZERS).index(optimizer), len(OPTIMIZERS)
    check(optimizer, KILLS // count + (place < KILLS % count), tmp_path)


@pytest.mark.fl_heavy
@needs("float16")
def test_killed_with_batches_that_processes_make(tmp_path):
    check("Adam", max(1, KILLS // 20), tmp_path, "processes")


@pytest.mark.fl_heavy
def test_killed_and_resumed_on_jit(tmp_path, monkeypatch):
    # Everything is put off, however small; processes differ in the plans that they have.
    monkeypatch.setenv("FL_JIT_MIN_SIZE", "1")
    with ft.use(pytest.importorskip("fl_jit").JitBackend()):
        check("AdamW", max(2, KILLS // 10), tmp_path)


def check(optimizer: str, kills: int, folder: Path, workers: str = "threads") -> None:
    """Runs that are killed so often, in all, leave what a run leaves that is not."""
    whole = apart(optimizer, folder / "whole")
    assert whole.model.seen.tolist() == [EPOCHS] * len(whole.model.seen)
    draw = random.Random(f"{SEED} {optimizer} {ft.current_backend().name}")
    for first in range(0, kills, PER_RUN):
        parts, safe = folder / str(first), 0
        for after in sorted(draw.sample(range(STEPS - 1), min(PER_RUN, kills - first))):
            safe = kill([optimizer, str(parts), workers], after, draw.random(), safe)
        apart(optimizer, parts)
        assert left_in(parts) == left_in(folder / "whole"), f"FL_KILL_SEED={SEED}"


def kill(arguments: list[str], after: int, moment: float, safe: int) -> int:
    """Go on with a run in a process of its own, and kill it once `after` steps are safe and a part
    of the next two is done. The steps that its checkpoint has: none that was safe is lost."""
    env = {**os.environ, "FL_TENSOR_BACKEND": ft.current_backend().name}
    command = [sys.executable, str(PROGRAM), *arguments]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "began\n"
            began = time.monotonic()
            steps = 0
            while safe < after:
                safe, steps = int(process.stdout.readline()), steps + 1
            time.sleep(moment * 2.0 * (time.monotonic() - began) / max(steps, 1))
        finally:
            process.kill()
        said = process.stdout.read().split()
    assert process.returncode == -signal.SIGKILL
    safe = int(said[-1]) if said else safe
    path = Path(arguments[1], "checkpoint.safetensors")
    if not safe and not path.exists():
        return 0
    found = int(nn.load_checkpoint(path).position["step"])  # whole: it is checked by its digest
    assert found in (safe, safe + 1)
    return found


def left_in(folder: Path) -> dict[str, Any]:
    """All that a run leaves, bit for bit, but for times."""
    files = sorted(path.name for path in folder.glob("*.safetensors"))
    log = nn.JsonLog(folder / "log.jsonl").read()
    left: dict[str, Any] = {"log": [{**record, "seconds": None} for record in log]}
    for name in files:
        checkpoint = nn.load_checkpoint(folder / name)
        assert checkpoint.optimizer is not None
        states = {"model": {"tensors": checkpoint.model}, "optimizer": checkpoint.optimizer}
        position = {**checkpoint.position, "seconds": None, "log": None}
        position["history"] = [{**record, "seconds": None} for record in position["history"]]
        left[name] = {
            "position": position,
            "generators": checkpoint.generators,
            **{key: _bits(state) for key, state in (states | checkpoint.parts).items()},
        }
    return left


def _bits(state: dict[str, Any]) -> dict[str, Any]:
    tensors = {name: bytes(tensor.tobytes()) for name, tensor in state["tensors"].items()}
    return {**state, "tensors": tensors}
