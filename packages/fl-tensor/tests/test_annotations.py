"""Arguments that cannot be what their annotations say are refused, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.annotations import Checked, checked, explained, misfit


@checked
def taking(
    count: int = 0,
    rate: float = 0.0,
    flag: bool = False,
    name: str = "",
    mode: Literal["a", "b"] = "a",
    sizes: int | Sequence[int] = 1,
    maybe: int | None = None,
    dtype: ft.DType | None = None,
    many: Iterable[float] = (),
    named: Mapping[str, int] | None = None,
    function: Callable[..., Any] = print,
    x: ft.Array | None = None,
    anything: Any = None,
) -> None:
    """Takes all kinds."""


@pytest.mark.defect("V18")
@pytest.mark.parametrize(
    "name, value, words",
    [
        ("count", "2", "count '2': expected an int"),
        ("count", 1.5, "expected an int"),
        ("count", True, "expected an int"),
        ("rate", "0.5", "expected a number"),
        ("rate", [0.5], "expected a number"),
        ("flag", 1, "expected True or False"),
        ("name", 3, "expected a string"),
        ("mode", "c", "expected 'a' or 'b'"),
        ("sizes", (1, "2"), "expected an int or several, each an int"),
        ("maybe", "no", "expected an int or None"),
        ("dtype", "float33", "expected a dtype or None"),
        ("many", 3, "expected several"),
        ("named", [1], "expected a mapping or None"),
        ("function", 3, "expected a function"),
        ("x", [1.0], "expected an Array or None"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_expected(name, value, words):
    with pytest.raises(ft.DTypeError, match=rf"\[taking\] {name} .*"):
        taking(**{name: value})
    assert words in misfit(taking, (), {name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"count": np.int64(3), "rate": np.float32(0.5), "flag": np.True_, "maybe": None},
        {"rate": 3, "sizes": [1, 2], "mode": "b", "dtype": "float16", "many": np.ones(3)},
        {"dtype": float, "many": iter([1.0]), "named": {"a": 1}, "function": len},
        {"x": ft.ones(3), "anything": object()},
    ],
)
def test_what_annotations_allow_passes(options):
    taking(**options)


def test_constructors_of_these_packages_are_checked_and_those_of_users_are_not():
    def __init__(self, count: int) -> None:
        self.count = count

    assert type("Mine", (Checked,), {"__init__": __init__})("three").count == "three"
    __init__.__module__ = "fl_mine.module"
    with pytest.raises(ft.DTypeError, match=r"\[Ours\] count 'three': expected an int"):
        type("Ours", (Checked,), {"__init__": __init__})("three")


def test_an_error_of_the_constructor_itself_goes_first():
    def __init__(self, count: int) -> None:
        if not isinstance(count, int):
            raise ft.ArgumentError("count what?")

    __init__.__module__ = "fl_mine.module"
    with pytest.raises(ft.ArgumentError, match="count what"):
        type("Ours", (Checked,), {"__init__": __init__})("three")


def test_errors_that_explain_themselves_are_left_alone():
    @explained
    def failing(x: ft.Array) -> Any:
        return x.shape, {}["missing"] if x is None else ft.ones((2, 3)) @ x

    with pytest.raises(ft.DTypeError, match=r"\[failing\] x 'text': expected an Array"):
        failing("text")
    with pytest.raises(ft.ShapeError, match="matmul"):
        failing(ft.ones((2, 3)))


def test_a_python_error_that_the_arguments_do_not_explain_stays_one():
    @explained
    def failing(x: int) -> Any:
        return [].index(x)

    with pytest.raises(ValueError, match="not in list"):
        failing(3)
