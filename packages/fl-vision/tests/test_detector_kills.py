"""A training of a detector that is killed again and again ends with the bits of one that is not.

`FL_KILLS=50` kills more often, `FL_KILL_SEED` draws other moments.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fl_nn as nn
from fl_vision.cli import main

KILLS = int(os.environ.get("FL_KILLS", "3"))
SEED = os.environ.get("FL_KILL_SEED", "2020")
#: 4 epochs of 3 steps.
STEPS = 12
DATA = ["--train", "scenes:6:0:32", "--valid", "scenes:2:1:32", "--quiet", "--backend", "numpy"]
SETTINGS = [
    *("--width", 4, "--size", 8, "--heads", 2, "--hidden", 16, "--queries", 7),
    *("--encoder-layers", 1, "--decoder-layers", 2, "--batch-size", 2, "--epochs", 4),
    *("--dropout", 0.1, "--ema", 0.9),
]  # fmt: skip
RUN = ["--checkpoint-every", 1, "--keep-best", 2]


def arguments(out: Path, network: str, resume: bool) -> list[str]:
    stages = 3 if network == "detr" else 4
    settings = ["--resume"] if resume else ["--network", network, "--stages", stages, *SETTINGS]
    return [str(each) for each in ("detect", *DATA, "-o", out, *RUN, *settings)]


def steps_in(out: Path) -> int:
    """The last step that the log has in full."""
    try:
        lines = (out / "log.jsonl").read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return 0
    records = [json.loads(line) for line in lines if line.endswith("\n")]
    return max((record["step"] for record in records if "step" in record), default=0)


def kill(out: Path, network: str, after: int, moment: float) -> bool:
    """Go on with a run in a process of its own, and kill it when it has done `after` steps and a
    part of the next. Whether it was still there."""
    resume = (out / "checkpoint.safetensors").exists()
    command = [sys.executable, "-m", "fl_vision", *arguments(out, network, resume)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 60
            while steps_in(out) < after and process.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.002)
            time.sleep(moment * 0.2)
        finally:
            process.kill()
    assert process.returncode in (0, -signal.SIGKILL)
    return process.returncode != 0


def left_in(out: Path) -> dict[str, Any]:
    """All that a run leaves, bit for bit, but for times."""
    left: dict[str, Any] = {
        "steps": steps_in(out),
        "weights": (out / "weights.safetensors").read_bytes(),
    }
    for path in sorted(out.glob("*.safetensors")):
        if path.name == "weights.safetensors":
            continue
        checkpoint = nn.load_checkpoint(path)
        history = checkpoint.position["history"]
        assert checkpoint.optimizer is not None
        states = {"optimizer": checkpoint.optimizer, **checkpoint.parts}
        left[path.name] = {
            "history": [{**record, "seconds": None} for record in history],
            "model": _bits(checkpoint.model),
            **{name: _bits(state.get("tensors", {})) for name, state in states.items()},
        }
    return left


def _bits(tensors: Any) -> dict[str, bytes]:
    return {name: bytes(tensor.tobytes()) for name, tensor in tensors.items()}


@pytest.mark.parametrize("network", ["detr", "retinanet"])
def test_killed_and_resumed(tmp_path: Path, network: str) -> None:
    draw = random.Random(f"{SEED} {network}")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert main(arguments(whole, network, False)) == 0
    assert steps_in(whole) == STEPS
    share = KILLS - KILLS // 2 if network == "detr" else KILLS // 2
    killed = 0
    for after in sorted(draw.choices(range(STEPS - 2), k=share)):
        killed += kill(parts, network, after, draw.random())
    assert killed
    resume = (parts / "checkpoint.safetensors").exists()
    assert main(arguments(parts, network, resume)) == 0
    assert left_in(parts) == left_in(whole), f"FL_KILL_SEED={SEED}"
