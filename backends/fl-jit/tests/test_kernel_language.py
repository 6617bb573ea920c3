# mypy: disable-error-code="valid-type"
"""The compiler of ``@ft.kernel`` functions: the conformance suite, and forms that it leaves out."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import replace

import pytest

import fl_tensor as ft
from fl_jit.kernel_language import JitKernelCompiler, module
from fl_jit.kernels.codegen import compile, target
from fl_tensor.kernels import Array, Kernel
from fl_tensor.kernels.binding import bound
from fl_tensor.testing import KernelCompilerSuite
from fl_tensor.testing.kernels.programs import defined

LOW, HIGH = -(1 << 63), (1 << 63) - 1


class TestJitKernelCompiler(KernelCompilerSuite):
    compiler = JitKernelCompiler
    programs = 25


def compiled(kernel: Kernel):
    """A kernel as machine code."""
    return bound(kernel.definition, JitKernelCompiler().compile(kernel.definition))


def test_fl_tensor_finds_it(monkeypatch):
    monkeypatch.delenv("FL_KERNEL_COMPILER", raising=False)
    double = defined("def double(a: int) -> int:\n    return a * 2\n")
    assert double(21) == 42
    assert double.compiler == "jit"


@pytest.mark.parametrize("step", [1, 2, 3, 7, -1, -2, -5, HIGH, LOW])
def test_ranges_that_end_near_the_bounds_of_int64(step):
    """No index goes around, as first + step may."""
    kernel = defined(
        "def visit(first: int, last: int, seen: Array[ft.int64]) -> int:\n"
        "    count = 0\n"
        f"    for i in range(first, last, {step}):\n"
        "        if count < len(seen):\n"
        "            seen[count] = i\n"
        "        count += 1\n"
        "        if count > 20:\n"
        "            break\n"
        "    return count\n"
    )
    function = compiled(kernel)
    bounds = (LOW, LOW + 1, LOW + 8, -3, 0, 4, HIGH - 8, HIGH - 1, HIGH)
    for first in bounds:
        for last in bounds:
            ours, theirs = array("q", [0] * 21), array("q", [0] * 21)
            assert function(first, last, ours) == kernel.interpret(first, last, theirs)
            assert ours == theirs, (first, last)


@pytest.mark.parametrize("divisor", [1, 2, 3, 8, 1 << 62, -1, -2, -7, -8, LOW, HIGH, 0])
@pytest.mark.parametrize("op", ["//", "%"])
def test_division_by_a_literal(op, divisor):
    """Divisors that are known, among them powers of two, give the results of those that are not."""
    literal = compiled(defined(f"def f(a: int) -> int:\n    return a {op} ({divisor})\n"))
    variable = compiled(defined(f"def f(a: int, b: int) -> int:\n    return a {op} b\n"))
    for a in (0, 1, -1, 5, -5, 7, 8, -8, 9, -9, LOW, LOW + 1, HIGH):
        expected = variable(a, divisor)
        assert literal(a) == expected
        if divisor:
            exact = a // divisor if op == "//" else a % divisor
            assert expected == (exact + (1 << 63)) % (1 << 64) - (1 << 63)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 1000, -1])
@pytest.mark.parametrize("op", ["<<", ">>"])
def test_shift_by_a_literal(op, count):
    literal = compiled(defined(f"def f(a: int) -> int:\n    return a {op} ({count})\n"))
    variable = compiled(defined(f"def f(a: int, b: int) -> int:\n    return a {op} b\n"))
    for a in (0, 1, -1, 12345, LOW, HIGH):
        assert literal(a) == variable(a, count)


def test_statements_that_no_way_reaches():
    """A variable may get its only value behind a ``return``."""
    kernel = defined(
        "def f(a: int) -> int:\n"
        "    if a > 0:\n"
        "        return 1\n"
        "        b = 5\n"
        "    else:\n"
        "        return 2\n"
        "    while True:\n"
        "        break\n"
        "    return b\n"
    )
    function = compiled(kernel)
    assert [function(1), function(-1)] == [1, 2]


def test_a_loop_whose_body_always_leaves():
    kernel = defined(
        "def f(n: int) -> int:\n"
        "    for i in range(n):\n"
        "        while True:\n"
        "            return i + 10\n"
        "    return 0\n"
    )
    function = compiled(kernel)
    assert [function(0), function(3)] == [0, 10]


def test_a_kernel_may_have_the_name_of_a_function_of_python():
    """It is called where Python calls it, and only then."""
    note = defined("def abs(x: Array[ft.int64]) -> int:\n    x[0] += 1\n    return x[0]\n")
    kernel = defined(
        "def f(a: int, x: Array[ft.int64]) -> int:\n"
        "    if a > 0 and abs(x) > 0:\n"
        "        return 1\n"
        "    return abs(x) if a < -5 else 0\n",
        abs=note,
    )
    function = compiled(kernel)
    for a, result, calls in ((1, 1, 1), (0, 0, 0), (-9, 1, 1)):
        x = array("q", [0])
        assert (function(a, x), x[0]) == (result, calls)


@ft.kernel
def exponentials(x: Array[ft.float64], y: Array[ft.float64]) -> None:
    for i in range(len(x)):
        y[i] = math.exp(x[i])


@ft.kernel
def logarithms(x: Array[ft.float64], y: Array[ft.float64]) -> None:
    for i in range(len(x)):
        y[i] = math.log(x[i]) + math.log1p(x[i])


@ft.kernel
def multiples(x: Array[ft.float32], y: Array[ft.float32], factor: float) -> None:
    for i in range(len(x)):
        y[i] = x[i] * factor


@ft.kernel
def total(x: Array[ft.int32]) -> int:
    found = 0
    for i in range(len(x)):
        found += x[i]
    return found


def vectors(kernel: Kernel, machine: target.Target) -> set[str]:
    """The vector registers that the code of a kernel names, by the first letter of their names."""
    text = compile.listing(
        module.assembly(kernel.definition, "kernel", machine), machine, compile.Effort.WHOLE
    )
    return set(re.findall(r"%([xyz])mm", text))


@pytest.mark.skipif(not target.triple().startswith("x86_64"), reason="names of x86 registers")
@pytest.mark.skipif(target.processor().vector_bits < 256, reason="vectors of 128 bits")
@pytest.mark.parametrize("kernel", [exponentials, logarithms, multiples, total])
def test_loops_are_vectorized(kernel):
    """Functions of ``math`` too."""
    assert vectors(kernel, target.processor()) & {"y", "z"}


@pytest.mark.skipif(not target.triple().startswith("x86_64"), reason="names of x86 registers")
def test_vectors_have_the_width_that_is_asked_for():
    """That of FL_VECTOR_BITS."""
    narrow = replace(target.processor(), vector_bits=128)
    assert vectors(exponentials, narrow) == {"x"}


def test_functions_of_math_in_loops_have_the_bits_of_single_calls():
    """Whether LLVM vectorizes a loop changes no result."""
    x = array("d", [1e-320, 1e-9, 0.3, 1.0, 2.5, 700.0, math.inf] * 9)
    looped, single = array("d", [0.0] * len(x)), array("d", [0.0] * len(x))
    for kernel in (exponentials, logarithms):
        function = compiled(kernel)
        function(x, looped)
        for i in range(len(x)):
            function(memoryview(x)[i : i + 1], memoryview(single)[i : i + 1])
        assert looped == single
