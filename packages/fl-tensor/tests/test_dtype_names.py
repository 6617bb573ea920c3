"""What may stand for a dtype, what a dtype equals, and which dtype numbers of others come with."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor import dtypes

N7 = pytest.mark.defect("N7")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (bool, "bool"),
        (int, "int64"),
        pytest.param(float, "float64", marks=N7),
        pytest.param(complex, "complex128", marks=N7),
    ],
)
def test_python_classes_are_the_dtypes_that_numpy_reads_them_as(given: Any, name: str) -> None:
    x = ft.ones(3)
    assert np.dtype(given).name == name
    assert ft.dtype(given) is ft.dtype(name)
    for made in (
        x.astype(given),
        x.to(given),
        ft.zeros(3, dtype=given),
        ft.full(3, 1, given),
        ft.zeros_like(x, given),
        ft.asarray([0, 1], dtype=given),
        ft.array_api.ones(3, dtype=given),
        ft.sum(x, dtype=given) if given is not bool else x.astype(given),
    ):
        assert made.dtype is ft.dtype(name)


@N7
def test_limits_and_promotion_take_python_classes_too() -> None:
    assert ft.finfo(float).bits == ft.finfo(np.float64).bits == 64
    assert ft.promote(float, ft.float32) is ft.float64
    assert ft.randn(2, dtype=float).dtype is ft.float64


def test_python_numbers_keep_their_default_dtypes() -> None:
    for value, dtype in ((True, ft.bool), (1, ft.int64), (1.5, ft.float32), (1j, ft.complex64)):
        for made in (ft.asarray(value), ft.asarray([value]), ft.full(2, value)):
            assert made.dtype is dtype
    assert ft.linspace(0, 1, 3).dtype is ft.float32
    assert (ft.ones(2, dtype="int32") * 1.5).dtype is ft.float32
    assert ft.where(ft.asarray([True]), 1.5, 2.5).dtype is ft.float32


@N7
def test_a_backend_without_float64_says_so() -> None:
    class Narrow(type(ft.get_backend("numpy"))):  # type: ignore[misc]
        CONTRACT = (1, 1)
        dtypes = dtypes.REQUIRED

    with ft.use(Narrow), pytest.raises(ft.DTypeError, match="no dtype float64; it has"):
        ft.zeros(3, dtype=float)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        pytest.param([np.float64(1.5)], "float64", marks=N7),
        pytest.param([[np.float64(1.5), 2]], "float64", marks=N7),
        pytest.param([1, np.float64(1.5)], "float64", marks=N7),
        pytest.param([[np.int32(3)], [2]], "int32", marks=N7),
        pytest.param([[np.int8(3), np.int16(4)]], "int16", marks=N7),
        pytest.param([[np.int32(3), np.float64(1.5)]], "float64", marks=N7),
        pytest.param([[np.complex128(1j)]], "complex128", marks=N7),
        pytest.param([[np.array(1.5)]], "float64", marks=N7),
        pytest.param([[ft.zeros((), "float16")]], "float16", marks=N7),
        ([[np.uint8(3), 1.5]], "float32"),
        ([[np.bool_(True)]], "bool"),
    ],
    ids=str,
)
def test_scalars_of_other_libraries_keep_their_dtype(given: Any, name: str) -> None:
    found = ft.asarray(given)
    assert found.dtype is ft.dtype(name)
    np.testing.assert_array_equal(found.numpy(), np.asarray(given).astype(name))


def test_a_long_list_of_scalars_is_read_as_numbers() -> None:
    values = [np.float32(i) for i in range(1000)]
    with ft.count() as counted:
        found = ft.asarray(values)
    assert found.dtype is ft.float32
    assert found.tolist() == list(range(1000))
    assert counted.total == 1, "one transfer, and no array for each"


@pytest.mark.defect("N9")
@pytest.mark.parametrize("dtype", dtypes.ALL.values(), ids=str)
def test_a_dtype_equals_its_name_and_what_numpy_calls_so(dtype: ft.DType) -> None:
    assert dtype == dtype.name
    assert dtype.name == dtype
    theirs = np.dtype(dtype)
    assert theirs.name == dtype.name
    assert np.zeros(2, dtype).dtype == theirs
    for same in (theirs, theirs.type):
        assert dtype == same
        assert same == dtype
        assert not dtype != same
    others = [d for d in dtypes.ALL.values() if d is not dtype]
    for other in (*others, *(d.name for d in others), *(np.dtype(d) for d in others), None, 3, ""):
        assert dtype != other
        assert not dtype == other


@pytest.mark.defect("N9")
def test_an_array_has_the_dtype_that_it_was_asked_for() -> None:
    x = ft.ones(2, dtype=float)
    assert x.dtype == np.float64 and x.dtype == "float64" and x.dtype == float
    assert x.dtype in (np.float32, np.float64)
    assert np.ones(2).dtype == x.dtype
    assert x.dtype != np.dtype("float64").newbyteorder(), "a foreign order of bytes"


def test_sets_and_dictionaries_of_dtypes_hold_dtypes() -> None:
    assert ft.float32 in {ft.float32, ft.int64}
    assert {d: d.name for d in dtypes.ALL.values()}[ft.int8] == "int8"
    assert len({*dtypes.ALL.values(), *map(ft.dtype, dtypes.ALL)}) == len(dtypes.ALL)
    assert pickle.loads(pickle.dumps(ft.float32)) is ft.float32
