"""The header of a safetensors file: which tensors are where. It comes from outside, so it is
bounded before it is read, and every entry is checked against the size of the file."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import fl_tensor as ft
from fl_nn.errors import CheckpointError
from fl_nn.files.lazy import Loadable
from fl_tensor import untrusted_json
from fl_tensor.untrusted_json import MAX_MARKS, marks

#: Names, shapes and metadata of any sensible model fit; a larger header is refused unread.
MAX_HEADER = 32 * 1024 * 1024
_METADATA = "__metadata__"
_CODES = {
    "bool": "BOOL",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
}
DTYPES = {code: ft.dtype(name) for name, code in _CODES.items()}
_PICKLES = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True)
class Entry:
    """What the header says of one tensor: `start` and `end` count bytes behind the header."""

    code: str
    shape: tuple[int, ...]
    start: int
    end: int


def layout(path: Path, tensors: Mapping[str, Loadable]) -> dict[str, Entry]:
    """Where each tensor goes. Raises CheckpointError for a dtype that the format does not have."""
    entries, end = {}, 0
    # Wide elements first, so that every tensor is aligned to its own element size.
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        dtype, shape = tensors[name].dtype, tensors[name].shape
        if name == _METADATA or dtype.name not in _CODES:
            raise CheckpointError(f"{path}: tensor {name!r} is {dtype}: files have no such")
        start, end = end, end + math.prod(shape) * dtype.itemsize
        entries[name] = Entry(_CODES[dtype.name], shape, start, end)
    return entries


def encode(entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> bytes:
    """The header as text, in UTF-8, so long that what follows is aligned."""
    header: dict[str, Any] = {
        name: {"dtype": e.code, "shape": e.shape, "data_offsets": [e.start, e.end]}
        for name, e in entries.items()
    }
    header[_METADATA] = dict(metadata)
    text = json.dumps(header, separators=(",", ":")).encode()
    return text + b" " * (-len(text) % 8)


def read_length(path: Path, file: BinaryIO) -> int:
    """How many bytes of header follow. Raises CheckpointError for more than the file can hold."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
    if length > MAX_HEADER and start.startswith(_PICKLES):
        raise CheckpointError(
            f"{path}: is a pickle of PyTorch (.pt, .pth, .bin), which is not read, because loading "
            "one runs code that is in it. Where PyTorch is installed, and you trust the file, "
            "convert it: safetensors.torch.save_file({k: v.clone() for k, v in torch.load('x.pt', "
            "weights_only=True).items()}, 'x.safetensors')"
        )
    if length > MAX_HEADER:
        raise CheckpointError(
            f"{path}: claims a header of {length} bytes, more than the {MAX_HEADER} allowed; "
            "it is not a safetensors file or was damaged"
        )
    if length < 0 or 8 + length > size:
        raise CheckpointError(
            f"{path}: ends after {size} bytes, inside its header; it was cut off or is no "
            "safetensors file. Use an earlier checkpoint"
        )
    return length


def checked(path: Path, header: Any, size: int) -> tuple[dict[str, Entry], dict[str, str]]:
    """Entries that fill the `size` bytes behind the header without gaps or overlaps, as the format
    demands, and the metadata. Raises CheckpointError for any others."""
    metadata = header.pop(_METADATA, {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{path}: its header is not one of safetensors: no table of tensors")
    entries = {name: _entry(path, name, value) for name, value in header.items()}
    end = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)):
        if entry.start != end:
            raise _malformed(path, name, f"begins at byte {entry.start}, expected {end}")
        end = entry.end
    if end != size:
        raise CheckpointError(
            f"{path}: is cut off or damaged: its tensors take {end} bytes, and {size} are there. "
            "Use an earlier checkpoint"
        )
    return entries, metadata


def _entry(path: Path, name: str, value: Any) -> Entry:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise _malformed(path, name, "has not exactly a dtype, a shape and data_offsets")
    code, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise _malformed(path, name, f"has dtype {str(code)[:20]}, which is not supported")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise _malformed(path, name, "has a shape or data_offsets that are not counts")
    if len(shape) > 32 or math.prod(n or 1 for n in shape) >= 2**60:
        raise _malformed(path, name, "has a shape beyond all arrays")
    bytes_needed = math.prod(shape) * DTYPES[code].itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != bytes_needed:
        raise _malformed(
            path, name, f"of shape {shape} needs {bytes_needed} bytes, not {str(offsets)[:60]}"
        )
    return Entry(code, tuple(shape), *offsets)


def _malformed(path: Path, name: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{path}: is malformed or damaged: tensor {name[:200]!r} {what}. Use an earlier checkpoint"
    )


def parse_json(path: Path, text: bytes, what: str) -> Any:
    """JSON of a file that nobody vouches for. Raises CheckpointError."""
    if marks(text) > MAX_MARKS:
        raise CheckpointError(
            f"{path}: {what} holds {marks(text)} brackets, colons and commas, more than the "
            f"{MAX_MARKS} allowed; it was damaged, or made to fill memory"
        )
    try:
        return untrusted_json.parse(text)
    except ValueError as error:
        raise CheckpointError(f"{path}: {what} is not valid JSON ({error})") from error
