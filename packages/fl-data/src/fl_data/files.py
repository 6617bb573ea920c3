"""Helpers of file readers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from fl_data.errors import FileFormatError
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular


def opened(path: Path) -> BinaryIO:
    """The file, to read. Raises `FileFormatError` when it is missing, may not be read or is
    no regular file."""
    try:
        return open_regular(path)
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror or error})") from error


@checked
def decoded_file_name(name: str) -> str:
    """A file name as text in UTF-8, whatever the locale: a class that is named after a folder has
    the same name everywhere. Bytes that are no UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def require_little_endian(where: str) -> None:
    """Tensors are stored as such machines have them. Raises `FileFormatError` on others."""
    if sys.byteorder != "little":
        raise FileFormatError(f"[{where}] the file format needs a little-endian machine")
