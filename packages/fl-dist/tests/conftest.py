from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import fl_tensor as ft

FOLDER = Path(__file__).parent
#: Variables of launchers, which the processes of a test get from its own launcher only.
LAUNCHERS = (
    "FL_DIST_", "TORCHELASTIC_", "PMI_", "PMIX_", "MPI_", "OMPI_", "SLURM_", "RANK", "WORLD_SIZE",
    "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_", "MASTER_",
)  # fmt: skip

Start = Callable[..., "subprocess.Popen[str]"]
sys.path.append(str(FOLDER))  # ranks import `process_programs` from there
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def same_random_numbers_in_every_test() -> Iterator[None]:
    before = ft.default_generator().state()
    ft.seed(0)
    yield
    ft.default_generator().set_state(before)


@pytest.fixture
def unused_port() -> int:
    """A port of this host that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """``start(program, *command, variables=...)``: run a command, the text ``program`` being in the
    file ``program.py`` of the current folder. No process of it outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(
        program: str, *command: str, variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        (tmp_path / "program.py").write_text(program)
        environment = {n: v for n, v in os.environ.items() if not n.startswith(LAUNCHERS)}
        environment["PYTHONPATH"] = os.pathsep.join([str(FOLDER), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**environment, **(variables or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def launch(start: Start) -> Callable[..., tuple[int, str, str]]:
    """``launch(program, *options, arguments=(), variables=...)``: ``fl-dist run`` to its end; its
    status, output and errors."""

    def run(
        program: str,
        *options: str,
        arguments: tuple[str, ...] = (),
        variables: Mapping[str, str] | None = None,
    ) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "fl_dist", "run", *options, "program.py", *arguments]
        process = start(program, *command, variables=variables)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    return run
