"""Which providers serve a process, and in which order they are asked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fl_tensor.backends.providers import (
    Epilogue,
    Kernel,
    Matmul,
    Problem,
    Provider,
    ProviderError,
    UnsupportedError,
    choose,
    row_major,
)
from fl_tensor.backends.providers.chain import Chain
from fl_tensor.backends.providers.later import Later
from fl_tensor.codegen import Builder
from fl_tensor.dtypes import float32, float64


def followed(dtype):
    b = Builder(2)
    b.output(b("negative", b.input(dtype, "sc")), "sc")
    return square(dtype)._replace(epilogue=Epilogue(b.program(), (4, 4), ((4, 1), (4, 1))))


class Solved:
    """A kernel that says whose it is."""

    workspace = 0

    def __init__(self, problem: Problem, about: str) -> None:
        self.operands = (problem.x, problem.out)
        self.about = about

    def __call__(self, *addresses: int) -> None:
        raise AssertionError("nobody computes here")


class Only(Provider):
    """Supports products of one dtype."""

    def __init__(self, name: str, dtype: object) -> None:
        super().__init__()
        self.name, self.dtype, self.asked = name, dtype, 0

    def prepare(self, problem: Problem) -> Kernel:
        self.asked += 1
        if problem.out.dtype is not self.dtype:
            raise UnsupportedError(f"not {problem.out.dtype}")
        return Solved(problem, self.name)

    def report(self) -> dict[str, str]:
        return {"version": "1"}

    def choices(self) -> str:
        return f"{self.name}: 1 us"


def square(dtype):
    return Matmul(*[row_major(dtype, (4, 4))] * 3)


@pytest.fixture
def names(monkeypatch):
    """What FL_PROVIDERS says is opened anew, and stands in for any library."""
    opened = {
        "first": lambda: (Only("first", float32), ()),
        "second": lambda: (Only("second", float64), ()),
        "absent": lambda: (None, ("it is not installed",)),
    }
    monkeypatch.setattr(choose, "_OPEN", opened)
    choose.found.cache_clear()
    choose.current.cache_clear()
    yield lambda value: monkeypatch.setenv("FL_PROVIDERS", value)
    choose.found.cache_clear()
    choose.current.cache_clear()


def test_one_provider_is_asked_itself(names):
    names("first")
    assert choose.current().name == "first" and not isinstance(choose.current(), Chain)


def test_the_first_that_supports_a_problem_solves_it(names):
    names("second, first")
    chain = choose.current()
    assert chain.name == "second, first"
    assert chain.find(square(float32)).about == chain.serving(square(float32)).name == "first"
    assert chain.find(square(float64)).about == "second"
    assert chain.why_not(square(float32)) == ""
    assert [each.asked for each in chain.providers] == [2, 1]


def test_what_nobody_supports_has_every_reason(names):
    first, second = Only("first", float64), Only("second", float64)
    chain = Chain([first, second])
    assert chain.find(square(float32)) is None
    assert chain.why_not(square(float32)) == "first: not float32; second: not float32"
    with pytest.raises(UnsupportedError, match="first: not float32"):
        chain.prepare(square(float32))


def test_a_chain_speaks_for_all(names):
    chain = Chain([Only("first", float32), Only("second", float64)])
    assert chain.choices() == "first: 1 us\nsecond: 1 us"
    assert chain.report() == {"first version": "1", "second version": "1"}
    chain.find(square(float32))
    assert chain.remembered() == 1
    chain.forget()
    assert chain.remembered() == 0


def test_epilogues_are_for_those_that_have_them(names):
    first, second = Only("first", float32), Only("second", float32)
    assert first.find(followed(float32)) is None and first.asked == 0
    assert first.why_not(followed(float32)) == "no epilogues"
    second.has_epilogues = True
    chain = Chain([first, second])
    assert chain.has_epilogues and not Chain([first, first]).has_epilogues
    assert chain.find(followed(float32)).about == "second"


def test_providers_can_be_turned_off(names):
    names("none")
    assert choose.current() is None
    assert choose.found() == ((), ("providers are turned off by FL_PROVIDERS=none",))


def test_what_is_not_installed_is_passed_over(names):
    names("absent,first")
    assert choose.current().name == "first"
    assert choose.found()[1] == ("it is not installed",)


def test_a_name_that_is_none_is_an_error(names):
    names("first,fastest")
    with pytest.raises(ProviderError, match="no provider 'fastest'; name some of first, second"):
        choose.current()


def test_a_provider_may_be_made_when_it_is_needed():
    made = []
    later = Later("first", False, lambda: made.append(Only("first", float32)) or made[-1])
    chain = Chain([later, Only("second", float64)])
    assert chain.name == "first, second" and not chain.has_epilogues and made == []
    assert chain.find(square(float32)).about == "first"
    assert chain.serving(square(float32)) is made[0]
    assert chain.find(square(float64)).about == "second"
    assert later.why_not(square(float64)) == "not float64" and later.remembered() == 2
    assert later.choices() == "first: 1 us" and later.report() == {"version": "1"}
    later.forget()
    assert later.remembered() == 0 and len(made) == 1


def test_small_work_imports_no_compiler():
    pytest.importorskip("llvmlite")
    code = (
        "import sys, fl_tensor as ft; x = ft.ones((8, 8)); (x @ x).numpy();"
        "print('llvmlite' in sys.modules); y = ft.ones((300, 300)); (y @ y).numpy();"
        "print('llvmlite' in sys.modules)"
    )
    env = {**os.environ, "FL_PROVIDERS": "generated", "FL_TENSOR_BACKEND": "jit"}
    env.pop("FL_PROVIDERS_EVERYTHING", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_those_asked_for_by_default_exist():
    assert set(choose.DEFAULT) <= set(choose._OPEN)


@pytest.mark.parametrize("value,everything", [(None, False), ("0", False), ("1", True)])
def test_sizes_may_be_disregarded(monkeypatch, value, everything):
    monkeypatch.delenv("FL_PROVIDERS_EVERYTHING", raising=False)
    if value is not None:
        monkeypatch.setenv("FL_PROVIDERS_EVERYTHING", value)
    assert choose.is_for_everything.__wrapped__() is everything
