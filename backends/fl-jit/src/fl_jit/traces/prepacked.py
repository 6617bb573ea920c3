"""Constant weights stored only in the layout that a kernel library packs for its kernels.

A weight that only contractions read need not be packed by each of them. ``prepack`` packs it once,
and the packed elements replace the array of a lazy value (``lazy.py``). The value is then in the
same state as before its computation: the array is missing, and ``trace`` says how to get it. A read
restores the array bit for bit. So there is one copy at any time, which cannot be out of date.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fl_jit.eager.array_layouts import address
from fl_jit.eager.views import strided
from fl_memory import free_after_fork
from fl_tensor.extend.numpy import memory

if TYPE_CHECKING:
    from fl_jit.kernels.layout import Packed
    from fl_jit.traces.lazy import Lazy

Array: TypeAlias = np.ndarray[Any, Any]

#: Held while a value exchanges its array and its packed form, which must appear atomic.
_lock = free_after_fork(threading.Lock())


class PrepackedArray:
    """The packed elements of an array: the state (``Lazy.trace``) of a value.

    layout           of the array, or, if ``transposed``, of its transpose
    memory           the packed elements, at ``address``
    shape, strides   of the original array, strides in bytes; it had no gaps
    """

    failed = False

    def __init__(
        self,
        array: Array,
        layout: Packed,
        transposed: bool,
        pack: Callable[..., None],
        unpack: Callable[..., None],
    ) -> None:
        self.layout, self.transposed = layout, transposed
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.size, self.nbytes = math.prod(array.shape), layout.nbytes
        self._unpack = unpack
        self.memory = memory.empty((layout.nbytes // array.itemsize,), array.dtype)
        self.address = address(self.memory)
        pack(address(array), self.address)

    def array(self) -> Array:
        """The array with its original strides."""
        made = memory.empty(self.shape, self.dtype)
        if made.strides != self.strides:
            steps = tuple([step // self.dtype.itemsize for step in self.strides])
            made = strided(made, self.dtype, 0, self.shape, steps)
        self._unpack(self.address, address(made))
        return made

    def compute(self, x: Lazy) -> None:
        """Restore the array of ``x``."""
        array = self.array()
        with _lock:
            if x.trace is self:  # else another thread restored it
                x.array, x.trace = array, None


def prepack(x: Lazy, array: Array, packed: PrepackedArray) -> None:
    """Replace ``array``, the array of ``x``, by its packed form."""
    with _lock:
        if storage_of(x) is array:  # else another thread was faster
            x.trace = packed
            del x.array


def storage_of(x: Any) -> Any:
    """The array of a computed value, or its ``PrepackedArray``. Both have a shape, strides and
    sizes."""
    state = getattr(x, "trace", None)
    return state if state.__class__ is PrepackedArray else x.array
