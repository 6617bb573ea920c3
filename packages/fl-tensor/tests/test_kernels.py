"""Kernels: the subset of Python, arguments, results (docs/kernels.md)."""

from __future__ import annotations

import array
import ast
import copy
import inspect
import math
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.kernels import Array, empty
from fl_tensor.testing.kernels.programs import defined

HASH = 0x9E3779B97F4A7C15 - (1 << 64)


@pytest.fixture(autouse=True)
def _interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FL_KERNEL_COMPILER", "interpreter")


class Table(NamedTuple):
    keys: Array[ft.int64]
    values: Array[ft.float32]
    used: int


@ft.kernel
def slot(table: Table, key: int) -> int:
    """Where a key is, or the free place where it belongs."""
    mask = len(table.keys) - 1
    i = ((key * HASH) >> 29) & mask
    while table.keys[i] >= 0 and table.keys[i] != key:
        i = (i + 1) & mask
    return i


@ft.kernel
def insert(table: Table, keys: Array[ft.int32], values: Array[ft.float64]) -> int:
    n = table.used
    for k in range(len(keys)):
        i = slot(table, keys[k])
        if table.keys[i] < 0:
            n += 1
        table.keys[i] = keys[k]
        table.values[i] = values[k]
    return n


@ft.kernel
def log_add(x: Array[ft.float32]) -> float:
    high = -math.inf
    for i in range(len(x)):
        high = max(high, x[i])
    if high == -math.inf:
        return high
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - high)
    return high + math.log(total)


def test_a_kernel_computes_what_the_function_says() -> None:
    table = Table(np.full(16, -1), np.zeros(16, np.float32), 0)
    keys = np.array([3, 8, 3, 11], np.int32)
    assert insert(table, keys, np.array([0.5, 1.5, 2.5, 3.5])) == 3
    found = {k: float(v) for k, v in zip(table.keys.tolist(), table.values) if k >= 0}
    assert found == {3: 2.5, 8: 1.5, 11: 3.5}


def test_arrays_may_be_anything_with_a_buffer_and_tensors() -> None:
    values = [0.0, 1.0, 2.0]
    expected = math.log(sum(map(math.exp, values)))
    made = empty(3, ft.float32)
    made[:] = memoryview(array.array("f", values))
    for x in (np.float32(values), array.array("f", values), made, ft.asarray(values)):
        assert log_add(x) == pytest.approx(expected, abs=1e-12)


def test_results_become_tensors_without_a_copy() -> None:
    made = empty(4, "int64")
    for i in range(4):
        made[i] = i
    x = ft.asarray(made, copy=False)
    assert x.dtype is ft.int64 and x.tolist() == [0, 1, 2, 3]
    assert np.shares_memory(x.numpy(), np.asarray(made))


def test_the_definition_says_what_is_called_read_and_written() -> None:
    definition = insert.definition
    assert definition.callees["slot"] is slot.definition
    assert slot.definition.constants == {"HASH": HASH}
    assert definition.written == {"table.keys", "table.values"}
    assert slot.definition.written == frozenset()
    assert len(definition.digest) == 64


def test_the_interpreter_checks_each_index() -> None:
    with pytest.raises(ft.IndexingError, match=r"keys\[.*has 0 elements"):
        slot.interpret(Table(np.zeros(0, np.int64), np.zeros(0, np.float32), 0), 5)


def test_the_interpreter_checks_integers() -> None:
    with pytest.raises(ft.KernelArithmeticError, match=r"4 // 0: division by zero"):
        arithmetic.interpret(4, 0)
    store = np.zeros(1, np.int8)
    with pytest.raises(ft.KernelArithmeticError, match=r"x\[0\] = 200: the array is int8"):
        put.interpret(store, 200)
    with pytest.raises(ft.IndexingError, match=r"x\[-1\]: the array has 1 elements"):
        put.interpret(store, -1)


@ft.kernel
def arithmetic(a: int, b: int) -> int:
    return a // b


@ft.kernel
def put(x: Array[ft.int8], value: int) -> None:
    x[0 if value > 0 else value] = value


@ft.kernel
def kinds(n: int, x: float, flag: bool) -> float:
    return n + x if flag else -x


