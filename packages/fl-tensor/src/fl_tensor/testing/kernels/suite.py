"""``KernelCompilerSuite``: the conformance tests of a compiler of kernels.

    from acme_kernels import AcmeCompiler
    from fl_tensor.testing import KernelCompilerSuite

    class TestAcme(KernelCompilerSuite):
        compiler = AcmeCompiler

The interpreter is the reference: results and arrays must have its bits, those of functions of
``math`` may differ by 4 units in the last place. Where the interpreter raises
KernelArithmeticError, compiled code has the result that ``docs/kernels.md`` states, and must not
end the process.
"""

from __future__ import annotations

import copy
import math
import struct
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest

from fl_memory.contract import Version
from fl_memory.testing.kit import Suite, hide
from fl_tensor.errors import KernelArithmeticError
from fl_tensor.kernels import Kernel, KernelCompiler
from fl_tensor.kernels.binding import FORMATS, bound
from fl_tensor.testing.kernels import cases, programs

__all__ = ["KernelCompilerSuite"]

__tracebackhide__ = hide

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1
_FUNCTION = "def f({parameters}) -> {result}:\n    return {expression}\n"
#: Floats around everything that functions of ``math`` treat apart.
_FLOATS = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 1e-17, -1e-17, 2.0, 10.0, 700.0, -700.0, 710.0, -746.0,
    1e-310, 5e-324, 1e300, 1.7976931348623157e308, math.inf, -math.inf, math.nan,
    0.9999999999999999, 1.0000000000000002, 3.141592653589793, -0.9999999999999999, 123456.789,
)  # fmt: skip


