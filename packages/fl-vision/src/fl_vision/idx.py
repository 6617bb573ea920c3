"""The IDX file format: a magic number, the dimensions, then the values, big-endian and row-major.

Layout: two zero bytes, one byte for the element type, one for the number of dimensions, one
unsigned 32-bit integer per dimension, the elements. A file may be gzip-compressed; the two magic
bytes of gzip decide, not the name.
"""

from __future__ import annotations

import gzip
import math
import struct
import sys
import zlib
from array import array
from pathlib import Path
from typing import IO

import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular
from fl_vision.errors import DataFileError, DataMissingError

MAX_BYTES = 1 << 30
"""The most bytes of values that `read_idx` accepts unless told otherwise."""

MAX_DIMENSIONS = 8
_CHUNK = 1 << 20
# Element type code -> (name of the dtype, struct/array type code).
_ELEMENTS = {
    0x08: ("uint8", "B"),
    0x09: ("int8", "b"),
    0x0B: ("int16", "h"),
    0x0C: ("int32", "i"),
    0x0D: ("float32", "f"),
    0x0E: ("float64", "d"),
}
_AGAIN = "the file was cut off: copy or download it again"


@checked
def read_idx(path: str | Path, *, max_bytes: int = MAX_BYTES) -> ft.Tensor:
    """The tensor stored in an IDX file, plain or gzip-compressed.

    The dtype is the file's own (uint8, int8, int16, int32, float32 or float64), the shape is the
    file's dimensions. The file is not trusted: nothing beyond `max_bytes` is read or unpacked.

    Raises `DataMissingError` where there is no such file, `DataFileError` where it is not IDX, is
    cut off, has bytes left over, or declares more than `max_bytes`.
    """
    path = Path(path)
    try:
        with open_regular(path) as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            if not compressed:
                return _read(raw, path, max_bytes)
            with gzip.GzipFile(fileobj=raw) as unpacked:
                return _read(unpacked, path, max_bytes)
    except FileNotFoundError:
        raise DataMissingError(
            f"[idx] {path}: no such file; check the folder, or give another one"
        ) from None
    except EOFError:
        raise DataFileError("idx", path, "the gzip stream ends too early", _AGAIN) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataFileError(
            "idx", path, f"damaged gzip stream ({error})", "copy or download it again"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataFileError(
            "idx", path, f"cannot be read ({reason})", "give a readable IDX file"
        ) from None


def _read(stream: IO[bytes] | gzip.GzipFile, path: Path, max_bytes: int) -> ft.Tensor:
    name, code, shape = _header(stream, path)
    itemsize = struct.calcsize(f">{code}")
    nbytes = math.prod(shape) * itemsize
    if nbytes > max_bytes:
        raise DataFileError(
            "idx",
            path,
            f"declares {nbytes} bytes of {name} {shape}, more than the limit of {max_bytes}",
            "raise max_bytes if the file is meant to be that large",
        )
    values = bytearray()
    # Chunks: a header that promises a gigabyte must not reserve one before the bytes are there.
    while len(values) < nbytes:
        chunk = stream.read(min(_CHUNK, nbytes - len(values)))
        if not chunk:
            raise DataFileError(
                "idx", path, f"holds {len(values)} of the {nbytes} bytes of {name} {shape}", _AGAIN
            )
        values += chunk
    if stream.read(1):
        raise DataFileError(
            "idx",
            path,
            f"has bytes after the {nbytes} of {name} {shape}",
            "the dimensions in its header are wrong, or something was appended: get it again",
        )
    if itemsize > 1 and sys.byteorder == "little":
        swapped = array(code, bytes(values))
        swapped.byteswap()
        return ft.frombytes(swapped.tobytes(), shape, ft.dtype(name))
    return ft.frombytes(bytes(values), shape, ft.dtype(name))


def _header(stream: IO[bytes] | gzip.GzipFile, path: Path) -> tuple[str, str, tuple[int, ...]]:
    magic = stream.read(4)
    if len(magic) < 4:
        raise DataFileError("idx", path, f"holds {len(magic)} bytes, an IDX header has 4", _AGAIN)
    zeros, element, ndim = magic[:2], magic[2], magic[3]
    if zeros != b"\0\0":
        raise DataFileError(
            "idx",
            path,
            f"starts with bytes {magic.hex(' ')}, IDX starts with 00 00",
            "give an IDX file, plain or .gz",
        )
    if element not in _ELEMENTS:
        known = ", ".join(f"0x{code:02x} {name}" for code, (name, _) in _ELEMENTS.items())
        raise DataFileError(
            "idx", path, f"unknown element type 0x{element:02x}", f"IDX knows {known}"
        )
    if not 1 <= ndim <= MAX_DIMENSIONS:
        raise DataFileError(
            "idx",
            path,
            f"declares {ndim} dimensions",
            f"give an IDX file of 1 to {MAX_DIMENSIONS} dimensions",
        )
    packed = stream.read(4 * ndim)
    if len(packed) < 4 * ndim:
        raise DataFileError("idx", path, f"ends within its {ndim} dimensions", _AGAIN)
    name, code = _ELEMENTS[element]
    return name, code, struct.unpack(f">{ndim}I", packed)
