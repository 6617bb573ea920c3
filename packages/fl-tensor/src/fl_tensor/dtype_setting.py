"""The dtype of floats that say nothing of theirs: ``ft.set_default_dtype`` and its kind.

It is the dtype of Python floats that become arrays (``ft.asarray(1.5)``), of new arrays
(``ft.zeros``, ``ft.randn``, parameters of modules), and of results in floating numbers of integers
alone (``ft.sqrt(2 * n)``, ``n / 3``, ``n.mean()``). The default complex dtype goes with it:
complex128 beside float64, else complex64. Arrays that exist, and arrays of other libraries, keep
their dtype: beside them Python's numbers are weak, whatever the default.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

__all__ = ["default_dtype", "get_default_dtype", "set_default_dtype"]


def get_default_dtype() -> DType:
    """The default floating dtype that holds here: float32 unless another was set."""
    return dtypes.default_float()


def set_default_dtype(dtype: DType | str | type[Any]) -> None:
    """Make a floating dtype the default of the process, in all its threads. Raises DTypeError for
    any other dtype."""
    dtypes.DEFAULT_SETTING.set(_floating("set_default_dtype", dtype))


def default_dtype(dtype: DType | str | type[Any]) -> AbstractContextManager[DType]:
    """``with ft.default_dtype("float64"):`` another default for this context, until the block ends.
    Raises DTypeError for what is no floating dtype."""
    return dtypes.DEFAULT_SETTING.within(_floating("default_dtype", dtype))


def _floating(where: str, dtype: DType | str | type[Any]) -> DType:
    found = dtypes.dtype(dtype)
    if not found.is_floating:
        raise DTypeError(
            f"[{where}] {found}: expected a floating dtype, such as float64; the complex default "
            f"goes with it"
        )
    return found
