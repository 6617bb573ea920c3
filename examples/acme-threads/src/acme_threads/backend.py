"""``ThreadedBackend``: exponentials, softmax and pooling of large arrays on several threads.

Everything else is inherited. The operations that are overridden call the inherited ones on parts of
their operands, so results are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from acme_threads.pool import WorkerPool
from fl_tensor.extend import Shape, settings
from fl_tensor.extend.numpy import NumpyAdapter, NumpyBackend, errstate, memory
from fl_tensor.extend.rules import pool_output_sizes

Padding = tuple[tuple[int, int], ...]


class ThreadedBackend(NumpyBackend):
    """NumPy on several threads.

    ``smallest`` is the number of elements from which on an operation is divided. By default it is
    the setting ``FL_ACME_THREADS_SMALLEST``, else 65,536. Raises ArgumentError where the setting is
    no integer of 1 or more.
    """

    CONTRACT = (1, 1)
    name = "acme-threads"

    def __init__(self, smallest: int | None = None) -> None:
        if smallest is None:
            what = "a number of elements"
            smallest = settings.number("FL_ACME_THREADS_SMALLEST", 1 << 16, 1, what)
        self._smallest = smallest
        self._pool = WorkerPool("acme-threads")

    def exp(self, x: NumpyAdapter) -> NumpyAdapter:
        if not self._is_divided(x):
            found: NumpyAdapter = super().exp(x)
            return found
        return self._in_parts(x, x.shape, partial(errstate.concurrent, np.exp))

    def softmax(self, x: NumpyAdapter, axis: int = -1) -> NumpyAdapter:
        inherited = super().softmax
        if axis == 0 or not self._is_divided(x):  # its rows are not in one part
            found: NumpyAdapter = inherited(x, axis)
            return found

        def rows(source: Any, out: Any) -> None:
            out[...] = inherited(NumpyAdapter(source, x.dtype), axis).array

        return self._in_parts(x, x.shape, rows)

    def max_pool(
        self, x: NumpyAdapter, window: Shape, stride: Shape, padding: Padding
    ) -> NumpyAdapter:
        inherited = super().max_pool
        if not self._is_divided(x):
            found: NumpyAdapter = inherited(x, window, stride, padding)
            return found
        sizes = pool_output_sizes("max_pool", x.shape, window, stride, padding)

        def images(source: Any, out: Any) -> None:
            out[...] = inherited(NumpyAdapter(source, x.dtype), window, stride, padding).array

        return self._in_parts(x, (*x.shape[:2], *sizes), images)

    def _is_divided(self, x: NumpyAdapter) -> bool:
        return x.dtype.is_floating and len(x.shape) > 0 and x.array.size >= self._smallest

    def _in_parts(
        self, x: NumpyAdapter, shape: Shape, compute: Callable[[Any, Any], object]
    ) -> NumpyAdapter:
        # A result of ``shape``, of which ``compute(source, out)`` fills parts along the first axis.
        out = memory.empty(shape, x.array.dtype)
        self._pool.run(lambda part: compute(x.array[part], out[part]), shape[0])
        return NumpyAdapter(out, x.dtype)
