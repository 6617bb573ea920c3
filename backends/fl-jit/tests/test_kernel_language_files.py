"""Machine code of kernels in files: found by the next process, and made anew for another source."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fl_jit.kernel_language import JitKernelCompiler, module
from fl_jit.kernels.codegen import compile
from fl_tensor.testing.kernels.programs import defined

SOURCE = "def cached(a: int) -> int:\n    return a * 3 + {}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, in files and in memory."""
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compile, "_functions", {})
    return tmp_path


@pytest.fixture
def written(monkeypatch):
    """The names of kernels whose code was written, not read."""
    found = []
    true = module.assembly
    monkeypatch.setattr(module, "assembly", lambda d, *rest: found.append(d.name) or true(d, *rest))
    return found


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def result(number, argument=5):
    """What a kernel of this number gives, with nothing in memory."""
    compile._functions.clear()
    return JitKernelCompiler().compile(defined(SOURCE.format(number)).definition)(argument)


def test_the_second_time_it_is_read(folder, written):
    assert [result(1), result(1)] == [16, 16]
    assert len(written) == len(files(folder)) == 1


def test_another_source_is_another_file(folder, written):
    assert [result(1), result(2), result(1)] == [16, 17, 16]
    assert len(written) == len(files(folder)) == 2


def test_a_changed_compiler_is_another_file(folder, written, monkeypatch):
    result(1)
    true = compile.sources
    monkeypatch.setattr(
        compile, "sources", lambda at: true(at) + "x" * (at.name == "kernel_language")
    )
    assert result(1) == 16
    assert len(written) == 2


def test_in_memory_it_is_made_once(folder, written):
    compiler, definition = JitKernelCompiler(), defined(SOURCE.format(1)).definition
    assert [compiler.compile(definition)(k) for k in range(3)] == [1, 4, 7]
    assert len(written) == 1
    for path in files(folder):
        path.unlink()
    assert compiler.compile(definition)(5) == 16
    assert len(written) == 1


@pytest.mark.parametrize("damage", [lambda code: b"", lambda code: code[:100] + b"?" + code[101:]])
def test_a_damaged_file_is_replaced(folder, written, damage):
    result(1)
    (path,) = files(folder)
    good = path.read_bytes()
    path.write_bytes(damage(good))
    assert result(1) == 16
    assert path.read_bytes() == good
    assert len(written) == 2


PROGRAM = """
import sys
import fl_tensor as ft
from fl_jit.kernel_language import module
from fl_tensor.kernels import Array

@ft.kernel
def step(x: Array[ft.int64], i: int) -> None:
    x[i] = x[i - 1] * 3 + 1

@ft.kernel
def series(x: Array[ft.int64]) -> int:
    for i in range(1, len(x)):
        step(x, i)
    return x[len(x) - 1]

written = []
true = module.assembly
module.assembly = lambda *rest: written.append(1) or true(*rest)
sys.stdin.read(1)  # all begin at a time
from array import array
print(series(array("q", [1] * 9)), series.compiler, len(written))
"""

IMPORTS = """
import sys
from array import array
import fl_tensor as ft
from fl_tensor.kernels import Array

@ft.kernel
def first(x: Array[ft.int64]) -> int:
    return x[0]

assert first(array("q", [3])) == 3
"""


def test_processes_share_a_folder(tmp_path):
    """Two at once, and a third that finds their file."""
    script = Path(tmp_path) / "series.py"
    script.write_text(PROGRAM)
    env = {**os.environ, "FL_CACHE_DIR": str(tmp_path / "cache"), "FL_KERNEL_COMPILER": "jit"}

    def start():
        command = [sys.executable, str(script)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)

    def outputs(processes):
        for process in processes:
            process.stdin.write("x")
            process.stdin.flush()
        return [process.communicate()[0].split() for process in processes]

    found = outputs([start(), start()])
    assert [output[:2] for output in found] == [["9841", "jit"]] * 2
    assert outputs([start()]) == [["9841", "jit", "0"]]


def test_a_kernel_with_a_file_imports_neither_the_backend_nor_the_generator(tmp_path):
    """Their imports take longer than the kernel."""
    script = Path(tmp_path) / "imports.py"
    imports = (
        'print("fl_jit.backend" in sys.modules, "fl_jit.kernel_language.module" in sys.modules)\n'
    )
    script.write_text(IMPORTS + imports)
    env = {**os.environ, "FL_CACHE_DIR": str(tmp_path / "cache"), "FL_KERNEL_COMPILER": "jit"}

    def run():
        done = subprocess.run(
            [sys.executable, script], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert run() == ["False", "True"]
    assert run() == ["False", "False"]
