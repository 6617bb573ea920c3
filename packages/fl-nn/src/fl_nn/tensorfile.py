"""Files of named tensors in the safetensors format, written so that a cut-off write harms nothing.

The format: 8 bytes with the length of a JSON header, the header, then the raw bytes. Files are
untrusted: the header is bounded, the `safetensors` library checks it against the data, and a file
that carries a checksum must match it. Nothing is unpickled or executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import fl_tensor as ft
from fl_nn.errors import CheckpointError
from fl_tensor import FlError

#: Names, shapes and metadata of any sensible model fit; a larger header is refused unread.
MAX_HEADER = 32 * 1024 * 1024
CHECKSUM = "sha256"
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
_NAMES = {code: name for name, code in _CODES.items()}


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, ft.Tensor], metadata: Mapping[str, str]
) -> None:
    """Write a safetensors file atomically: a reader sees the previous file or the whole new one.

    The metadata gets a checksum over itself and all tensors. Raises CheckpointError for a dtype
    that the format does not have, OSError when the disk is full or the folder is not writable.
    """
    path = Path(path)
    _require_little_endian(path)
    header: dict[str, Any] = {}
    contents: dict[str, tuple[str, list[int], memoryview]] = {}
    end = 0
    # Wide elements first, so that every tensor is aligned to its own element size.
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        tensor = tensors[name]
        if tensor.dtype.name not in _CODES:
            raise CheckpointError(f"{path}: tensor {name!r} is {tensor.dtype}: files have no such")
        data = tensor.tobytes()
        start, end = end, end + len(data)
        header[name] = {
            "dtype": _CODES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        contents[name] = (_CODES[tensor.dtype.name], list(tensor.shape), data)
    header["__metadata__"] = {**metadata, CHECKSUM: _checksum(contents, metadata)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise CheckpointError(
            f"{path}: names and metadata take {len(text)} bytes, more than {MAX_HEADER}; "
            "keep large values in tensors"
        )
    with _replacing(path) as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for _, _, data in contents.values():
            file.write(data)


def read_tensors(
    path: str | os.PathLike[str],
    accept: Callable[[dict[str, str]], None] | None = None,
    rename: Callable[[str], str | None] = lambda name: name,
) -> tuple[dict[str, ft.Tensor], dict[str, str]]:
    """Tensors (on the default backend) and metadata of a safetensors file.

    `accept` may refuse the metadata before any tensor is made; `rename` gives the name to return a
    tensor under, or None to leave it out. Raises CheckpointError for a file that is missing, cut
    off, malformed, or differs from its checksum.
    """
    path = Path(path)
    _require_little_endian(path)
    try:
        with open(path, "rb") as file:
            metadata, data = _read_checked_header(path, file)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror or error})") from error
    if accept is not None:
        accept(metadata)
    contents = _deserialize(path, data)
    found = metadata.get(CHECKSUM)
    plain = {name: value for name, value in metadata.items() if name != CHECKSUM}
    ours = metadata.get("format", "").startswith("fl_nn.")  # always written with a checksum
    if (ours or found is not None) and found != _checksum(contents, plain):
        raise CheckpointError(
            f"{path}: the content does not match its checksum, so it was damaged after it was "
            "written; restore the file from a copy or go back to an earlier checkpoint"
        )
    tensors = {}
    for name, (code, shape, values) in contents.items():
        wanted = rename(name)
        if wanted in tensors:
            raise CheckpointError(f"{path}: two tensors become {wanted!r}; check the renaming")
        if wanted is not None:
            tensors[wanted] = _tensor(path, name, code, shape, values)
    return tensors, plain


def _read_checked_header(path: Path, file: BinaryIO) -> tuple[dict[str, str], bytes]:
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
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
    text = file.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: its header is not valid JSON ({error})") from error
    metadata = header.get("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{path}: its header is not one of safetensors: no table of tensors")
    return metadata, start + text + file.read()


def _deserialize(path: Path, data: bytes) -> dict[str, tuple[str, list[int], memoryview]]:
    from safetensors import SafetensorError, deserialize

    try:
        entries = deserialize(data)
    except (SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"{path}: is cut off or damaged ({error}). Use an earlier checkpoint"
        ) from error
    return {name: (e["dtype"], list(e["shape"]), memoryview(e["data"])) for name, e in entries}


def _tensor(path: Path, name: str, code: str, shape: list[int], data: memoryview) -> ft.Tensor:
    if code not in _NAMES:
        raise CheckpointError(f"{path}: tensor {name!r} has dtype {code}, which is not supported")
    if code == "BOOL" and bytes(data).strip(b"\0\1"):
        raise CheckpointError(f"{path}: tensor {name!r} is bool but holds bytes other than 0 and 1")
    try:
        return ft.frombytes(data, tuple(shape), ft.dtype(_NAMES[code]))
    except FlError as error:
        raise CheckpointError(f"{path}: tensor {name!r}: {error}") from error


def _checksum(
    contents: Mapping[str, tuple[str, list[int], memoryview]], metadata: Mapping[str, str]
) -> str:
    # Over what the file means, not over its bytes: the order of the tensors does not matter.
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(contents):
        code, shape, data = contents[name]
        digest.update(json.dumps([name, code, shape]).encode())
        digest.update(data)
    return digest.hexdigest()


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    # The bytes reach the disk under another name before the rename, which is atomic.
    partial = path.with_name(path.name + ".partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened, and the rename is durable enough
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _require_little_endian(path: Path) -> None:
    if sys.byteorder != "little":
        raise CheckpointError(f"{path}: safetensors files need a little-endian machine")
