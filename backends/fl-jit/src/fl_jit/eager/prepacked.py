"""Constant weights stored only in the layout that a kernel library packs for its kernels.

A weight that only GEMMs read need not be packed by each of them. ``prepack`` packs it once and
replaces its array. The adapter keeps its value, and restores its array bit for bit on request. So
there is one copy at any time, which cannot be out of date.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fl_jit.eager.views import strided
from fl_memory import free_after_fork
from fl_tensor.extend.numpy import NumpyAdapter, memory

if TYPE_CHECKING:
    from fl_jit.kernels.layout import Packed
    from fl_jit.kernels.library import Kernel

Array: TypeAlias = np.ndarray[Any, Any]

#: The array of an adapter, or the ``PrepackedArray`` that replaces it.
_content = NumpyAdapter.__dict__["array"]
#: Held while an adapter changes its class and content, which must appear atomic.
_lock = free_after_fork(threading.Lock())


class PrepackedArray:
    """The packed elements of an array.

    layout           of the array, or, if ``turned``, of its transpose
    memory           the packed elements
    shape, strides   of the original array, strides in bytes; it had no gaps
    """

    __slots__ = ("_unpack", "dtype", "layout", "memory", "shape", "strides", "turned")

    def __init__(
        self, array: Array, layout: Packed, turned: bool, pack: Kernel, unpack: Kernel
    ) -> None:
        self.layout, self.turned = layout, turned
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self._unpack = unpack
        self.memory = memory.empty((layout.nbytes // array.itemsize,), array.dtype)
        pack(_address(array), _address(self.memory))

    @property
    def size(self) -> int:
        """Elements, without padding."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in memory, with padding."""
        return self.layout.nbytes

    def array(self) -> Array:
        """The array with its original strides."""
        made = memory.empty(self.shape, self.dtype)
        if made.strides != self.strides:
            steps = tuple([step // self.dtype.itemsize for step in self.strides])
            made = strided(made, self.dtype, 0, self.shape, steps)
        self._unpack(_address(self.memory), _address(made))
        return made

    def factor(self) -> Array:
        """The packed matrix in strided form: the array, or its transpose if ``turned``."""
        return self.array().T if self.turned else self.array()


class UnpackedOnDemand:
    """A mixin for adapter classes whose array may be missing because it is prepacked."""

    __slots__ = ()
    trace: Any = "packed"

    @property
    def array(self) -> Array:
        found = _content.__get__(self)
        return _exported(self) if found.__class__ is PrepackedArray else found


class PrepackedAdapter(UnpackedOnDemand, NumpyAdapter):
    """A ``NumpyAdapter`` whose array is prepacked."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        found: tuple[int, ...] = _content.__get__(self).shape
        return found


_keeping: dict[type, type] = {NumpyAdapter: PrepackedAdapter}
_plain: dict[type, type] = {PrepackedAdapter: NumpyAdapter}


def register(plain: type, keeping: type) -> None:
    """Register the class ``keeping`` for prepacked adapters of class ``plain``. ``keeping`` adds
    ``UnpackedOnDemand`` and no slots."""
    _keeping[plain], _plain[keeping] = keeping, plain


def storage_of(x: Any) -> Any:
    """The array of an adapter, or its ``PrepackedArray``. Both have shape, strides and sizes."""
    return _content.__get__(x) if x.__class__ in _plain else x.array


def prepack(
    x: Any, array: Array, layout: Packed, turned: bool, pack: Kernel, unpack: Kernel
) -> PrepackedArray:
    """Replace ``array``, the array of the adapter ``x``, by its packed form."""
    made = PrepackedArray(array, layout, turned, pack, unpack)
    with _lock:
        if storage_of(x) is array:  # else another thread was faster, and this is an extra copy
            x.__class__ = _keeping[x.__class__]
            _content.__set__(x, made)
    return made


def _exported(x: Any) -> Array:
    found = _content.__get__(x)
    array = found.array() if found.__class__ is PrepackedArray else found
    with _lock:
        now = _content.__get__(x)
        if now is found:
            _content.__set__(x, array)
            x.__class__ = _plain.get(x.__class__, x.__class__)
        elif now.__class__ is not PrepackedArray:
            return now
    return array


def _address(a: Array) -> int:
    return int(a.__array_interface__["data"][0])
