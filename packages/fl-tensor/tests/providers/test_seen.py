"""Problems that came up are kept for ``fl-tensor tune``, which measures them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import pytest

from fl_tensor.backends.providers import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Epilogue,
    Layout,
    Matmul,
    Packed,
    Pooling,
    Provider,
    channels_last,
    choose,
    row_major,
    seen,
)
from fl_tensor.cli import main, tune
from fl_tensor.codegen import Builder
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
    product(200, bias=row_major(float32, (1, 200)), activation="relu"),
    followed(201),
    Convolution(IMAGE, WEIGHTS, IMAGE, *PLACES),
    ConvolutionData(IMAGE, WEIGHTS, IMAGE, *PLACES, groups=1),
    ConvolutionWeights(IMAGE, IMAGE, WEIGHTS, *PLACES),
]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("FL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(seen, "_noted", {})
    return tmp_path / "problems.json"


def test_problems_are_found_again_by_the_next_process(path, monkeypatch):
    for problem in PROBLEMS:
        seen.note(problem)
    assert seen.known() == PROBLEMS
    seen.save()
    monkeypatch.setattr(seen, "_noted", {})
    assert seen.known() == PROBLEMS
    seen.note(PROBLEMS[0])
    assert seen.known() == [*PROBLEMS[1:], PROBLEMS[0]], "the newest is last"


def test_only_what_is_worth_a_measurement(path):
    seen.note(product(100))
    packed = Packed(float32, (300, 300), 1 << 19, "mine")
    seen.note(product(300)._replace(y=packed))
    seen.note(Pooling(IMAGE, IMAGE, (3, 3), (1, 1), ((1, 1), (1, 1))))
    assert seen.known() == []
    seen.save()
    assert not path.exists()


def test_operations_are_counted_as_elsewhere():
    assert seen.flops(product(10)) == 2000
    conv = 2 * 2 * 64 * 30 * 30 * 64 * 9
    assert [seen.flops(problem) for problem in PROBLEMS[2:]] == [conv] * 3


def test_the_newest_are_kept(path, monkeypatch):
    monkeypatch.setattr(seen, "MOST", 3)
    for n in range(150, 156):
        seen.note(product(n))
    seen.save()
    monkeypatch.setattr(seen, "_noted", {})
    assert seen.known() == [product(n) for n in (153, 154, 155)]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 9, "problems": []}',
        '{"format": 1, "problems": [{}]}',
        '{"format": 1, "problems": [{"type": "program", "text": "?"}]}',
        pytest.param("[" * 100_000, marks=pytest.mark.defect("V17"), id="deep"),
    ],
)
def test_a_file_that_is_none_of_ours_counts_as_empty(path, content):
    path.write_text(content)
    assert seen.known() == []
    seen.note(product(200))
    seen.save()
    assert len(json.loads(path.read_text())["problems"]) == 1


PROGRAM = """
import fl_tensor as ft
with ft.use("jit"):
    for _ in range(3):
        (ft.ones((200, 200)) @ ft.ones((200, 200))).numpy()
"""


def stderr_of_a_product(**environment):
    # A session that fixes the provider compiles no kernels: none of its settings.
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
    problems = tmp_path / "problems.json"
    assert problems.exists()
    for path in (problems, *tmp_path.glob("choices-*.json")):
        path.write_text('{"a":' * 100_000)
    assert stderr_of_a_product(**environment) == ""
    assert json.loads(problems.read_text())["problems"], "it is written anew"
    # Kernels are read, and nothing else would have written: nobody needs to know.
    assert stderr_of_a_product(**environment, FL_CACHE_BYTES="abc") == ""


def test_a_wrong_setting_is_an_error_where_it_is_read_and_not_at_the_end(tmp_path):
    said = stderr_of_a_product(FL_CACHE_DIR=str(tmp_path), FL_CACHE_BYTES="abc")
    assert "Exception ignored" not in said and "atexit" not in said
    assert said.rstrip().endswith("FL_CACHE_BYTES='abc': expected a number of bytes, 0 or more")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_child_writes_nothing(path):
    seen.note(product(200))
    child = os.fork()
    if child == 0:
        seen.save()
        os._exit(0)
    os.waitpid(child, 0)
    assert not path.exists()


# ---- fl-tensor tune ------------------------------------------------------------------------------


class Undecided:
    """A kernel that is another one from the eighth call on."""

    workspace = 0

    def __init__(self, problem):
        self.operands = problem.x, problem.y, problem.out
        self.about, self.calls = "by rule", 0

    def __call__(self, *addresses):
        assert len(addresses) == 3 and all(addresses)
        self.calls += 1
        if self.calls == 8:
            self.about = "measured"


class Products(Provider):
    name = "products"

    def __init__(self):
        super().__init__()
        self.made = []

    def prepare(self, problem):
        self.made.append(Undecided(problem))
        return self.made[-1]

    def report(self):
        return {}


def test_every_problem_is_run_until_its_kernel_is_chosen(path, monkeypatch, capsys):
    for n in (200, 210):
        seen.note(product(n))
    provider = Products()
    monkeypatch.setattr(choose, "current", lambda: provider)
    assert main(["tune"]) == 0
    assert [kernel.calls for kernel in provider.made] == [8, 8]
    assert "2 problems, 2 with another kernel" in capsys.readouterr().out


def test_without_problems_there_is_nothing_to_do(path, monkeypatch, capsys):
    assert main(["tune"]) == 0
    assert "run a program" in capsys.readouterr().out
    seen.note(product(200))
    seen.save()
    assert path.exists() and main(["tune", "--forget"]) == 0
    assert not path.exists() and seen.known() == []


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
    assert tune._span(layout) == (14 * 4, (14 + 1 + 4) * 4)
