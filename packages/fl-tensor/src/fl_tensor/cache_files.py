"""Files that spare work to the next process: where they are, and how they are written."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def folder() -> Path | None:
    """FL_CACHE_DIR, else ``fl`` in the user's cache directory; None for a user without a home."""
    asked = os.environ.get("FL_CACHE_DIR")
    if asked:
        return Path(asked)
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError):
        return (Path(base) if base else Path.home() / ".cache") / "fl"
    return None


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file as a whole, so that no reader ever sees half of it. Raises OSError where
    that is not possible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