def test_numbers_are_converted_as_python_converts_them() -> None:
    assert kinds(np.int32(2), np.float32(0.5), np.bool_(True)) == 2.5
    assert kinds(True, 1, 0) == -1.0
    assert kinds(flag=1, n=2, x=3) == 5.0
    assert kinds(ft.asarray(2), ft.asarray(0.5), True) == 2.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1.5, 0.0, True), ft.DTypeError, r"\[kinds\] parameter 'n' is an int and gets a float"),
        (("1", 0.0, True), ft.DTypeError, "parameter 'n' is an int and gets a str"),
        ((1 << 63, 0.0, True), ft.ArgumentError, "parameter 'n' .* 64 bits"),
        ((1, "0.5", True), ft.DTypeError, "parameter 'x' is a float and gets a str"),
        ((1, None, True), ft.DTypeError, "parameter 'x' is a float and gets a NoneType"),
        ((1, 0.0, 2), ft.ArgumentError, "parameter 'flag' is a bool and gets 2"),
        ((1, 0.0), ft.DTypeError, r"kinds\(n, x, flag\) gets 2 arguments"),
        ((1, 0.0, True, 4), ft.DTypeError, "gets 4 arguments"),
    ],
)
def test_numbers_of_another_kind(arguments: tuple[Any, ...], error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        kinds(*arguments)


def test_keywords_that_are_no_parameters() -> None:
    with pytest.raises(ft.DTypeError, match="no parameter is left for y"):
        kinds(1, 2.0, True, y=3)


class Unit(NamedTuple):
    x: Array[ft.float32]


@ft.kernel
def first(unit: Unit) -> float:
    return unit.x[0]


@ft.kernel
def set_first(unit: Unit, value: float) -> None:
    put_first(unit.x, value)


@ft.kernel
def put_first(x: Array[ft.float32], value: float) -> None:
    x[0] = value


def read_only() -> np.ndarray[Any, Any]:
    x = np.ones(2, np.float32)
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (np.zeros(2), ft.DTypeError, r"'unit.x' is Array\[float32\] and gets float64; .* astype"),
        (ft.zeros(2, "int32"), ft.DTypeError, r"is Array\[float32\] and gets int32"),
        (array.array("d", [1.0]), ft.DTypeError, "gets format 'd'"),
        ([1.0, 2.0], ft.DTypeError, "gets a list: pass an object with a buffer"),
        (3.0, ft.DTypeError, "gets a float: pass an object with a buffer"),
        (np.zeros(4, np.float32)[::2], ft.ArgumentError, "do not lie side by side .*copy it"),
        (np.zeros(9, np.uint8)[1:].view(np.float32), ft.ArgumentError, "no multiple of 4 bytes"),
        (np.zeros(2, ">f4"), ft.DTypeError, "gets >f4"),
    ],
)
def test_arrays_of_another_kind(x: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=rf"\[first\] parameter 'unit', field .*{message}"):
        first(Unit(x))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (read_only(), "is written to, and the buffer is read-only; copy it"),
        (b"12345678", "gets format 'B'"),
        (ft.ones(2), "is written to, and a Tensor is a value; pass an array of fl_tensor.kernels"),
    ],
)
def test_arrays_that_may_not_be_written_to(x: Any, message: str) -> None:
    """That a kernel writes to an array is seen through the kernels that it calls."""
    with pytest.raises((ft.ArgumentError, ft.DTypeError), match=message):
        set_first(Unit(x), 0.5)
    if not isinstance(x, bytes):
        assert first(Unit(x)) == 1.0


def test_records_are_named_tuples_with_the_same_fields() -> None:
    for wrong in ((np.ones(1, np.float32),), Table(np.ones(1), np.ones(1), 1), None):
        with pytest.raises(ft.DTypeError, match=r"'unit' is a Unit\(x\) and gets a"):
            first(wrong)


def test_arrays_of_several_axes_are_read_in_their_order() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert log_add(x) == log_add(x.reshape(-1))
    with pytest.raises(ft.ArgumentError, match="side by side"):
        log_add(x.T)
    assert log_add(ft.asarray(x).T) == pytest.approx(log_add(x))  # a Tensor is a value


def test_arrays_without_elements() -> None:
    for x in (np.zeros(0, np.float32), array.array("f"), empty(0, "float32"), ft.zeros((0,))):
        assert log_add(x) == -math.inf


def test_variables_have_gradients_and_kernels_have_none() -> None:
    class Variable(ft.Array):
        pass

    with pytest.raises(ft.DTypeError, match="kernels have no gradients; pass its Tensor"):
        log_add(object.__new__(Variable))


def test_what_empty_refuses() -> None:
    with pytest.raises(ft.DTypeError, match="expected one of int8"):
        empty(3, ft.float16)
    with pytest.raises(ft.DTypeError, match="n is a float, expected an int"):
        empty(3.0, ft.float32)  # type: ignore[arg-type]
    with pytest.raises(ft.ArgumentError, match="n is -1"):
        empty(-1, ft.float32)


