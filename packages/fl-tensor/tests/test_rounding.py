"""``round`` to decimals, as NumPy rounds; integers in exact arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.testing import needs

VALUES = [0.0, -0.0, 1.2345, -1.2355, 0.125, 0.375, 2.5, 1234.5678, -98765.4321, 1e-9]


@pytest.mark.defect("item 7")
@needs("float64")
@pytest.mark.parametrize("decimals", [-4, -2, -1, 0, 1, 2, 3, 7])
def test_floats_as_numpy(decimals):
    x = np.array(VALUES)
    for found in (ft.round(x, decimals=decimals), ft.asarray(x).round(decimals)):
        assert found.tolist() == np.round(x, decimals).tolist()


@pytest.mark.defect("item 7")
def test_the_default_dtype_and_complex_numbers():
    x = np.array(VALUES, "float32")
    assert ft.round(x, 2).tolist() == np.round(x, 2).tolist()
    z = ft.asarray([1.255 - 2.745j])
    assert np.allclose(ft.round(z, 1).tolist(), [1.3 - 2.7j])


@pytest.mark.defect("item 7")
def test_half_precision_is_rounded_in_float32():
    x = ft.asarray([1.0039, 40000.0], dtype="float16")
    found = ft.round(x, 3)
    assert found.dtype is ft.float16 and found.tolist() == x.tolist()


@pytest.mark.defect("item 7")
def test_what_overflows_when_scaled_stays():
    found = ft.round([3e38, -3e38, math.inf, math.nan], 3).tolist()
    assert found[0] == -found[1] == ft.asarray(3e38).item()
    assert found[2] == math.inf and math.isnan(found[3])


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integers_stay_integers(dtype):
    x = ft.asarray([0, 14, 15, 25, 35, 149, 150, 151, 250], dtype=dtype)
    assert ft.round(x, 2).tolist() == x.tolist()
    assert ft.round(x, -1).tolist() == [0, 10, 20, 20, 40, 150, 150, 150, 250]
    assert ft.round(x, -2).tolist() == [0, 0, 0, 0, 0, 100, 200, 200, 200]
    assert ft.round(x, -30).tolist() == [0] * 9
    assert ft.round(x, -1).dtype is x.dtype


@pytest.mark.defect("item 7")
def test_negative_integers_round_to_even():
    x = np.array([-5, -15, -25, -26, -149, 2**53 + 5])
    assert ft.round(x, -1).tolist() == [0, -20, -20, -30, -150, 2**53 + 8]


@pytest.mark.defect("item 7")
def test_decimals_beyond_the_dtype_are_refused():
    with pytest.raises(ft.ArgumentError, match="decimals 39: for float32 expected -38 to 38"):
        ft.round([1.0], 39)
    with pytest.raises(ft.DTypeError, match="decimals 1.5: expected an int"):
        ft.round([1.0], 1.5)
