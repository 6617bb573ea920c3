"""Compilers of kernels: how one is found, what happens without one, and the suite that tests them.

The suite runs on ``kernel_evaluator.Evaluator``, and must find each mutation of it.
"""

from __future__ import annotations

import math
import operator
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel_evaluator import Evaluator

import fl_tensor as ft
from fl_memory.errors import PluginError
from fl_tensor.kernels import Definition, Kernel, compilers
from fl_tensor.testing import KernelCompilerSuite
from fl_tensor.testing.kernels import programs


class TestEvaluator(KernelCompilerSuite):
    compiler = Evaluator
    programs = 40


# ---- finding one -------------------------------------------------------------------------------


class Broken(Evaluator):
    name = "broken"

    def compile(self, definition: Definition) -> Callable[..., Any]:
        raise ValueError("no registers are left")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No compiler chosen, none installed."""
    monkeypatch.delenv("FL_KERNEL_COMPILER", raising=False)
    monkeypatch.setattr(compilers, "_compiler", None)
    monkeypatch.setattr(compilers.REGISTRY, "_installed", {})
    yield monkeypatch
    compilers.REGISTRY.refresh()


def installed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str = "kernel_evaluator:Evaluator",
) -> None:
    """Install a distribution that offers a compiler."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[fl.kernel_compilers.v1]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(str(folder))


