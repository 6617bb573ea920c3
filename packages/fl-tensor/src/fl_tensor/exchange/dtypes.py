"""NumPy's dtypes and ours."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from fl_tensor import dtypes, extras
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

try:  # NumPy has no bfloat16; ml_dtypes adds it
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None


class _ToNumpy(dict[DType, "np.dtype[Any]"]):
    def __missing__(self, dtype: DType) -> NoReturn:
        how = extras.install(dtype.name)
        raise DTypeError(f"NumPy has no dtype {dtype} here: it takes ml_dtypes, {how}")


#: NumPy's dtype for each of ours; bfloat16 where ``ml_dtypes`` is installed. DTypeError without.
TO_NUMPY = _ToNumpy(
    (d, np.dtype(bfloat16 if d is dtypes.bfloat16 else d.name))
    for d in dtypes.ALL.values()
    if d is not dtypes.bfloat16 or bfloat16 is not None
)
FROM_NUMPY: dict[Any, DType] = {n: d for d, n in TO_NUMPY.items()}
