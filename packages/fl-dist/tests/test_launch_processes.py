"""Launching ranks in processes: what crosses the border, and what is left behind (nothing)."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import process_programs as programs
import pytest

import fl_memory as mem
import fl_tensor as ft
from fl_dist import ArgumentError, Communicator, DistError, PeerError, ProgramError
from fl_dist.launch.wire import RemoteTraceback
from fl_dist.processes import ProcessesCommunicator

run = ProcessesCommunicator.run
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and signals")


def introduce(comm: Communicator, *args: Any, **named: Any) -> tuple[Any, ...]:
    return comm.rank, comm.world_size, *args, *named.values()


def scaled(comm: Communicator, x: ft.Tensor) -> ft.Tensor:
    return x * (comm.rank + 1)


class Callee:
    def __init__(self, value: int) -> None:
        self.value = value

    def __call__(self, comm: Communicator) -> int:
        return self.value + comm.rank

    def method(self, comm: Communicator) -> int:
        return self.value - comm.rank


# ---- programs, arguments and results -------------------------------------------------------------


def test_functions_of_a_test_file_and_tensors_cross() -> None:
    assert run(2, introduce, "a", [3]) == [(0, 2, "a", [3]), (1, 2, "a", [3])]
    first, second = run(2, scaled, ft.asarray([1.0, 2.0]))
    assert first.tolist() == [1.0, 2.0] and second.tolist() == [2.0, 4.0]


def test_so_do_methods_callable_objects_and_partials() -> None:
    assert run(2, Callee(5)) == [5, 6]
    assert run(2, Callee(5).method) == [5, 4]
    assert run(1, partial(introduce, word="b")) == [(0, 1, "b")]


def test_a_module_that_only_its_file_tells_is_loaded_from_there(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text("def double(comm, x):\n    return 2 * x + comm.rank\n")
    spec = importlib.util.spec_from_file_location("fl_dist_test_elsewhere", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        assert run(2, module.double, 4) == [8, 9]
        assert run(2, partial(module.double, x=4)) == [8, 9]
    finally:
        del sys.modules[spec.name]


@pytest.mark.parametrize("kind", ["closure", "lambda"])
def test_a_closure_is_refused_and_told_what_to_do(kind: str) -> None:
    def closure(comm: Communicator) -> str:
        return kind

    fn: Callable[..., Any] = closure if kind == "closure" else lambda comm: kind
    with pytest.raises(ArgumentError, match=r"top level of a module.*pass what it needs"):
        run(2, fn)


def test_arguments_that_do_not_pickle_are_refused() -> None:
    with pytest.raises(ArgumentError, match="arguments of the program.*must pickle"):
        run(2, introduce, lambda: 1)


def test_an_override_is_refused() -> None:
    with (
        ft.override(add=lambda ops, x, y: ops.subtract(x, y)),
        pytest.raises(ArgumentError, match="override"),
    ):
        run(2, introduce)


def test_results_that_do_not_pickle_are_an_error_that_says_so() -> None:
    with pytest.raises(ProgramError, match="result of rank 0.*lock.*return plain data") as caught:
        run(1, programs.return_unpicklable)
    assert isinstance(caught.value.__cause__, DistError)


def test_the_setting_of_the_caller_crosses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FL_DIST_TEST_VARIABLE", "here")
    monkeypatch.chdir(tmp_path)
    with mem.use("system"), ft.reproducible(), ft.use("numpy"):
        found = run(2, programs.setting)
    threads = max(1, ft.get_num_threads() // 2)
    wanted = {
        "backend": "numpy",
        "manager": "system",
        "variable": "here",
        "reproducible": True,
        "threads": threads,
        "folder": str(tmp_path),
    }
    assert found == [wanted, wanted]


# ---- failures ------------------------------------------------------------------------------------


def test_an_exception_crosses_with_its_traceback() -> None:
    with pytest.raises(ProgramError, match="rank 2 of 3 failed: KeyError: 'lost'") as caught:
        run(3, programs.raise_it, KeyError("lost"))
    error = caught.value
    assert error.rank == 2 and error.__cause__ is error.errors[2]
    assert isinstance(error.errors[2], KeyError) and error.errors[2].args == ("lost",)
    remote = error.errors[2].__cause__
    assert isinstance(remote, RemoteTraceback) and "raise_it" in str(remote)
    for rank in (0, 1):
        other = error.errors[rank]
        assert isinstance(other, PeerError)
        assert (other.rank, other.cause) == (2, "KeyError: 'lost'")


def test_an_exception_that_does_not_unpickle_is_told_in_words() -> None:
    with pytest.raises(ProgramError, match="this and that") as caught:
        run(1, programs.raise_unpicklable)
    assert isinstance(caught.value.errors[0], DistError)
    assert "Unpicklable" in str(caught.value.errors[0])


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_ends_by_other_exceptions_are_failures_too(kind: type[BaseException]) -> None:
    with pytest.raises(ProgramError, match=kind.__name__) as caught:
        run(2, programs.raise_it, kind())
    assert caught.value.rank == 1 and isinstance(caught.value.errors[1], kind)


def test_an_end_without_a_word_tells_the_exit_code() -> None:
    with pytest.raises(ProgramError, match="exit code 3"):
        run(2, programs.leave_at_once)


# ---- nothing is left -----------------------------------------------------------------------------


def test_no_process_and_no_file_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run(2, introduce)
    with pytest.raises(ProgramError):
        run(2, programs.raise_it, ValueError("no"))
    assert list(tmp_path.glob("fl_dist*")) == []
    assert [p for p in multiprocessing.active_children() if p.name.startswith("rank")] == []


SCRIPT = """
import sys

