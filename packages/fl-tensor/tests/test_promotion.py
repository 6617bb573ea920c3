"""Promotion is decided once: array API rules, weak Python scalars, integers give way to floats."""

from __future__ import annotations

import pytest

import fl_tensor as ft


@pytest.mark.parametrize(
    ("x", "y", "result"),
    [
        ("int8", "int16", "int16"),
        ("int8", "uint8", "int16"),
        ("int32", "uint32", "int64"),
        ("uint8", "uint32", "uint32"),
        ("int64", "float32", "float32"),
        ("uint8", "float64", "float64"),
        ("bool", "int32", "int32"),
        ("bool", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("float16", "bfloat16", "float32"),
        ("float64", "complex64", "complex128"),
        ("int32", "complex64", "complex64"),
    ],
)
def test_two_dtypes(x, y, result):
    assert ft.promote(ft.dtype(x), ft.dtype(y)).name == result
    assert ft.promote(ft.dtype(y), ft.dtype(x)).name == result


def test_signed_with_uint64_is_refused():
    with pytest.raises(ft.DTypeError, match=r"\[add\] .*no integer dtype holds both"):
        ft.zeros(2, dtype="uint64") + ft.zeros(2, dtype="int64")


@pytest.mark.parametrize(
    ("dtype", "scalar", "result"),
    [
        ("float32", 2, "float32"),
        ("float32", 2.5, "float32"),
        ("float64", 2.5, "float64"),
        ("int8", 2, "int8"),
        ("int8", 2.5, "float32"),
        ("uint8", True, "uint8"),
        ("bool", 2, "int64"),
        ("bool", 0.5, "float32"),
    ],
)
def test_python_scalars_are_weak(dtype, scalar, result):
    x = ft.ones(2, dtype=dtype)
    assert (x + scalar).dtype.name == (scalar + x).dtype.name == result


def test_a_python_integer_that_does_not_fit_is_refused():
    with pytest.raises(ft.DTypeError, match="300 does not fit uint8"):
        ft.ones(2, dtype="uint8") + 300
    with pytest.raises(ft.DTypeError, match="does not fit"):
        ft.ones(2, dtype="uint8")[0] * -1


def test_floating_functions_make_integers_float():
    assert ft.exp(ft.asarray([0, 1])).dtype is ft.float32
    assert (ft.asarray([3]) / 2).tolist() == [1.5]
    assert ft.asarray([1, 2]).mean().dtype is ft.float32
    assert ft.floor(ft.asarray([3])).dtype is ft.int64


def test_integer_sums_are_64_bit():
    x = ft.full((3,), 2**31 - 1, dtype="int32")
    assert (x.sum().dtype, x.sum().item()) == (ft.int64, 3 * (2**31 - 1))
    assert ft.ones(4, dtype="bool").sum().item() == 4
    assert ft.full((2,), 255, dtype="uint8").sum().item() == 510


def test_arithmetic_on_bools_alone_is_refused():
    mask = ft.asarray([True, False])
    with pytest.raises(ft.DTypeError, match=r"\[add\] operands are bool"):
        mask + mask
    assert (~mask & mask | mask).tolist() == [True, False]
    with pytest.raises(ft.DTypeError, match="expected integers or bools"):
        ft.ones(2) & ft.ones(2)


def test_unknown_dtype_names_the_known():
    with pytest.raises(ft.DTypeError, match="float32"):
        ft.zeros(2, dtype="float99")
    with pytest.raises(ft.DTypeError, match="has no dtype bfloat16"):
        ft.zeros(2, dtype="bfloat16")


def test_dtype_reads_what_prints_as_one():
    import numpy as np

    assert (
        ft.dtype(np.float32) is ft.dtype(np.dtype("float32")) is ft.dtype("float32") is ft.float32
    )
    assert (ft.dtype(int), ft.dtype(bool)) == (ft.int64, ft.bool)
