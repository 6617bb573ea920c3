"""A record of the problems that a block of code requests from providers.

Finding the problem of a product or a convolution takes longer than launching its kernel. The
problem depends only on shapes and strides. ``asking`` records the problems of a block. For arrays
with the same shapes and strides a caller passes the recorded problem to ``provided.launch``, with
other addresses.
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
    """A problem that was computed, and its arrays in the order of the call, the result last; those
    that an epilogue reads or writes are not among them."""

    descriptor: OpDescriptor
    arrays: tuple[Array, ...]

    def offsets(self, roots: Sequence[Array]) -> list[int] | None:
        """How many bytes behind the first element of each of ``roots`` the arrays begin; None
        where one is no view of its root, but was copied."""
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
    """What this thread asks providers for in the block, as far as they computed it."""
    before, _noted.asked = _noted.asked, []
    try:
        yield _noted.asked
    finally:
        _noted.asked = before


def note(descriptor: OpDescriptor, arrays: tuple[Array, ...]) -> None:
    """For who asks: it was computed."""
    if _noted.asked is not None:
        _noted.asked.append(DispatchRecord(descriptor, arrays))


def _start(array: Array) -> int:
    return int(array.__array_interface__["data"][0])
