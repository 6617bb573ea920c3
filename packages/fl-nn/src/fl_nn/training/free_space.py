"""Free disk space for the next checkpoint, checked before an epoch is trained."""

from __future__ import annotations

import errno
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.module import Module
from fl_nn.module_part import ModulePart
from fl_tensor.files import free_bytes, unwritable

if TYPE_CHECKING:
    from fl_nn.checkpoint import Part

_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
#: Plain values and names of a checkpoint, about.
_HEADER = 1 << 16


def checkpoint_size(parts: Iterable[Part]) -> int:
    """How many bytes a checkpoint of these takes, about."""
    return _HEADER + sum(_bytes(each) for part in parts for each in _tensors(part))


def check_free_space(path: Path, size: int, *, reserve: bool) -> None:
    """Raise FileError unless a file of `size` bytes can be written beside `path`, which it will
    replace. `reserve`: also have the system set the bytes aside for a moment, as a quota is found
    out in no other way."""
    free = free_bytes(path)
    if free is not None and free < size:
        raise unwritable(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), size)
    if not reserve or not hasattr(os, "posix_fallocate"):
        return
    try:
        with tempfile.TemporaryFile(dir=Path(os.path.realpath(path)).parent) as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        if error.errno in _REFUSED:  # other reasons are those of the file system, which cannot
            raise unwritable(path, error, size) from error


def _tensors(part: Part) -> Iterable[ft.Tensor]:
    if isinstance(part, Module):
        part = ModulePart("", part)
    state: Mapping[str, Any] = part.state_dict()
    tensors: Mapping[str, ft.Tensor] = state.get("tensors", {})
    return tensors.values()


def _bytes(tensor: ft.Tensor) -> int:
    return math.prod(tensor.shape) * tensor.dtype.itemsize
