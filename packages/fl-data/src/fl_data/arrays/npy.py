"""The header of `.npy` files: dtype, order and shape (NumPy's NEP 1)."""

from __future__ import annotations

import ast
import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

import fl_tensor as ft
from fl_data.errors import FileFormatError

MAGIC = b"\x93NUMPY"
#: A header is some 128 bytes; those of structured types, which are refused anyway, may be longer.
MAX_HEADER = 1 << 16
_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}


class NpyHeader(NamedTuple):
    dtype: ft.DType
    shape: tuple[int, ...]
    offset: int


def read_npy_header(path: Path, file: BinaryIO, dtype: object | None = None) -> NpyHeader:
    """Where the elements of a `.npy` file begin, and what they are; `dtype` names the one of a file
    that NumPy could not name (bfloat16). Raises `FileFormatError` for anything that is no plain
    array in C order; nothing is unpickled or executed."""
    start = file.read(12)
    if len(start) < 12 or start[:6] != MAGIC:
        raise FileFormatError(f"{path}: is no .npy file: it begins with {start[:6]!r}")
    major = start[6]
    if major not in (1, 2, 3):
        raise FileFormatError(f"{path}: has version {major} of the .npy format: 1 to 3 are known")
    form = "<H" if major == 1 else "<I"
    (size,) = struct.unpack_from(form, start, 8)
    offset = 8 + struct.calcsize(form) + size
    if size > MAX_HEADER:
        raise FileFormatError(
            f"{path}: claims a header of {size} bytes, more than the {MAX_HEADER} allowed"
        )
    file.seek(8 + struct.calcsize(form))
    text = file.read(size)
    if len(text) < size:
        raise FileFormatError(f"{path}: was cut off inside its header")
    descr, fortran, shape = _fields(path, text)
    if fortran:
        raise FileFormatError(
            f"{path}: is in Fortran order, so samples are no runs of bytes: save "
            "numpy.ascontiguousarray(array)"
        )
    return NpyHeader(_dtype(path, descr, dtype), shape, offset)


def _fields(path: Path, text: bytes) -> tuple[object, bool, tuple[int, ...]]:
    try:
        found = ast.literal_eval(text.decode("utf-8").strip())
        descr, fortran, shape = found["descr"], found["fortran_order"], found["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"{path}: its header cannot be read ({error})") from error
    natural = isinstance(shape, tuple) and all(type(n) is int and 0 <= n < 2**63 for n in shape)
    if not natural or not isinstance(fortran, bool):
        raise FileFormatError(f"{path}: its header says shape {shape!r}, fortran_order {fortran!r}")
    return descr, fortran, shape


def _dtype(path: Path, descr: object, given: object | None) -> ft.DType:
    if isinstance(descr, str) and len(descr) >= 3 and descr[2:].isdecimal():
        order, kind, size = descr[0], descr[1], int(descr[2:])
        if kind == "V" and given is not None and ft.dtype(given).itemsize == size:
            return ft.dtype(given)
        name = "bool" if kind == "b" else f"{_KINDS.get(kind, '?')}{8 * size}"
        if order in "<|=" and name in ft.dtypes.ALL:
            found = ft.dtype(name)
            if given is not None and ft.dtype(given) is not found:
                raise FileFormatError(f"{path}: holds {found}, not {ft.dtype(given)}")
            return found
    raise FileFormatError(
        f"{path}: holds elements of type {descr!r}, which no tensor has: save little-endian "
        "numbers (for bfloat16, which NumPy calls V2, give dtype)"
    )
