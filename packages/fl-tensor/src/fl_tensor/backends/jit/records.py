"""Files that remember which computations came again, so that the next process plans them at once.

A heavy computation that is new is run call by call, which takes several times as long as its plan.
If a process before this one has made the plan, its kernels are on disk, and it is ready soon.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

from fl_tensor import cache_files
from fl_tensor.backends.jit.lazy import Call


class Structure(NamedTuple):
    """What a plan depends on: the calls, which results are seen, how the leaves lie, and what is
    registered from outside (``extensions``)."""

    calls: tuple[Call, ...]
    seen: tuple[bool, ...]
    leaves: tuple[Any, ...]
    version: int


def contains(key: Structure) -> bool:
    """Whether a plan of this structure was made before, in this process or another."""
    path = _path(key)
    return path is not None and path.exists()


def add(key: Structure) -> None:
    """Remember that there was a plan of it. Where nothing can be written, nothing is."""
    path = _path(key)
    if path is not None:
        with contextlib.suppress(OSError):
            cache_files.write_atomically(path, b"")


def _path(key: Structure) -> Path | None:
    folder = cache_files.folder()
    if folder is None:
        return None
    text = repr(([tuple(call) for call in key.calls], key.seen, key.leaves))
    name = hashlib.sha256(text.encode()).hexdigest()
    return folder / "plans" / name[:2] / name