import fl_dist as dist
import fl_tensor as ft


def program(comm, word):
    return word, comm.all_reduce(ft.ones(2)).tolist()


def wait(comm, folder):
    sys.path.append({tests!r})
    import process_programs

    process_programs.sleep(comm, folder)


if {guard}:
    if len(sys.argv) > 1:
        dist.load("processes").run(2, wait, sys.argv[1])
    print(dist.load("processes").run(2, program, "hello"))
"""


def script(folder: Path, guard: str = "__name__ == '__main__'") -> Path:
    path = folder / "script.py"
    path.write_text(SCRIPT.format(tests=str(Path(__file__).parent), guard=guard))
    return path


def test_functions_of_a_guarded_script_work(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == "[('hello', [2.0, 2.0]), ('hello', [2.0, 2.0])]", done.stderr
    assert done.stderr == ""


def test_a_script_without_a_guard_is_told_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, script(tmp_path, "True")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0 and "__name__ == '__main__'" in done.stderr


def test_a_function_typed_in_is_refused() -> None:
    code = "import fl_dist as d\ndef f(comm): pass\nd.load('processes').run(2, f)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "ArgumentError" in done.stderr and "put it into a file" in done.stderr


@linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_end_of_the_caller_leaves_no_rank(tmp_path: Path, number: signal.Signals) -> None:
    pids_in = tmp_path / "pids"
    pids_in.mkdir()
    caller = subprocess.Popen(
        [sys.executable, script(tmp_path), pids_in],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    pids = wait_for(
        lambda: [int(p.read_text() or 0) for p in pids_in.iterdir()],
        lambda x: len(x) == 2 and all(x),
    )
    if number is signal.SIGINT:  # as a terminal does: to the whole group
        os.killpg(caller.pid, number)
    else:
        caller.send_signal(number)
    _, said = caller.communicate(timeout=20)
    assert caller.returncode != 0
    if number is signal.SIGINT:
        assert said.count("Traceback") == 1 and said.strip().endswith("KeyboardInterrupt")
    states = wait_for(
        lambda: [programs.state_of(pid) for pid in pids], lambda found: not set(found) - {"", "Z"}
    )
    assert not set(states) - {"", "Z"}, states


def wait_for(look: Callable[[], Any], enough: Callable[[Any], bool]) -> Any:
    end = time.monotonic() + 20
    found = look()
    while not enough(found) and time.monotonic() < end:
        time.sleep(0.02)
        found = look()
    return found
