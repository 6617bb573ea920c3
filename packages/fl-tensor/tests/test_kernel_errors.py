"""What is not in the subset of kernels: errors that name the file, the line, and the way out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_tensor.testing.kernels.programs import defined


class Pair(NamedTuple):
    x: Array[ft.float32]
    n: int


class Odd(NamedTuple):
    words: str


@ft.kernel
def clear(x: Array[ft.float32]) -> None:
    for i in range(len(x)):
        x[i] = 0


@ft.kernel
def half(n: int) -> float:
    return n / 2


def plain(n: int) -> int:
    return n


def kernel_of(body: str, head: str = "n: int, x: Array[ft.float32], p: Pair") -> Any:
    lines = [f"def f({head}):", *(f"    {line}" for line in body.split("\n")), ""]
    names: dict[str, Any] = {"Pair": Pair, "Odd": Odd, "clear": clear, "half": half, "math": math}
    return defined("\n".join(lines), **names, plain=staticmethod(plain).__func__)


#: A body, and what the error says of its last line.
REFUSED = [
    ("y = [1, 2]", "a list .* made by fl_tensor.kernels.empty"),
    ("y = (1, 2)", "a tuple .* several variables"),
    ("y = 'a'", "the value 'a' .* int, float and bool"),
    ("y = f'{n}'", "a string"),
    ("y = {n: 1}", "a dictionary"),
    ("y = [k for k in range(n)]", "a comprehension .* a loop"),
    ("y = (lambda: 1)()", "a call of"),
    ("y = n ** 2", "the operator of n \\*\\* 2"),
    ("y = x @ x", "the operator of x @ x .* a loop"),
    ("y = n is n", "the comparison n is n"),
    ("y = 3 in x", "the comparison 3 in x"),
    ("y = x[0:2]", "a slice .* first index"),
    ("y = x[0, 1]", "x\\[i, j\\]"),
    ("y = x[-1]", "a negative index .* x\\[len\\(x\\) - 1\\]"),
    ("y = x.size", ".size of Array\\[float32\\] .* len\\(x\\)"),
    ("y = math.sin(1.0)", "math.sin .* exp, log, log1p, sqrt"),
    ("y = math.gcd", "math.gcd as a number"),
    ("y = sum(x)", "a call of sum"),
    ("y = plain(n)", "plain, which is no kernel, .*@ft.kernel"),
    ("y = half(n=n)", "an argument by keyword"),
    ("y = (z := 3)", ":= .* assignment before"),
    ("a, b = n, n", "several variables"),
    ("a = b = n", "several targets"),
    ("p.n = 3", "an assignment to p.n"),
    ("x[half(0)] += 1.0", "a call in the index"),
    ("for v in x:\n    n += 1", "a loop over x .* range"),
    ("for i in range(n):\n    n += 1\nelse:\n    n = 0", "else of a loop"),
    ("assert n", "assert .* return a number"),
    ("raise ValueError", "raise"),
    ("try:\n    n = 1\nexcept ValueError:\n    n = 2", "try .* no exceptions"),
    ("with x:\n    n = 1", "with"),
    ("import os", "import"),
    ("global n2\nn2 = 1", "global .* array with one element"),
    ("del n", "del"),
    ("def g(): pass", "a function in a function"),
    ("match n:\n    case 1:\n        n = 2", "the statement Match"),
    ("y = clear", "clear, a Kernel of the module"),
    ("if n:\n    y = p.x\n    n = y[0]", "the array 'y' assigned"),
    ("x = p.x", "the array 'x' assigned"),
]

#: A body, and what is wrong with types or names in it.
WRONG = [
    ("y = 0\ny += 0.5", "'y' is int and gets float: .*y = 0.0"),
    ("y = n > 1\ny = 3", "'y' is bool and gets int: .* bool\\(...\\)"),
    ("if n:\n    y = 1\nn = y", "'y' may have no value here"),
    ("for i in range(n):\n    y = i\nn = y", "'y' may have no value here"),
    ("for i in range(n):\n    pass\nn = i", "'i' may have no value here"),
    ("while n > 0:\n    y = 1\n    if y:\n        break\nn = y", "'y' may have no value"),
    ("y = z", "there is no 'z'"),
    ("y = n + x", "x is Array\\[float32\\], where a number is expected"),
    ("y = x[0.5]", "an index is int and gets float"),
    ("y = n[0]", "n is int: only arrays"),
    ("y = 1.5 // n", "1.5 // n is for ints only"),
    ("y = 1.5 % 1.0", "is for ints only"),
    ("y = ~0.5", "~ of a float"),
    ("y = 1.0 << 2", "is for ints only"),
    ("y = p.z", "Pair has no field 'z': x, n"),
    ("y = len(n)", "only arrays have a length"),
    ("y = len(p)", "len of Pair"),
    ("y = min(n)", "min takes two or more"),
    ("y = abs(n, n)", "abs takes one"),
    ("y = math.exp(1.0, 2.0)", "math.exp takes one number"),
    ("y = half(n, n)", "half\\(n: int\\) gets 2 arguments"),
    ("y = half(1.5)", "parameter 'n' of half is int and gets float"),
    ("clear(p)", "'x' of clear is Array\\[float32\\] and gets Pair"),
    ("y = clear(x)", "clear has no result"),
    ("n + 1", "this value is not used"),
    ("return n", "the function has no type of a result"),
    ("y = 36893488147419103232", "more than 64 bits"),
    ("for i in range(0, 9, 0):\n    pass", "the step of range"),
    ("for i in range(0, 9, n):\n    pass", "the step of range"),
    ("for i in range(2.0):\n    pass", "a bound of range is int and gets float"),
    ("for i in range():\n    pass", "range takes one to three"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=[b for b, _ in REFUSED])
def test_outside_the_subset(body: str, message: str) -> None:
    with pytest.raises(ft.KernelError, match=message) as caught:
        _ = kernel_of(body).definition
    assert " is not in the subset of Python that kernels have: " in str(caught.value)


@pytest.mark.parametrize(("body", "message"), WRONG, ids=[b for b, _ in WRONG])
def test_types_and_names(body: str, message: str) -> None:
    with pytest.raises(ft.KernelError, match=message):
        _ = kernel_of(body).definition


def test_an_error_shows_file_line_and_source() -> None:
    kernel = kernel_of("n += 1\ny = [n]")
    with pytest.raises(ft.KernelError) as caught:
        kernel(1, None, None)
    text = str(caught.value)
    file = kernel.__wrapped__.__code__.co_filename
    assert text.startswith(f"[kernel f] {file}:3: a list is not in the subset")
    assert text.endswith("\n    y = [n]")
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ft.FlError)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("n", "parameter 'n' has no type .* annotate it"),
        ("n: str", "parameter 'n' is <class 'str'>; parameters are int, float"),
        ("n: list[int]", "parameter 'n' is list\\[int\\]"),
        ("n: Nothing", "annotation Nothing means nothing: name 'Nothing'"),
        ("n: int = 3", "a default of a parameter"),
        ("*n: int", "\\*args"),
        ("n: Odd", "field 'words' of Odd is <class 'str'>"),
    ],
)
def test_parameters(head: str, message: str) -> None:
    with pytest.raises(ft.KernelError, match=message):
        _ = kernel_of("pass", head).definition


@pytest.mark.parametrize("result", ["str", "Array[ft.float32]", "Pair"])
def test_results_are_numbers(result: str) -> None:
    kernel = defined(f"def f(n: int) -> {result}:\n    return n\n", Pair=Pair)
    with pytest.raises(ft.KernelError, match="return int, float, bool or None"):
        _ = kernel.definition


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if n:\n        return 1", "it can end without a result; return int"),
        ("while n > 0:\n        return 1", "it can end without a result"),
        ("while True:\n        break", "it can end without a result"),
        ("return", "the function has -> int"),
        ("return 1.5", "the result is int and gets float: convert by int"),
    ],
)
def test_every_way_ends_with_a_result(body: str, message: str) -> None:
    kernel = defined(f"def f(n: int) -> int:\n    {body}\n")
    with pytest.raises(ft.KernelError, match=message):
        _ = kernel.definition


def test_ways_that_do_not_arrive_need_no_value() -> None:
    source = (
        "def f(n: int) -> int:\n"
        "    if n > 3:\n        y = 1\n    elif n > 2:\n        return 0\n"
        "    else:\n        y = 2\n"
        "    while True:\n        z = n\n        if z > 5:\n            break\n        n += 1\n"
        "    if z == y:\n        return z\n    else:\n        return -z\n"
    )
    assert defined(source).interpret(4) == -6


def test_recursion_is_refused() -> None:
    even = defined("def even(n: int) -> int:\n    return odd(n - 1)\n")
    odd = defined("def odd(n: int) -> int:\n    return even(n - 1)\n", even=even)
    even.__wrapped__.__globals__["odd"] = odd
    with pytest.raises(ft.KernelError, match="it calls itself, perhaps through another"):
        _ = even.definition


def test_dtypes_that_arrays_cannot_have() -> None:
    for dtype in (ft.bool, ft.float16, ft.complex64, "bfloat16"):
        with pytest.raises(ft.DTypeError, match="expected one of int8"):
            Array[dtype]


def test_what_is_no_function() -> None:
    with pytest.raises(ft.DTypeError, match="it decorates a function"):
        ft.kernel(3)  # type: ignore[arg-type]
    with pytest.raises(ft.KernelError, match="a function defined by `def` cannot be read"):
        _ = ft.kernel(lambda n: n).definition
    scope: dict[str, Any] = {}
    exec("def f(n: int) -> int:\n    return n\n", scope)
    with pytest.raises(ft.KernelError, match="in a file or a notebook"):
        _ = ft.kernel(scope["f"]).definition
