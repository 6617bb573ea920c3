"""A record of the descriptors that a block of code dispatches to kernel libraries.

Finding the descriptor of a GEMM or a convolution takes longer than launching its kernel. The
descriptor depends only on shapes and strides. ``recording_dispatches`` records the descriptors of a
block. For arrays with the same shapes and strides a caller passes the recorded descriptor to
``gemm_dispatch.launch``, with other addresses.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fl_jit.kernels.descriptors import OpDescriptor

Array: TypeAlias = np.ndarray[Any, Any]


class DispatchRecord(NamedTuple):
    """A descriptor that was computed, and its arrays in call order, the result last. Arrays that an
    epilogue reads or writes are excluded."""

    descriptor: OpDescriptor
    arrays: tuple[Array, ...]

    def offsets(self, roots: Sequence[Array]) -> list[int] | None:
        """The byte offset of each array from the first element of its entry in ``roots``. None
        where an array is a copy and not a view of its root."""
        found = []
        for array, root in zip(self.arrays, roots, strict=True):
            if not np.may_share_memory(array, root):
                return None
            found.append(_start(array) - _start(root))
        return found


class _Noted(threading.local):
    asked: list[DispatchRecord] | None = None


_noted = _Noted()


@contextmanager
def recording_dispatches() -> Iterator[list[DispatchRecord]]:
    """The dispatches of this thread in the block that a kernel library computed."""
    before, _noted.asked = _noted.asked, []
    try:
        yield _noted.asked
    finally:
        _noted.asked = before


def note(descriptor: OpDescriptor, arrays: tuple[Array, ...]) -> None:
    """Record a dispatch that was computed."""
    if _noted.asked is not None:
        _noted.asked.append(DispatchRecord(descriptor, arrays))


def _start(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
