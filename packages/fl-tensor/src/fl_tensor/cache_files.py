"""Cache files between processes: folder, atomic reads and writes, size limit.

Together they have at most FL_CACHE_BYTES (512 MiB if not set). When they have more, those that were
not used for longest go, until a fifth is free. Other processes may read, write and remove files at
the same time: who finds none makes it again.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import time
from pathlib import Path

from fl_memory.forks import free_after_fork
from fl_tensor import files, settings

__all__ = ["folder", "read", "state", "write"]

DEFAULT_BYTES = 512 << 20
#: A process looks how much there is at its first write, and after so large a part of all room.
_LOOK = 1 / 16
#: Seconds after which a file that was never finished is nobody's any more.
_ABANDONED = 3600.0

_lock = free_after_fork(threading.Lock())
_written: float = float("inf")  # bytes since the last look


def folder() -> Path | None:
    """FL_CACHE_DIR, else ``fl`` in the user's cache directory; None for a user without a home."""
    setting = os.environ.get("FL_CACHE_DIR")
    if setting:
        return Path(setting)
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):
        return (Path(base) if base else Path.home() / ".cache") / "fl"
    return None


def state() -> str:
    """Where files are kept, and whether they can be, for people."""
    root = folder()
    if root is None:
        return "nowhere: this user has no home, set FL_CACHE_DIR"
    there = next(path for path in (root, *root.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return f"{root}, which cannot be written: every process makes its kernels anew"
    return f"{root}, at most {most_bytes() >> 20} MiB"


def most_bytes() -> int:
    """FL_CACHE_BYTES. Raises ArgumentError where that is no number."""
    return settings.number("FL_CACHE_BYTES", DEFAULT_BYTES, 0, "a number of bytes")


def read(path: Path) -> bytes | None:
    """What is in the file, which counts as used now; None where it cannot be read."""
    try:
        with files.open_regular(path) as file:
            data = file.read()
    except OSError:
        return None
    with contextlib.suppress(OSError):  # a folder for reading only
        os.utime(path)
    return data


def write(path: Path, data: bytes) -> None:
    """Replace the file as a whole, so that no reader ever sees half of it, and make room. Raises
    OSError where that is not possible."""
    global _written
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    root, limit = folder(), most_bytes()
    with _lock:
        _written += len(data)
        look = _written > _LOOK * limit
        if look:
            _written = 0
    if look and root is not None and root in path.parents:
        trim(root, limit)


def trim(root: Path, limit: int) -> None:
    """Remove the files below ``root`` that were not used for longest, if all together have more
    than ``limit`` bytes; and what other processes left unfinished long ago."""
    found = []
    for path in root.rglob("*"):
        with contextlib.suppress(OSError):  # removed by somebody else
            about = path.stat()
            if path.suffix == ".part":
                if time.time() - about.st_mtime > _ABANDONED:
                    path.unlink()
            elif path.is_file():
                found.append((about.st_mtime_ns, about.st_size, path))
    total = sum(size for _, size, _ in found)
    if total <= limit:
        return
    for _, size, path in sorted(found, key=lambda entry: entry[0]):
        if total <= 0.8 * limit:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size