class KernelCompilerSuite(Suite, official=True):
    """Subclass it, call the class ``Test...``, set ``compiler``. ``programs`` is how many random
    programs are compiled."""

    subject = "compiler"
    what = "kernel compiler"
    host = Version(1, 0)
    host_package = "fl-tensor"

    compiler: ClassVar[Any] = None
    programs: ClassVar[int] = 60

    _made: ClassVar[KernelCompiler]

    @pytest.fixture
    def compiled(self) -> Callable[[Kernel], Callable[..., Any]]:
        """A function that compiles a kernel, by one compiler for all tests of a class."""
        cls = type(self)
        if "_made" not in vars(cls):
            cls._made = cls.compiler()
        made = cls._made
        return lambda kernel: bound(kernel.definition, made.compile(kernel.definition))

    def test_it_is_a_compiler_with_a_name(self) -> None:
        made = type(self).compiler()
        assert isinstance(made, KernelCompiler)
        assert made.name and made.name != "interpreter" or type(made).__module__[:9] == "fl_tensor"

    @pytest.mark.parametrize("name", cases.CASES)
    def test_construct(self, compiled: Any, name: str) -> None:
        kernel, calls = cases.CASES[name]
        function = compiled(kernel)
        for arguments in calls():
            _same(kernel, function, arguments)

    def test_random_programs(self, compiled: Any) -> None:
        """Programs of random statements, on random arguments."""
        for seed in range(type(self).programs):
            kernel = programs.program(seed)
            function = compiled(kernel)
            for k in range(3):
                _same(kernel, function, programs.arguments(17 * seed + k), f"program({seed})")

    @pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"])
    def test_integers_wrap_at_64_bits(self, compiled: Any, op: str) -> None:
        """``//`` rounds down, ``%`` has the sign of the divisor, ``>>`` keeps that of the number;
        a shift by 64 or more leaves 0, or the sign."""
        kernel = _of(f"a {op} b", "int")
        function = compiled(kernel)
        values = [0, 1, -1, 2, -2, 3, -3, 7, 63, 64, 65, 1 << 32, _LOW, _LOW + 1, _HIGH, _HIGH - 1]
        for a in values:
            for b in values:
                if b < 0 if op in ("<<", ">>") else b == 0 and op in ("//", "%"):
                    continue
                _same(kernel, function, (a, b), f"{a} {op} {b}")

    @pytest.mark.parametrize("expression", ["-a", "~a", "abs(a)", "a if a else b", "int(a > b)"])
    def test_integer_functions(self, compiled: Any, expression: str) -> None:
        kernel = _of(expression, "int")
        function = compiled(kernel)
        for a in (0, 1, -1, 5, _LOW, _HIGH):
            _same(kernel, function, (a, 3), f"a = {a}")

    @pytest.mark.parametrize(
        ("expression", "arguments", "expected"),
        [
            ("a // b", (5, 0), 0),
            ("a % b", (-5, 0), 0),
            ("a << b", (5, -1), 0),
            ("a >> b", (5, -1), 0),
            ("a >> b", (-5, -64), -1),
        ],
    )
    def test_integers_without_a_result(
        self, compiled: Any, expression: str, arguments: tuple[int, int], expected: int
    ) -> None:
        """The interpreter refuses them, compiled code gives a defined number."""
        kernel = _of(expression, "int")
        with pytest.raises(KernelArithmeticError):
            kernel.interpret(*arguments)
        assert compiled(kernel)(*arguments) == expected

    def test_floats_become_integers_by_truncation(self, compiled: Any) -> None:
        """Those that no int64 holds become the nearest one, and NaN 0."""
        kernel = programs.defined("def f(x: float) -> int:\n    return int(x)\n")
        function = compiled(kernel)
        for x in (0.0, -0.0, 0.99, -0.99, 2.5, -2.5, 1e15 + 0.5, -9223372036854775808.0):
            _same(kernel, function, (x,), f"int({x})")
        refused = {math.nan: 0, 1e19: _HIGH, math.inf: _HIGH, -1e19: _LOW, 2.0**63: _HIGH}
        for x, expected in refused.items():
            with pytest.raises(KernelArithmeticError):
                kernel.interpret(x)
            assert function(x) == expected, x

    @pytest.mark.parametrize("op", ["+", "-", "*", "/"])
    def test_float_arithmetic_is_ieee(self, compiled: Any, op: str) -> None:
        kernel = programs.defined(_source(f"x {op} y", "float", "x: float, y: float"))
        _pairs(kernel, compiled(kernel))

    @pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
    def test_comparisons_with_nan(self, compiled: Any, op: str) -> None:
        kernel = programs.defined(_source(f"x {op} y", "bool", "x: float, y: float"))
        _pairs(kernel, compiled(kernel))

    @pytest.mark.parametrize(
        "expression",
        ["min(x, y)", "max(x, y)", "abs(x)", "-x", "x if y else -x", "max(x, 1.0, y)", "x"],
    )
    def test_float_functions(self, compiled: Any, expression: str) -> None:
        """``max(x, y)`` is ``y`` if ``y > x``, else ``x``; ``min`` likewise."""
        kernel = programs.defined(_source(expression, "float", "x: float, y: float"))
        _pairs(kernel, compiled(kernel))

    @pytest.mark.parametrize("expression", ["not x", "x and y", "x or y", "x < y != 0.5"])
    def test_truth(self, compiled: Any, expression: str) -> None:
        """NaN is true."""
        kernel = programs.defined(_source(expression, "bool", "x: float, y: float"))
        _pairs(kernel, compiled(kernel))

    @pytest.mark.parametrize("name", ["exp", "log", "log1p", "sqrt"])
    def test_functions_of_math(self, compiled: Any, name: str) -> None:
        """Infinities and NaN where the interpreter has them; else within 4 units in the last place,
        ``sqrt`` exactly."""
        kernel = programs.defined(_source(f"math.{name}(x)", "float", "x: float"), math=math)
        function = compiled(kernel)
        for x in (*_FLOATS, *(0.37 * k - 20 for k in range(100))):
            expected, found = kernel.interpret(x), function(x)
            if math.isfinite(expected) and name != "sqrt":
                assert abs(found - expected) <= 4 * math.ulp(expected), f"{name}({x})"
                assert found != 0 or math.copysign(1, found) == math.copysign(1, expected), x
            else:
                assert _bits(found) == _bits(expected), f"{name}({x})"

    def test_large_integers_become_the_nearest_float(self, compiled: Any) -> None:
        kernel = programs.defined(_source("a + 0.0", "float", "a: int"))
        function = compiled(kernel)
        for a in (_LOW, _HIGH, (1 << 53) + 1, -(1 << 62) - 257, 3):
            _same(kernel, function, (a,), str(a))

    @pytest.mark.parametrize("dtype", FORMATS)
    def test_arrays_of(self, compiled: Any, dtype: str) -> None:
        """Reading and storing elements of each dtype; ``uint64`` has the bits of int64."""
        code = FORMATS[dtype]
        if code in "fd":
            values = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, 1e-45, 3.4e38]
        else:
            bits, signed = 8 * struct.calcsize(code), code.islower()
            values = [0, 1, 2, (1 << (bits - signed)) - 1, -(1 << (bits - 1)) if signed else 5]
        x = array(code, values)
        kernel = cases.sum_each[dtype]
        _same(kernel, compiled(kernel), (x, array("d", [0.0] * len(x))), dtype)
        kernel = cases.store_each[dtype]
        small = array("q", [0, 1, 100, 127, 7])
        _same(kernel, compiled(kernel), (array(code, [0] * 5), small), dtype)

    def test_integers_that_do_not_fit_are_cut(self, compiled: Any) -> None:
        function = compiled(cases.store_each["int8"])
        x = array("b", [0] * 4)
        function(x, array("q", [300, -129, 128, _LOW]))
        assert list(x) == [44, 127, -128, 0]

    def test_floats_round_to_float32(self, compiled: Any) -> None:
        kernel = cases.fill
        for value in (
            0.1,
            1 + 2**-24,
            1 + 2**-23,
            1e39,
            -1e39,
            1e-46,
            math.nan,
            3.4028235677973366e38,
        ):
            _same(kernel, compiled(kernel), (array("f", [0.0] * 3), 1, value), str(value))

    def test_nothing_is_fused_or_reordered(self, compiled: Any) -> None:
        """``x * y + z`` rounds twice, and sums are added in their order."""
        kernel = programs.defined(_source("x * y + z", "float", "x: float, y: float, z: float"))
        _same(kernel, compiled(kernel), (1 + 2.0**-30, 1 + 2.0**-30, -1.0))
        kernel = cases.sum_each["float64"]
        x = array("d", [1e16, 1.0, -1e16, 1.0] * 8)
        _same(kernel, compiled(kernel), (x, array("d", x)))

    def test_only_the_elements_that_are_named_are_touched(self, compiled: Any) -> None:
        """Guards on both sides of an array keep their bits."""
        function = compiled(cases.fill)
        for n in range(20):
            whole = array("f", [7.0] * (n + 16))
            function(memoryview(whole)[8 : 8 + n], 0, 1.0)
            assert list(whole) == [7.0] * 8 + [1.0] * n + [7.0] * 8

    def test_several_threads_call_one_kernel(self, compiled: Any) -> None:
        function = compiled(cases.loops)
        x = array("i", [3, 4, 5, 6, 7, 2] * 5)
        expected = cases.loops.interpret(30, x)
        found: list[int] = []
        threads = [
            threading.Thread(target=lambda: found.extend(function(30, x) for _ in range(10)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 40

    def test_a_kernel_may_be_compiled_twice(self, compiled: Any) -> None:
        first, second = compiled(cases.callees), compiled(cases.callees)
        assert first(cases.table(), 3) == second(cases.table(), 3)

    def test_kernels_of_one_name_are_told_apart(self, compiled: Any) -> None:
        """Two callees that have one name in their modules."""
        one = programs.defined("def step(a: int) -> int:\n    return a + 1\n")
        two = programs.defined("def step(a: int) -> int:\n    return a * 10\n")
        kernel = programs.defined(_source("two(one(a))", "int", "a: int"), one=one, two=two)
        _same(kernel, compiled(kernel), (4,))

    def test_many_parameters(self, compiled: Any) -> None:
        names = [f"a{i}" for i in range(40)]
        total = " + ".join(f"{name} * {i + 1}" for i, name in enumerate(names))
        parameters = ", ".join(f"{name}: {('int', 'float')[i % 2]}" for i, name in enumerate(names))
        kernel = programs.defined(_source(total, "float", parameters))
        _same(kernel, compiled(kernel), [i if i % 2 == 0 else i / 4 for i in range(40)])


# ---- comparing ---------------------------------------------------------------------------------


def _source(expression: str, result: str, parameters: str) -> str:
    return _FUNCTION.format(expression=expression, result=result, parameters=parameters)


def _of(expression: str, result: str) -> Kernel:
    return programs.defined(_source(expression, result, "a: int, b: int"))


def _pairs(kernel: Kernel, function: Callable[..., Any]) -> None:
    for x in _FLOATS:
        for y in (*_FLOATS[:6], 1e300, 5e-324, math.inf, math.nan):
            _same(kernel, function, (x, y), f"x = {x}, y = {y}")


def _same(
    kernel: Kernel, function: Callable[..., Any], arguments: Sequence[Any], what: str = ""
) -> None:
    """Call both on copies of the arguments: results and arrays must have equal bits. Where the
    interpreter refuses a number, nothing is compared."""
    ours, theirs = copy.deepcopy(arguments), copy.deepcopy(arguments)
    try:
        expected = kernel.interpret(*ours)
    except KernelArithmeticError:
        return
    found = function(*theirs)
    assert type(found) is type(expected), what
    assert _bits(found) == _bits(expected), what
    assert _contents(theirs) == _contents(ours), what


def _bits(value: Any) -> Any:
    """A number so that equal bits are equal; all NaN are one."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def _contents(values: Any) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, tuple):
            found += _contents(value)
        elif isinstance(value, array):
            found.append([_bits(v) for v in value])
    return found
