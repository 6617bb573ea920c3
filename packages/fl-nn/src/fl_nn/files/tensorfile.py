"""The safetensors format: the length of a JSON header in 8 bytes, the header, the bytes of the
tensors.

Files are untrusted. The header is bounded before it is read, and every entry is checked against the
file before any tensor is made; nothing is unpickled or executed. Values stay in the file, mapped
into memory, until they are asked for, so that loading takes the memory of one copy. Files written
here carry a checksum of names, shapes, metadata and values. Of files of others, which have none, a
flipped bit in a value cannot be noticed.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.errors import CheckpointError
from fl_nn.files.header import (
    DTYPES,
    MAX_HEADER,
    Entry,
    checked,
    encode,
    layout,
    parse_json,
    read_length,
)
from fl_nn.files.lazy import LazyTensor, Loadable, load_tensor
from fl_tensor import FlError
from fl_tensor.files import open_regular, replacing
from fl_tensor.untrusted_json import MAX_MARKS, marks

if TYPE_CHECKING:
    from typing_extensions import Self

CHECKSUM = "sha256"
#: A key of the metadata that says who wrote the file, and what it is.
WRITER = "fl_nn"


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Loadable], metadata: Mapping[str, str]
) -> str:
    """Write a safetensors file atomically: a reader sees the previous file or the whole new one.

    The metadata gets a checksum over itself and all tensors, which is returned. Tensors are read
    one after another. Raises CheckpointError for a dtype that the format does not have, FileError
    when the disk is full or the folder is not writable.
    """
    path = Path(path)
    _require_little_endian(path)
    metadata = {WRITER: "tensors", **metadata}
    if not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointError(f"{path}: metadata are strings by name, got {metadata!r:.200}")
    entries = layout(path, tensors)
    text = encode(entries, {**metadata, CHECKSUM: "0" * 64})
    if len(text) > MAX_HEADER or marks(text) > MAX_MARKS:
        raise CheckpointError(
            f"{path}: names and metadata take {len(text)} bytes, with {marks(text)} brackets, "
            f"colons and commas; {MAX_HEADER} and {MAX_MARKS} are allowed. Keep large values in "
            "tensors"
        )
    digest = _Digest(metadata)
    size = 8 + len(text) + max((entry.end for entry in entries.values()), default=0)
    with replacing(path, parents=True, size=size) as file:
        for name in sorted(entries):
            entry, data = entries[name], load_tensor(tensors[name]).tobytes()
            file.seek(8 + len(text) + entry.start)
            file.write(data)
            digest.add(name, entry, data)
        file.seek(0)
        file.write(struct.pack("<Q", len(text)))
        file.write(encode(entries, {**metadata, CHECKSUM: digest.text()}))
    return digest.text()


class TensorFile:
    """An open safetensors file, to be used in a `with` block.

    tensors   by name; their values stay in the file until they are loaded
    metadata  without the checksum, which is in `checksum` ("" if there is none)

    Raises CheckpointError for a file that is missing, cut off or malformed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        _require_little_endian(self.path)
        try:
            with open_regular(path) as file:
                length = read_length(self.path, file)
                header = parse_json(self.path, file.read(length), "its header")
                size = os.fstat(file.fileno()).st_size - 8 - length
                self._entries, metadata = checked(self.path, header, size)
                # Writers replace files instead of changing them, so what is mapped stays.
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise CheckpointError(
                f"{path}: cannot be read ({error.strerror or error}); check the path"
            ) from error
        self._data, self._closed = memoryview(mapped)[8 + length :], False
        self.checksum = metadata.pop(CHECKSUM, "")
        self.metadata = metadata
        self.tensors = {name: self._stored(name) for name in self._entries}

    def verify(self) -> None:
        """Read everything once and compare it with the checksum. Raises CheckpointError for a file
        that was damaged after it was written, or by another program with values that its dtypes
        do not have."""
        if self.checksum or is_ours(self.metadata):
            digest = _Digest(self.metadata)
            for name in sorted(self._entries):
                digest.add(name, self._entries[name], self._bytes(name))
            if self.checksum != digest.text():
                raise damaged(self.path)
        for name, entry in self._entries.items():
            if entry.code == "BOOL" and bytes(self._bytes(name)).strip(b"\0\1"):
                raise CheckpointError(
                    f"{self.path}: tensor {name!r} is bool but holds bytes other than 0 and 1; "
                    "write it again, as uint8 if these are numbers"
                )

    def close(self) -> None:
        """Give the file back; tensors that were loaded stay."""
        # Dropped and not closed: an exception on its way may still hold a view of the map.
        self._data, self._closed = memoryview(b""), True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _bytes(self, name: str) -> memoryview:
        entry = self._entries[name]
        return self._data[entry.start : entry.end]

    def _stored(self, name: str) -> LazyTensor:
        entry = self._entries[name]
        dtype = DTYPES[entry.code]

        def load() -> ft.Tensor:
            if self._closed:
                raise CheckpointError(f"{self.path}: is closed; load {name!r} in the with block")
            try:
                return ft.frombytes(self._bytes(name), entry.shape, dtype)
            except FlError as error:
                raise CheckpointError(f"{self.path}: tensor {name!r}: {error}") from error

        return LazyTensor(entry.shape, dtype, load)


def is_ours(metadata: Mapping[str, Any]) -> bool:
    """Whether this program wrote a file: then it has a checksum."""
    return WRITER in metadata or str(metadata.get("format", "")).startswith("fl_nn.")


def damaged(path: Path) -> CheckpointError:
    """The error for a file that differs from its checksum."""
    return CheckpointError(
        f"{path}: the content does not match its checksum, so it was damaged after it was "
        "written; restore the file from a copy or go back to an earlier checkpoint"
    )


class _Digest:
    # Over what the file means, not over its bytes: where tensors lie does not matter.

    def __init__(self, metadata: Mapping[str, str]) -> None:
        self._hash = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())

    def add(self, name: str, entry: Entry, data: memoryview) -> None:
        self._hash.update(json.dumps([name, entry.code, entry.shape]).encode())
        self._hash.update(data)

    def text(self) -> str:
        return self._hash.hexdigest()


def _require_little_endian(path: Path) -> None:
    if sys.byteorder != "little":
        raise CheckpointError(f"{path}: safetensors files need a little-endian machine")
