"""Printing by NumPy's rules, `ft.set_printoptions`, and the HTML of notebooks."""

from __future__ import annotations

import math
import threading
from html import unescape
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.arrays.display import ends

pytestmark = pytest.mark.defect("N34")

DTYPES = ("float32", "float64", "float16", "int64", "uint8", "bool", "complex64", "complex128")
SHAPES = (
    (),
    (1,),
    (7,),
    (0,),
    (2, 0),
    (3, 4),
    (2, 3, 4),
    (2, 1, 2, 3),
    (1500,),
    (40, 30),
    (7, 8, 60),
)


def random_array(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    values: Any = rng.standard_normal(shape) * 10.0 ** rng.integers(
        -6, 7 if dtype != "float16" else 4
    )
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    if dtype in ("float32", "float64") and rng.random() < 0.3:
        odd = rng.choice([np.nan, np.inf, -np.inf])
        values = np.where(rng.random(shape) < 0.2, odd, values)
    return np.asarray(np.clip(values, 0, 255) if dtype == "uint8" else values).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_print_as_numpy_prints_them(dtype: str) -> None:
    rng = np.random.default_rng(34)
    for shape in SHAPES * 3:
        array = random_array(rng, dtype, shape)
        x = ft.asarray(array)
        assert str(x) == f"{x}" == str(array)
        values = np.array2string(array, separator=", ", prefix="Tensor(")
        assert repr(x).startswith(f"Tensor({values},")


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 3},
        {"suppress": True, "precision": 4},
        {"threshold": 10, "edgeitems": 1},
        {"threshold": math.inf},
        {"linewidth": 40, "sign": "+"},
        {"floatmode": "fixed", "nanstr": "missing", "infstr": "huge"},
    ],
)
def test_options_mean_what_they_mean_in_numpy(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(35)
    for shape in SHAPES:
        array = random_array(rng, "float64", shape)
        with ft.printoptions(**options), np.printoptions(**options):
            assert str(ft.asarray(array)) == str(array)


def test_repr_ends_with_shape_dtype_and_backend() -> None:
    x = ft.asarray([[1.0, 2.5]], backend="numpy")
    assert str(x) == "[[1.  2.5]]"
    assert repr(x) == "Tensor([[1. , 2.5]], shape=(1, 2), dtype=float32, backend=numpy)"
    assert repr(x[0, 1]) == "Tensor(2.5, shape=(), dtype=float32, backend=numpy)"
    long = repr(ft.ones(30, backend="numpy"))
    assert long.endswith("],\n       shape=(30,), dtype=float32, backend=numpy)")
    assert max(map(len, long.splitlines())) <= 75
    with ft.printoptions(linewidth=200):
        assert "\n" not in repr(ft.ones(20))


def test_small_differences_show() -> None:
    assert str(ft.asarray([1 + 1e-7], dtype="float64")) == "[1.0000001]"
    assert str(ft.asarray(math.log(2), dtype="float64")) == "0.6931471805599453"


@pytest.mark.parametrize(
    "options",
    [{"precision": 2}, {"legacy": "1.13"}, {"formatter": {"all": lambda x: "?"}}, {"sign": "+"}],
)
def test_numpys_own_options_do_not_reach_tensors(options: dict[str, Any]) -> None:
    x = ft.asarray([math.pi, 1e9], dtype="float64", backend="numpy")
    shown = [str(x), repr(x), x._repr_html_()]
    with np.printoptions(**options):
        assert [str(x), repr(x), x._repr_html_()] == shown


def test_what_is_set_inside_a_block_ends_with_it_as_in_numpy() -> None:
    for library in (ft, np):
        before = library.get_printoptions()
        with library.printoptions(suppress=True):
            library.set_printoptions(precision=2)
            with library.printoptions(edgeitems=1):
                library.set_printoptions(precision=4)
                assert library.get_printoptions()["precision"] == 4
            inside = library.get_printoptions()
            assert (inside["precision"], inside["suppress"], inside["edgeitems"]) == (2, True, 3)
        assert library.get_printoptions() == before


def test_half_precision_of_bfloat16_is_aligned() -> None:
    x = ft.asarray([0.5, -2.0], dtype="bfloat16", backend="numpy")
    assert str(x) == "[ 0.5 -2. ]"
    assert "dtype=bfloat16" in repr(x)


def test_without_values_the_description_is_printed() -> None:
    x = ft.zeros((2, 3), backend="null")
    assert str(x) == repr(x) == "Tensor(shape=(2, 3), dtype=float32, backend=null)"
    assert x._repr_html_() == "<div>Tensor: shape (2, 3), dtype float32, backend null</div>"


def test_a_summary_needs_the_ends_alone() -> None:
    """So only these are copied from a device."""
    rng = np.random.default_rng(36)
    for shape in ((2000,), (300, 5), (9, 10, 30)):
        array = rng.standard_normal(shape)
        shortened = ends(ft.asarray(array), 3)
        assert max(shortened.shape) == 7
        with ft.printoptions(threshold=0):
            assert str(shortened) == str(array)


def test_options_of_a_context_end_with_it_and_stay_in_it() -> None:
    x, before = ft.asarray([math.pi]), ft.get_printoptions()
    with ft.printoptions(precision=2):
        assert ft.get_printoptions() == {**before, "precision": 2}
        with ft.printoptions(edgeitems=1):
            assert ft.get_printoptions() == {**before, "precision": 2, "edgeitems": 1}
        assert str(x) == "[3.14]"
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append(str(x)))
        thread.start()
        thread.join()
        assert found == ["[3.1415927]"]
    assert ft.get_printoptions() == before


