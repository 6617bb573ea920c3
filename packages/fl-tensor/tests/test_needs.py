"""`fl_tensor.testing.needs`: tests that say what they ask of the default backend."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.testing import needs


class Small(NumpyBackend):
    CONTRACT = (1, 0)
    name = "small"
    dtypes = frozenset({ft.bool, ft.int32, ft.int64, ft.float32})
    capabilities = frozenset({"memory"})


def test_what_is_missing_is_the_reason_to_skip():
    with ft.use(Small):
        mark = needs("float32", "float64", "memory", "linalg").mark
    assert mark.args == (True,)
    assert mark.kwargs["reason"] == "backend 'small' has no float64, linalg"


def test_nothing_is_skipped_where_all_is_there():
    with ft.use("numpy"):
        assert needs("float16", "complex64", "fft").mark.args == (False,)
        assert needs().mark.args == (False,)


def test_a_name_that_is_neither_dtype_nor_capability_is_an_error():
    with pytest.raises(ft.DTypeError, match="float15"):
        needs("float15")
