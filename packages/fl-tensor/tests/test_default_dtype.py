"""`ft.set_default_dtype`, `ft.default_dtype`: what floats are that say nothing of their dtype."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft

pytestmark = pytest.mark.defect("N36")

counts = ft.asarray([1, 2, 3])
#: What follows the default, made anew at each call.
FOLLOWS: dict[str, Callable[[], Any]] = {
    "asarray": lambda: ft.asarray(1.5),
    "asarray of lists": lambda: ft.asarray([[1, 2.5], [3, 4]]),
    "asarray of nothing": lambda: ft.asarray([]),
    "zeros": lambda: ft.zeros(3),
    "ones": lambda: ft.ones((2, 2)),
    "empty": lambda: ft.empty(3),
    "full": lambda: ft.full(3, 0.5),
    "eye": lambda: ft.eye(3),
    "arange": lambda: ft.arange(0.0, 1.0, 0.25),
    "linspace": lambda: ft.linspace(0, 1, 5),
    "a long linspace": lambda: ft.linspace(0, 1, 10000),
    "logspace": lambda: ft.logspace(0, 1, 5),
    "geomspace": lambda: ft.geomspace(1, 10, 5),
    "randn": lambda: ft.randn(3),
    "rand": lambda: ft.rand(3),
    "Generator.uniform": lambda: ft.Generator(0).uniform((3,)),
    "Generator.truncated_normal": lambda: ft.Generator(0).truncated_normal((3,)),
    "one_hot": lambda: ft.one_hot(counts, 4),
    "fftfreq": lambda: ft.fft.fftfreq(4),
    "int / int": lambda: counts / counts,
    "int * float": lambda: counts * 0.5,
    "float - bool": lambda: 0.5 - (counts > 1),
    "a function of ints": lambda: ft.sqrt(counts),
    "mean of ints": lambda: counts.mean(),
    "median of ints": lambda: ft.median(counts),
    "quantile of ints": lambda: ft.quantile(counts, 0.5),
    "edges of a histogram of ints": lambda: ft.histogram(counts, 2)[1],
    "stacked floats": lambda: ft.stack([0.5, 1.5]),
    "where": lambda: ft.where(counts > 1, 0.5, 1.5),
}


@pytest.mark.parametrize("name", FOLLOWS)
def test_new_floats_follow_the_default(name: str) -> None:
    for dtype in ("float64", "float32", "float16"):
        with ft.default_dtype(dtype):
            assert FOLLOWS[name]().dtype == dtype
    assert FOLLOWS[name]().dtype is ft.float32


def test_the_values_have_its_precision() -> None:
    with ft.default_dtype("float64"):
        assert ft.asarray(0.1).item() == 0.1
        assert (counts / 3).tolist() == [1 / 3, 2 / 3, 1.0]
        np.testing.assert_allclose(ft.linspace(0, 1, 7).numpy(), np.linspace(0, 1, 7), 1e-15)


def test_complex_numbers_go_with_it() -> None:
    for dtype, other in (
        ("float64", "complex128"),
        ("float32", "complex64"),
        ("float16", "complex64"),
    ):
        with ft.default_dtype(dtype):
            made = (ft.asarray(1j), ft.linspace(0, 1j, 3), counts * 1j, ft.asarray([1, 2j]))
            assert [x.dtype for x in made] == [other] * 4
    assert ft.asarray(1j).dtype is ft.complex64


def test_arrays_keep_their_dtype_and_numbers_are_weak_beside_them() -> None:
    single, foreign = ft.ones(2), np.ones(2, "float32")
    with ft.default_dtype("float64"):
        for x in (single + 0.5, ft.sqrt(single), single * counts[:2], ft.asarray(foreign) / 3):
            assert x.dtype is ft.float32
        assert (single * 1j).dtype is ft.complex64
        assert (single + ft.asarray(0.5)).dtype is ft.float64  # an array is not a number
        assert ft.asarray([np.float32(0.5), 1.5]).dtype is ft.float32
        assert ft.zeros_like(single).dtype is ft.float32
        assert ft.asarray([1, 2]).dtype is ft.int64


def test_python_classes_as_dtypes_do_not_depend_on_it() -> None:
    with ft.default_dtype("float16"):
        assert ft.zeros(2, dtype=float).dtype is ft.float64
        assert ft.zeros(2, dtype=complex).dtype is ft.complex128


def test_the_standard_namespace_says_what_holds() -> None:
    info = ft.asarray(1.0).__array_namespace__().__array_namespace_info__()
    with ft.default_dtype("float64"):
        found = info.default_dtypes()
        assert (found["real floating"], found["complex floating"]) == (ft.float64, ft.complex128)
    assert info.default_dtypes()["real floating"] is ft.float32


def in_a_thread(function: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_a_context_has_its_own_default() -> None:
    with ft.default_dtype("float64") as inside:
        assert inside is ft.get_default_dtype() is ft.float64
        with ft.default_dtype(ft.float16):
            assert ft.get_default_dtype() is ft.float16
        assert ft.get_default_dtype() is ft.float64
        assert in_a_thread(ft.get_default_dtype) is ft.float32
        copied = contextvars.copy_context()
        assert in_a_thread(lambda: copied.run(ft.get_default_dtype)) is ft.float64
    with pytest.raises(ZeroDivisionError), ft.default_dtype("float64"):
        raise ZeroDivisionError
    assert ft.get_default_dtype() is ft.float32


def test_the_process_has_one_for_all_threads() -> None:
    ft.set_default_dtype("float64")
    try:
        assert in_a_thread(lambda: ft.zeros(1).dtype) is ft.float64
        with ft.default_dtype("float32"):
            ft.set_default_dtype("float16")
            assert ft.get_default_dtype() is ft.float32
        assert ft.get_default_dtype() is ft.float16
    finally:
        ft.set_default_dtype("float32")


@pytest.mark.parametrize("dtype", ["int64", "complex64", "bool", "float8", 3, None])
def test_only_floating_dtypes_can_be_the_default(dtype: Any) -> None:
    for setting in (ft.set_default_dtype, ft.default_dtype):
        with pytest.raises(ft.DTypeError, match="floating dtype|unknown dtype"):
            setting(dtype)
    assert ft.get_default_dtype() is ft.float32