def count(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def test_an_installed_compiler_is_found_at_the_first_call(
    fresh: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(tmp_path, fresh, "aaa")
    fresh.setattr(compilers.REGISTRY, "_installed", None)
    kernel = ft.kernel(count)
    assert kernel.compiler == ""
    assert kernel(5) == 10
    assert kernel.compiler == "evaluator"


def test_without_a_compiler_there_is_one_warning(fresh: pytest.MonkeyPatch) -> None:
    with pytest.warns(ft.KernelCompilerWarning, match="100 times slower.*no compiler is installed"):
        assert ft.kernel(count)(5) == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = ft.kernel(count)
        assert kernel(5) == 10 and kernel.compiler == "interpreter"


def test_the_variable_chooses_the_interpreter_without_a_warning(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("FL_KERNEL_COMPILER", "interpreter")
    kernel = ft.kernel(count)
    assert kernel(5) == 10 and kernel.compiler == "interpreter"


def test_the_variable_chooses_by_name_or_class(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("FL_KERNEL_COMPILER", "kernel_evaluator:Evaluator")
    kernel = ft.kernel(count)
    assert kernel(5) == 10 and kernel.compiler == "evaluator"


def test_the_variable_names_a_compiler_that_is_missing(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("FL_KERNEL_COMPILER", "acme")
    with pytest.raises(
        PluginError, match="no kernel compiler named 'acme'; there are: interpreter"
    ):
        ft.kernel(count)(5)


def test_a_compiler_that_cannot_be_loaded_is_left_out(
    fresh: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(tmp_path, fresh, "aaa", "no_such_module:Compiler")
    fresh.setattr(compilers.REGISTRY, "_installed", None)
    names = [n for n in compilers.REGISTRY.names() if n not in ("aaa", "interpreter")]
    for name in names:  # those of the environment
        compilers.REGISTRY._offers().pop(name)
    with pytest.warns(ft.KernelCompilerWarning, match="No module named 'no_such_module'"):
        assert ft.kernel(count)(5) == 10


def test_a_kernel_that_does_not_compile_is_interpreted(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(compilers, "_compiler", Broken())
    kernel = ft.kernel(count)
    message = "'count' runs in the interpreter.*'broken' failed with ValueError: no registers"
    with pytest.warns(ft.KernelCompilerWarning, match=message):
        assert kernel(5) == 10
    assert kernel.compiler == "interpreter" and kernel(6) == 15


def test_a_kernel_is_compiled_once_by_many_threads(fresh: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    class Counting(Evaluator):
        def compile(self, definition: Definition) -> Callable[..., Any]:
            compiled.append(definition.name)
            return super().compile(definition)

    fresh.setattr(compilers, "_compiler", Counting())
    kernel, found = ft.kernel(count), []
    start = threading.Barrier(6)

    def run() -> None:
        start.wait()
        found.append(kernel(100))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [4950] * 6 and compiled == ["count"]


def test_the_name_is_known_before_anything_is_loaded(
    fresh: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert compilers.compiler_name() == "interpreter"
    fresh.setenv("FL_KERNEL_COMPILER", "acme")
    assert compilers.compiler_name() == "acme"


# ---- what the suite finds ----------------------------------------------------------------------


def changed(name: str, change: Any) -> type[Evaluator]:
    return type("Changed", (Evaluator,), {name: change})


def unbounded(self: Any, of: Definition, e: Any, found: Any) -> Any:
    return max(min(found, 1 << 63), -1 << 63) if type(found) is int else found


def unsigned_zeros(self: Any, of: Definition, e: Any, names: Any) -> Any:
    found = Evaluator.value(self, of, e, names)
    return found + 0.0 if type(found) is float and found == 0 else found  # loses the sign of -0.0


class ByName(Evaluator):
    """Takes a callee for another one of the same name."""

    def run(self, definition: Definition, values: list[Any]) -> Any:
        known = self.__dict__.setdefault("known", {})
        return super().run(known.setdefault(definition.name, definition), values)


class Shared(Evaluator):
    """Uses one place for all elements of a record."""

    def compile(self, definition: Definition) -> Callable[..., Any]:
        whole = super().compile(definition)
        counts = [p for p in definition.parameters if hasattr(p.type, "fields")]
        return (lambda *n: whole(*n[:2], 1, *n[3:])) if counts else whole


MUTANTS: dict[str, tuple[type[Evaluator], str]] = {
    "truncating division": (
        changed("FloorDiv", lambda self, x, y: int(math.copysign(1, x) * (abs(x) // abs(y or 1)))),
        "test_integers_wrap_at_64_bits[//]",
    ),
    "remainder with the sign of the dividend": (
        changed("Mod", lambda self, x, y: abs(x) % abs(y or 1) * (1 if x > 0 else -1)),
        "test_integers_wrap_at_64_bits[%]",
    ),
    "a division by zero that traps": (
        changed("FloorDiv", lambda self, x, y: x // y),
        "test_integers_without_a_result[a // b]",
    ),
    "shifts modulo 64": (
        changed("LShift", lambda self, x, y: x << (y & 63)),
        "test_integers_wrap_at_64_bits[<<]",
    ),
    "logical right shift": (
        changed("RShift", lambda self, x, y: (x & ((1 << 64) - 1)) >> min(max(y, 0), 64)),
        "test_integers_wrap_at_64_bits[>>]",
    ),
    "saturation": (changed("fit", unbounded), "test_integers_wrap_at_64_bits[*]"),
    "rounding to nearest": (
        changed("truncated", lambda self, x: round(x) if abs(x) < 1e18 else 0),
        "test_floats_become_integers_by_truncation",
    ),
    "max that prefers NaN": (
        changed("max", lambda self, *v: math.nan if any(x != x for x in v) else max(v)),
        "test_float_functions[max(x, y)]",
    ),
    "min that returns the last of equals": (
        changed("min", lambda self, *v: min(reversed(v))),
        "test_float_functions[min(x, y)]",
    ),
    "a logarithm of 0 that is NaN": (
        changed("log", lambda self, x: math.log(x) if x > 0 else math.nan),
        "test_functions_of_math[log]",
    ),
    "an exponential in single precision": (
        changed("exp", lambda self, x: Evaluator.exp(self, x) * (1 + 1e-8)),
        "test_functions_of_math[exp]",
    ),
    "a product with an addend that rounds once": (
        changed("Add", lambda self, x, y: x + y + (2.0**-60 if y == -1.0 else 0)),
        "test_nothing_is_fused_or_reordered",
    ),
    "lost signs of zeros": (changed("value", unsigned_zeros), "test_float_functions[x]"),
    "callees by name": (ByName, "test_kernels_of_one_name_are_told_apart"),
    "wrong length of an array": (Shared, "test_construct[record]"),
    "operands in the wrong order": (
        changed("Sub", staticmethod(lambda x, y: operator.sub(y, x))),
        "test_random_programs",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_suite_finds(name: str) -> None:
    compiler, test = MUTANTS[name]
    suite = type("Suite", (KernelCompilerSuite,), {"compiler": compiler, "programs": 10})
    with pytest.raises((AssertionError, ZeroDivisionError)):
        run(suite(), test)


def run(suite: Any, test: str) -> None:
    """Run one test of a suite, by the name that pytest shows."""
    function, _, argument = test.rstrip("]").partition("[")
    made = suite.compiler()
    compiled = lambda k: bound_by(k, made)  # noqa: E731
    method = getattr(suite, function)
    if function == "test_integers_without_a_result":
        method(compiled, argument, (5, 0), 0)
    elif argument:
        method(compiled, argument)
    else:
        method(compiled)


def bound_by(kernel: Kernel, made: Evaluator) -> Callable[..., Any]:
    from fl_tensor.kernels.binding import bound

    return bound(kernel.definition, made.compile(kernel.definition))


def test_random_programs_always_have_a_result() -> None:
    for seed in range(100, 140):
        kernel = programs.program(seed)
        assert kernel.interpret(*programs.arguments(seed)) is not None
