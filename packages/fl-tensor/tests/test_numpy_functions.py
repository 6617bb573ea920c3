"""NumPy's functions under their own names: equal to NumPy on random calls."""

from __future__ import annotations

import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft

sys.path.insert(0, str(Path(__file__).parent))
from numpy_calls import CALLS, Draw

#: NumPy writes into the first operand of these; here the result is a new array.
WRITING = {"fill_diagonal", "place", "put", "put_along_axis", "putmask"}
#: Compared in a test of its own.
APART = {"argpartition", "partition", "polyfit", "roots"}


def converted(x: Any) -> Any:
    """The arguments with tensors for NumPy's arrays."""
    if isinstance(x, np.ndarray):
        return ft.asarray(x)
    if isinstance(x, (list, tuple)):
        return type(x)(converted(each) for each in x)
    return x


def by_numpy(name: str, *args: Any, **options: Any) -> Any:
    if name not in WRITING:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return getattr(np, name)(*args, **options)
    written = args[0].copy()
    getattr(np, name)(written, *args[1:], **options)
    return written


def check_equal(found: Any, wanted: Any) -> None:
    """The same structure, shapes, kinds of dtype and numbers."""
    if isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted):
            check_equal(one, other)
        return
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype.kind == wanted.dtype.kind
    single = found.dtype in (np.float32, np.complex64) and wanted.dtype != found.dtype
    rtol, atol = (1e-5, 1e-6) if single else (1e-9, 1e-10)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_is_numpys(name, installed_backend):
    count = 50 if installed_backend == "numpy" else 3
    with ft.use(installed_backend):
        for i in range(count):
            arguments = CALLS[name](Draw(zlib.crc32(name.encode()) + i))
            *args, options = arguments if isinstance(arguments[-1], dict) else (*arguments, {})
            kept = converted(args)
            found = getattr(ft, name)(*converted(args), **options)
            try:
                check_equal(found, by_numpy(name, *args, **options))
            except Exception as error:
                raise AssertionError(f"{name}(*{args}, **{options}): {error}") from error
            if name in WRITING:
                check_equal(kept[0], args[0])