def test_options_of_the_process_hold_in_every_thread() -> None:
    before, found = ft.get_printoptions(), []
    ft.set_printoptions(precision=1)
    try:
        thread = threading.Thread(target=lambda: found.append(str(ft.asarray([math.pi]))))
        thread.start()
        thread.join()
    finally:
        ft.set_printoptions(**before)
    assert found == ["[3.1]"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": 3}, "no option 'digits'"),
        ({"precision": -1}, "precision -1: expected 0 or more"),
        ({"precision": 2.5}, "precision 2.5: expected an int"),
        ({"edgeitems": 0}, "edgeitems 0: expected 1 or more"),
        ({"sign": "*"}, "sign '\\*': expected"),
        ({"suppress": 1}, "suppress 1: expected True or False"),
        ({"nanstr": 0}, "nanstr 0: expected a string"),
    ],
)
def test_wrong_options_are_refused_and_change_nothing(options: Any, message: str) -> None:
    before = ft.get_printoptions()
    with pytest.raises(ft.FlError, match=message):
        ft.set_printoptions(**{"threshold": 5, **options})
    assert ft.get_printoptions() == before


def test_notebooks_show_a_table() -> None:
    shown = ft.asarray([[1.0, -2.5], [10.0, 0.0]], backend="numpy")._repr_html_()
    assert shown == (
        "<div>Tensor: shape (2, 2), dtype float32, backend numpy</div><table>"
        "<tr><td>1.</td><td>-2.5</td></tr><tr><td>10.</td><td>0.</td></tr></table>"
    )
    assert "<td>1. +2.j</td><td>3.+10.j</td>" in ft.asarray([1 + 2j, 3 + 10j])._repr_html_()


def test_tables_are_short_and_other_arrays_are_text() -> None:
    rows = ft.ones((50, 60))._repr_html_().split("<tr>")[1:]
    assert [row.count("<td>") for row in rows] == [7, 7, 7, 1, 7, 7, 7]
    cube = ft.arange(24).reshape(2, 3, 4)
    assert unescape(cube._repr_html_()).endswith(f"<pre>{cube}</pre>")
    assert ft.asarray(1.5)._repr_html_().endswith("<pre>1.5</pre>")
