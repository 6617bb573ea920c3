"""Descriptors of earlier programs are saved for ``fl-jit tune``, which measures them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from fl_jit.cli import main, tune
from fl_jit.kernels import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Epilogue,
    KernelLibrary,
    Layout,
    Matmul,
    Packed,
    Reorder,
    UnsupportedError,
    autotune,
    channels_last,
    flops,
    registry,
    row_major,
    workload_log,
)
from fl_jit.kernels.codegen import Builder
from fl_tensor.dtypes import float32, float64


def product(n, **more):
    return Matmul(*[row_major(float32, (n, n))] * 3, **more)


def followed(n):
    b = Builder(2)
    b.output(b("exp", b.input(float32, "sc")), "sc")
    return product(n, epilogue=Epilogue(b.program(), (n, n), ((n, 1), (n, 1))))


IMAGE = channels_last(float32, (2, 64, 30, 30))
WEIGHTS = row_major(float64, (64, 64, 3, 3))
PLACES = (1, 1), ((1, 1), (1, 1)), (1, 1)
PROBLEMS = [
    product(200, accumulate=True),
    followed(201),
    Convolution(IMAGE, WEIGHTS, IMAGE, *PLACES),
    ConvDataGrad(IMAGE, WEIGHTS, IMAGE, *PLACES, groups=1),
    ConvWeightGrad(IMAGE, IMAGE, WEIGHTS, *PLACES),
]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(workload_log, "_noted", {})
    return tmp_path / "workload.json"


def test_problems_are_found_again_by_the_next_process(path, monkeypatch):
    for descriptor in PROBLEMS:
        workload_log.note(descriptor)
    assert workload_log.known() == PROBLEMS
    assert list(map(type, workload_log.known())) == list(map(type, PROBLEMS))
    workload_log.save()
    monkeypatch.setattr(workload_log, "_noted", {})
    assert workload_log.known() == PROBLEMS
    workload_log.note(PROBLEMS[0])
    assert workload_log.known() == [*PROBLEMS[1:], PROBLEMS[0]], "the newest is last"


def test_only_what_is_worth_a_measurement(path):
    workload_log.note(product(100))
    packed = Packed(float32, (300, 300), 1 << 19, "mine")
    workload_log.note(product(300)._replace(y=packed))
    workload_log.note(Reorder(row_major(float32, (9000, 900)), row_major(float64, (9000, 900))))
    assert workload_log.known() == []
    workload_log.save()
    assert not path.exists()


def test_operations_are_counted_as_elsewhere():
    assert flops(product(10)) == 2000
    conv = 2 * 2 * 64 * 30 * 30 * 64 * 9
    assert [flops(descriptor) for descriptor in PROBLEMS[2:]] == [conv] * 3


def test_the_newest_stay(path, monkeypatch):
    monkeypatch.setattr(workload_log, "MOST", 3)
    for n in range(150, 156):
        workload_log.note(product(n))
    workload_log.save()
    monkeypatch.setattr(workload_log, "_noted", {})
    assert workload_log.known() == [product(n) for n in (153, 154, 155)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 9, "descriptors": []}',
        '{"format": 1, "descriptors": [{}]}',
        '{"format": 1, "descriptors": [{"type": "program", "text": "?"}]}',
        pytest.param("[" * 100_000, marks=pytest.mark.defect("V17"), id="deep"),
    ],
)
def test_a_file_that_is_none_of_ours_counts_as_empty(path, content):
    path.write_text(content)
    assert workload_log.known() == []
    workload_log.note(product(200))
    workload_log.save()
    assert len(json.loads(path.read_text())["descriptors"]) == 1


PROGRAM = """
import fl_tensor as ft
with ft.use("jit"):
    for _ in range(3):
        (ft.ones((200, 200)) @ ft.ones((200, 200))).numpy()
"""


def stderr_of_a_product(**environment):
    # A session that fixes the kernel library generates no kernels: none of its settings.
    others = {name: value for name, value in os.environ.items() if not name.startswith("FL_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**others, **environment},
        capture_output=True,
        text=True,
    )
    return done.stderr


@pytest.mark.defect("V17")
def test_damaged_files_and_wrong_settings_are_no_noise_at_the_end(tmp_path):
    environment = {"FL_CACHE_DIR": str(tmp_path)}
    assert stderr_of_a_product(**environment) == ""
    descriptors = tmp_path / "workload.json"
    assert descriptors.exists()
    for path in (descriptors, *tmp_path.glob("choices-*.json")):
        path.write_text('{"a":' * 100_000)
    assert stderr_of_a_product(**environment) == ""
    assert json.loads(descriptors.read_text())["descriptors"], "it is written anew"
    # Kernels are read, and nothing else would have written: nobody needs to know.
    assert stderr_of_a_product(**environment, FL_CACHE_BYTES="abc") == ""


def test_a_wrong_setting_is_an_error_where_it_is_read_and_not_at_the_end(tmp_path):
    said = stderr_of_a_product(FL_CACHE_DIR=str(tmp_path), FL_CACHE_BYTES="abc")
    assert "Exception ignored" not in said and "atexit" not in said
    assert said.rstrip().endswith("FL_CACHE_BYTES='abc': expected a number of bytes, 0 or more")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_writes_nothing(path):
    workload_log.note(product(200))
    child = os.fork()
    if child == 0:
        workload_log.save()
        os._exit(0)
    os.waitpid(child, 0)
    assert not path.exists()


# ---- fl-jit tune ------------------------------------------------------------------------------


class Products(KernelLibrary):
    """A library in which measuring changes the choice for one of the descriptors."""

    name = "products"

    def __init__(self):
        super().__init__()
        self.tuned = []

    def prepare(self, descriptor):
        raise UnsupportedError("it computes nothing")

    def report(self):
        return {}

    def tune(self, descriptor):
        self.tuned.append(descriptor)
        return "fast" if descriptor == product(200) else ""


def test_every_recorded_descriptor_is_measured(path, monkeypatch, capsys):
    for n in (200, 210):
        workload_log.note(product(n))
    library = Products()
    monkeypatch.setattr(registry, "active_library", lambda: library)
    assert main(["tune"]) == 0
    assert library.tuned == [product(200), product(210)]
    assert "2 operations, 1 with another kernel" in capsys.readouterr().out


def test_without_problems_there_is_nothing_to_do(path, monkeypatch, capsys):
    assert main(["tune"]) == 0
    assert "run a program" in capsys.readouterr().out
    workload_log.note(product(200))
    workload_log.save()
    assert path.exists() and main(["tune", "--forget"]) == 0
    assert not path.exists() and workload_log.known() == []


def test_a_bar_shows_how_far_it_is():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    file = Terminal()
    assert list(tune.bar(PROBLEMS, file)) == PROBLEMS
    last = file.getvalue().rpartition("\r")[2]
    assert last.startswith("[" + "#" * 30 + "] 5 of 5") and last.endswith("\n")
    assert "] 2 of 5 0 s left" in file.getvalue()
    silent = io.StringIO()
    assert list(tune.bar(PROBLEMS, silent)) == PROBLEMS and silent.getvalue() == ""


def test_operands_that_run_backwards_have_room():
    layout = Layout(float32, (3, 5), (-7, 1))
    assert autotune.span(layout) == (14 * 4, (14 + 1 + 4) * 4)
