"""Promotion is decided once: array API rules, weak Python scalars, integers give way to floats."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_tensor import contract


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


def test_dtype_reads_what_prints_as_one():
    import numpy as np

    assert (
        ft.dtype(np.float32) is ft.dtype(np.dtype("float32")) is ft.dtype("float32") is ft.float32
    )
    assert (ft.dtype(int), ft.dtype(bool)) == (ft.int64, ft.bool)


def array_functions(count):
    """Names of the public functions that take ``count`` arrays and nothing else."""
    for op in contract.OPERATIONS:
        arrays = [p for p in op.parameters if contract.role(p) and not contract.is_sequence(p)]
        if len(arrays) == len(op.parameters) == count and hasattr(ft, op.name):
            yield op.name


#: Python scalars that leave an array of that kind its dtype.
NUMBERS = {"b": [True], "u": [True, 1], "i": [True, 1], "f": [True, 1, 1.0]}
UNARY, BINARY = sorted(array_functions(1)), sorted(array_functions(2))


def result(name, *operands):
    """Dtype and values of a public function, or that it refuses the operands' dtype."""
    try:
        y = getattr(ft, name)(*operands)
    except ft.DTypeError:
        return "refused"
    y = y if isinstance(y, tuple) else (y,)
    return [(part.dtype.name, part.tolist()) for part in y]


def test_the_functions_are_all_found():
    assert {"exp", "logical_not", "nonzero"} <= set(UNARY)
    assert {"add", "logical_and", "dot", "hypot", "embedding"} <= set(BINARY)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array_take_lists_and_arrays_alike(name, dtype):
    x = ft.asarray([1, 0, 1], dtype=dtype)
    found = result(name, x)
    if dtype in ("bool", "int64", "float32"):
        assert repr(result(name, x.tolist())) == repr(found)
    if dtype.startswith("float"):
        assert found == "refused" or found[0][0] in (dtype, "bool", "int64")


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("name", sorted(set(BINARY) - {"dot", "outer", "matmul", "embedding"}))
def test_functions_of_two_arrays_take_numbers_on_either_side(name, dtype):
    x = ft.asarray([1, 0, 1], dtype=dtype)
    ones = ft.ones((), dtype=dtype)
    for one in NUMBERS[x.dtype.kind]:
        assert repr(result(name, x, one)) == repr(result(name, x, ones)), "right"
        assert repr(result(name, one, x)) == repr(result(name, ones, x)), "left"
    assert repr(result(name, x, x)) == repr(result(name, x, x.numpy()))
