"""A program may fork while a thread of it is in its first steps of training."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are of POSIX"),
    pytest.mark.defect("V2"),
]

# Compiler, kernels and plans are imported, compiled and made in the first steps. A child that waits
# for a lock that nobody holds is ended by SIGALRM.
PROGRAM = """
import os, signal, threading, time
import fl_nn as nn
import fl_tensor as ft

def train(steps):
    with ft.use("jit"):
        model = nn.Sequential(
            nn.Conv2D(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1568, 64), nn.Linear(64, 10)
        )
        optimizer = nn.SGD(model.parameters(), 0.01)
        x, y = ft.randn((16, 3, 16, 16)), ft.randn((16, 10))
        for _ in range(steps):
            loss = nn.mse(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert 0 < loss.item() < 100

def child():
    signal.alarm(100)
    status = 1
    try:
        train(2)
        status = 0
    finally:
        os._exit(status)

thread = threading.Thread(target=train, args=(6,))
thread.start()
children = []
for k in range(20):
    time.sleep({pause} * (k % 4 + 1))
    children.append(os.fork() or child())
lost = [c for c in children if os.waitpid(c, 0)[1]]
thread.join()
print(len(children), len(lost))
"""


@pytest.mark.parametrize("pause", [0.01, 0.05])
def test_no_forked_child_is_lost(tmp_path, pause):
    pytest.importorskip("fl_jit")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM.format(pause=pause)],
        env={**os.environ, "FL_CACHE_DIR": str(tmp_path)},  # empty: all is compiled
        capture_output=True,
        text=True,
    )
    assert (done.stdout.split(), done.stderr) == (["20", "0"], ""), done.stderr