def test_memory_of_results_is_of_the_current_manager() -> None:
    import fl_memory as mem

    before = mem.current().stats().live_bytes
    made = empty(1 << 16, ft.float64)
    assert mem.current().stats().live_bytes >= before + (8 << 16)
    del made
    assert mem.current().stats().live_bytes == before


def test_a_kernel_looks_like_its_function() -> None:
    assert log_add.__name__ == "log_add" and slot.__doc__.startswith("Where a key is")
    assert str(inspect.signature(slot)) == "(table: 'Table', key: 'int') -> 'int'"
    assert repr(slot).startswith("<kernel ") and repr(slot).endswith(".slot>")


def test_all_of_a_tree_has_a_type_and_a_line() -> None:
    import fl_tensor.testing.kernels.cases as cases

    for kernel, _ in cases.CASES.values():
        definition = kernel.definition
        called = {id(n.func) for n in ast.walk(definition.tree) if isinstance(n, ast.Call)}
        called |= {id(n.iter) for n in ast.walk(definition.tree) if isinstance(n, ast.For)}
        for node in ast.walk(definition.tree):
            if isinstance(node, (ast.expr, ast.stmt)):
                assert node.lineno >= definition.line
            if isinstance(node, ast.expr) and id(node) not in called and not is_math(node):
                assert definition.type_of(node)


def is_math(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "math"


def test_digests_follow_what_determines_results() -> None:
    def digest(source: str, **names: Any) -> str:
        return defined(source, **names).definition.digest

    source = "def f(n: int) -> int:\n    return n + K\n"
    same = 'def f(n: int) -> int:\n    """Text."""\n    # more\n    return (n + K)\n'
    assert digest(source, K=1) == digest(same, K=1)
    others = [
        digest(source, K=2),
        digest(source.replace("+", "-"), K=1),
        digest(source.replace("n: int", "n: bool"), K=1),
        digest(source.replace("-> int", "-> float"), K=1),
    ]
    assert len({digest(source, K=1), *others}) == 5
    outer = "def g(n: int) -> int:\n    return f(n)\n"
    versions = [defined(source, K=k) for k in (1, 2)]
    assert digest(outer, f=versions[0]) != digest(outer, f=versions[1])


def test_constants_are_those_of_the_first_use() -> None:
    kernel = defined("def f(n: int) -> int:\n    return n + K\n", K=5)
    assert kernel(1) == 6
    kernel.__wrapped__.__globals__["K"] = 7
    assert kernel(1) == 6
    with pytest.raises(ft.KernelError, match="K, a str of the module"):
        defined("def f(n: int) -> int:\n    return n + K\n", K="x")(1)
    with pytest.raises(ft.KernelError, match="K has more than 64 bits"):
        defined("def f(n: int) -> int:\n    return n + K\n", K=1 << 64)(1)


def test_kernels_may_be_made_in_a_function() -> None:
    step = 3

    class Local(NamedTuple):
        x: Array[ft.int64]

    @ft.kernel
    def jump(local: Local, k: int) -> int:
        return local.x[k] + step

    assert jump(Local(np.arange(4)), 2) == 5


def test_debuggers_stop_at_lines_of_the_source() -> None:
    import sys

    seen = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        if frame.f_code.co_name == "log_add" and event == "line":
            seen.append((frame.f_code.co_filename, frame.f_lineno, dict(frame.f_locals)))
        return trace

    old = sys.gettrace()
    sys.settrace(trace)
    try:
        log_add.interpret(np.float32([1.0, 2.0]))
    finally:
        sys.settrace(old)
    first_line = log_add.definition.line
    assert {file for file, _, _ in seen} == {__file__}
    assert {line - first_line for _, line, _ in seen} == {1, 2, 3, 4, 6, 7, 8, 9}
    assert seen[-1][2]["high"] == 2.0
    assert repr(seen[-1][2]["x"]) == "x: Array[float32]([1.0, 2.0], 2 elements)"


def test_errors_of_the_interpreter_have_the_line_of_the_source() -> None:
    with pytest.raises(ft.IndexingError) as caught:
        first.interpret(Unit(np.zeros(0, np.float32)))
    entry = caught.traceback[-2]
    assert entry.path == Path(__file__) and str(entry.statement).strip() == "return unit.x[0]"


def test_kernels_are_pickled_by_name() -> None:
    import fl_tensor.testing.kernels.cases as cases

    assert pickle.loads(pickle.dumps(cases.loops)) is cases.loops
    assert copy.deepcopy(cases.loops) is cases.loops
