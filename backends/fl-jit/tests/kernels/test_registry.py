"""Which providers serve a process, and in which order they are asked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fl_jit.kernels import (
    Epilogue,
    Kernel,
    KernelLibrary,
    KernelLibraryError,
    Matmul,
    OpDescriptor,
    UnsupportedError,
    registry,
    row_major,
)
from fl_jit.kernels.codegen import Builder
from fl_jit.kernels.fallback import FallbackChain
from fl_jit.kernels.lazy import LazyLibrary
from fl_tensor.dtypes import float32, float64


def followed(dtype):
    b = Builder(2)
    b.output(b("negative", b.input(dtype, "sc")), "sc")
    return square(dtype)._replace(epilogue=Epilogue(b.program(), (4, 4), ((4, 1), (4, 1))))


class Solved:
    """A kernel that says whose it is."""

    workspace = 0

    def __init__(self, descriptor: OpDescriptor, about: str) -> None:
        self.operands = (descriptor.x, descriptor.out)
        self.about = about

    def __call__(self, *addresses: int) -> None:
        raise AssertionError("nobody computes here")


class Only(KernelLibrary):
    """Supports products of one dtype."""

    def __init__(self, name: str, dtype: object) -> None:
        super().__init__()
        self.name, self.dtype, self.asked = name, dtype, 0

    def prepare(self, descriptor: OpDescriptor) -> Kernel:
        self.asked += 1
        if descriptor.out.dtype is not self.dtype:
            raise UnsupportedError(f"not {descriptor.out.dtype}")
        return Solved(descriptor, self.name)

    def report(self) -> dict[str, str]:
        return {"version": "1"}

    def choices(self) -> str:
        return f"{self.name}: 1 us"


def square(dtype):
    return Matmul(*[row_major(dtype, (4, 4))] * 3)


@pytest.fixture
def names(monkeypatch):
    """What FL_KERNEL_LIBRARIES says is opened anew, and stands in for any library."""
    opened = {
        "first": lambda: (Only("first", float32), ()),
        "second": lambda: (Only("second", float64), ()),
        "absent": lambda: (None, ("it is not installed",)),
    }
    monkeypatch.setattr(registry, "_OPEN", opened)
    registry.found.cache_clear()
    registry.active_library.cache_clear()
    yield lambda value: monkeypatch.setenv("FL_KERNEL_LIBRARIES", value)
    registry.found.cache_clear()
    registry.active_library.cache_clear()


def test_one_provider_is_asked_itself(names):
    names("first")
    assert registry.active_library().name == "first" and not isinstance(
        registry.active_library(), FallbackChain
    )


def test_the_first_that_supports_a_problem_solves_it(names):
    names("second, first")
    chain = registry.active_library()
    assert chain.name == "second, first"
    assert chain.find(square(float32)).about == chain.serving(square(float32)).name == "first"
    assert chain.find(square(float64)).about == "second"
    assert chain.why_not(square(float32)) == ""
    assert [each.asked for each in chain.libraries] == [2, 1]


def test_what_nobody_supports_has_every_reason(names):
    first, second = Only("first", float64), Only("second", float64)
    chain = FallbackChain([first, second])
    assert chain.find(square(float32)) is None
    assert chain.why_not(square(float32)) == "first: not float32; second: not float32"
    with pytest.raises(UnsupportedError, match="first: not float32"):
        chain.prepare(square(float32))


def test_a_chain_speaks_for_all(names):
    chain = FallbackChain([Only("first", float32), Only("second", float64)])
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
    chain = FallbackChain([first, second])
    assert chain.has_epilogues and not FallbackChain([first, first]).has_epilogues
    assert chain.find(followed(float32)).about == "second"


def test_providers_can_be_turned_off(names):
    names("none")
    assert registry.active_library() is None
    assert registry.found() == ((), ("providers are turned off by FL_KERNEL_LIBRARIES=none",))


def test_what_is_not_installed_is_passed_over(names):
    names("absent,first")
    assert registry.active_library().name == "first"
    assert registry.found()[1] == ("it is not installed",)


def test_a_name_that_is_none_is_an_error(names):
    names("first,fastest")
    with pytest.raises(
        KernelLibraryError, match="no provider 'fastest'; name some of first, second"
    ):
        registry.active_library()


def test_a_provider_may_be_made_when_it_is_needed():
    made = []
    later = LazyLibrary("first", False, lambda: made.append(Only("first", float32)) or made[-1])
    chain = FallbackChain([later, Only("second", float64)])
    assert chain.name == "first, second" and not chain.has_epilogues and made == []
    assert chain.find(square(float32)).about == "first"
    assert chain.serving(square(float32)) is made[0]
    assert chain.find(square(float64)).about == "second"
    assert later.why_not(square(float64)) == "not float64" and later.remembered() == 2
    assert later.choices() == "first: 1 us" and later.report() == {"version": "1"}
    later.forget()
    assert later.remembered() == 0 and len(made) == 1


def test_small_work_imports_no_compiler():
    code = (
        "import sys, fl_tensor as ft; x = ft.ones((8, 8)); (x @ x).numpy();"
        "print('llvmlite' in sys.modules); y = ft.ones((300, 300)); (y @ y).numpy();"
        "print('llvmlite' in sys.modules)"
    )
    env = {**os.environ, "FL_KERNEL_LIBRARIES": "generated", "FL_TENSOR_BACKEND": "jit"}
    env.pop("FL_KERNELS_FORCE", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_those_asked_for_by_default_exist():
    assert set(registry.DEFAULT) <= set(registry._OPEN)


@pytest.mark.parametrize("value,everything", [(None, False), ("0", False), ("1", True)])
def test_sizes_may_be_disregarded(monkeypatch, value, everything):
    monkeypatch.delenv("FL_KERNELS_FORCE", raising=False)
    if value is not None:
        monkeypatch.setenv("FL_KERNELS_FORCE", value)
    assert registry.is_for_everything.__wrapped__() is everything
