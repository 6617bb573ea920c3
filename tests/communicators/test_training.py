"""One training script, started in each way that there is, has the same losses.

``FL_TEST_COMMUNICATOR`` names the communicator, as the nox session ``communicators`` does.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fl_dist as dist

SCRIPT = Path(__file__).with_name("train.py")
COMMUNICATOR = os.environ.get("FL_TEST_COMMUNICATOR", "processes")
#: The largest relative difference of a loss: sums of ranks round in another order.
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
LIMIT = 120  # seconds

Run = Callable[[str], list[float]]


def output(command: list[str], *places: dict[str, str]) -> list[float]:
    """What the first process prints. There is one for each of ``places``, environment variables;
    all run at the same time."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FL_DIST_")}
    processes = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**kept, **place},
        )
        for place in places or [{}]
    ]
    try:
        ended = [process.communicate(timeout=LIMIT) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert all(process.returncode == 0 for process in processes), ended
    text = next(line for line in ended[0][0].splitlines() if "[" in line)
    losses: list[float] = json.loads(text[text.rindex("[") :])
    return losses


def script(dtype: str) -> list[str]:
    return [sys.executable, str(SCRIPT), dtype]


def alone(dtype: str) -> list[float]:
    return output(script(dtype))


def on_threads(dtype: str) -> list[float]:
    spec = importlib.util.spec_from_file_location("train", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    losses: list[float] = dist.load("threads").run(2, module.train, dtype)[0]
    return losses


def by_fl_dist_run(dtype: str) -> list[float]:
    start = "import sys; from fl_dist.cli import main; sys.exit(main())"
    options = ["run", "-n", "2", "--communicator", COMMUNICATOR]
    return output([sys.executable, "-c", start, *options, str(SCRIPT), dtype])


def by_mpiexec(dtype: str) -> list[float]:
    from fl_dist.mpi_world import mpiexec

    program = mpiexec()
    assert program is not None, "install fl-dist[mpi]"
    return output([program, "-n", "2", *script(dtype)])


def under_torchrun(dtype: str) -> list[float]:
    """Under the variables of torchrun, which need not be installed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared["FL_DIST_COMMUNICATOR"] = COMMUNICATOR
    return output(script(dtype), *({**shared, "RANK": str(rank)} for rank in range(2)))


WAYS: list[Run] = [on_threads]
WAYS += [by_mpiexec] if COMMUNICATOR == "mpi" else [by_fl_dist_run, under_torchrun]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_losses_are_those_of_one_process(way: Run, dtype: str) -> None:
    want, found = alone(dtype), way(dtype)
    assert want[-1] < 0.6 * want[0]  # it learns
    assert found == pytest.approx(want, rel=TOLERANCE[dtype], abs=0)
