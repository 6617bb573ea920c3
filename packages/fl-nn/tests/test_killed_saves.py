"""A program that saves in a loop and is killed at any moment leaves a file that loads."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fl_nn as nn

KILLS = 7  # of each kind of file


@pytest.mark.fl_heavy
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("kind", ["weights", "checkpoint", "shards"])
def test_what_a_killed_program_saved_is_whole(tmp_path, kind):
    path = tmp_path / "model.safetensors"
    draw = random.Random(kind)
    command = [sys.executable, str(Path(__file__).with_name("killed_writer.py")), str(path), kind]
    for _ in range(KILLS):
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        with writer:
            assert writer.stdout.readline(), "the writer failed"
            time.sleep(draw.random() * 0.05)
            writer.kill()
            finished = writer.stdout.read().split()
        model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)])
        if kind == "checkpoint":
            checkpoint = nn.load_checkpoint(path)
            checkpoint.restore(model)
            assert checkpoint.position == {"step": int(model[0].bias[0].item())}
        else:
            nn.load_weights(path, model)
        (number,) = {x for p in model.parameters() for x in p.reshape(-1).tolist()}
        last = int(finished[-1]) if finished else 1
        assert last <= number <= last + 1  # what was said to be saved is there
