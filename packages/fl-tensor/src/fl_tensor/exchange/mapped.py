"""Bytes of a file as NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.exchange.dtypes import TO_NUMPY


def array(
    data: memoryview, shape: Sequence[int], dtype: DType, order: Sequence[int]
) -> np.ndarray[Any, Any]:
    """An array over bytes in C order of the axes ``order``."""
    stored = np.frombuffer(data, TO_NUMPY[dtype]).reshape([shape[axis] for axis in order])
    return stored.transpose(np.argsort(np.array(order, int)))
