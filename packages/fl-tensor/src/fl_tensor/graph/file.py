"""Files of graphs, with their state: ``Compiled.save`` writes them, ``ft.load_graph`` reads them.

    8 bytes   ``flgraph1``
    8 bytes   the length of the head, little-endian
    4 bytes   the CRC-32 of the head, and 4 of zeros
    head      JSON, in UTF-8
    data      tensors and constants, each at a multiple of 64 bytes from the start of the file

The head says what the graph is, where its arrays are, what they are called, and which of them the
graph replaces. A file is untrusted: the head is bounded before it is read, and everything in it is
checked before anything is made of it. Arrays stay in the file, mapped into memory.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import struct
import sys
import zlib
from typing import Any

from fl_tensor import untrusted_json
from fl_tensor.errors import ArgumentError, DTypeError, FileError
from fl_tensor.files import AnyPath, open_regular, replacing
from fl_tensor.graph import trees
from fl_tensor.graph.file_head import ALIGNMENT, VERSION, Content, Head
from fl_tensor.graph.serialize import _encode, to_dict
from fl_tensor.untrusted_json import MAX_MARKS, marks

__all__ = ["read", "write"]

MAGIC = b"flgraph1"
_START = struct.Struct("<8sQI4x")
#: The most bytes of a head.
MAX_HEAD = 32 << 20
#: What a head that is not sound may raise in the course of being read.
_UNSOUND = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
    RuntimeError,
)  # fmt: skip


def write(path: AnyPath, content: Content) -> None:
    """Write a file, in one step: who reads ``path`` sees the previous file or the whole new one.
    Raises ArgumentError for what no file can hold, FileError where it cannot be written."""
    _check_path("save", path)
    parts: dict[int, memoryview] = {}
    end = 0

    def placed(data: Any) -> int:
        nonlocal end
        view = memoryview(data).cast("B")
        start, end = end, end + len(view) + -len(view) % ALIGNMENT
        if len(view):
            parts[start] = view
        return start

    tensors = [
        {
            "name": name,
            "shape": list(x.shape),
            "dtype": x.dtype.name,
            "order": list(x.order),
            "offset": placed(x.data),
        }
        for name, x in content.tensors.items()
    ]
    head = {
        "version": VERSION,
        "byteorder": sys.byteorder,
        "name": content.name,
        "arguments": trees.write(content.arguments),
        "result": trees.write(content.result),
        "tensors": tensors,
        "inputs": content.inputs,
        "written": content.written,
        "assumed": content.assumed,
        "numbers": [[s, n.name, _encode(n.value)] for s, n in content.numbers.items()],
        "updates": list(content.updates.items()),
        "guards": [[source, _encode(value)] for source, value in content.guards.items()],
        "graph": to_dict(content.graph, lambda each: {"offset": placed(each.data)}),
        "size": end,
    }
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    _check_size(len(text), marks(text))
    # What is written can be read: all limits hold.
    Head(end, lambda start, size: parts[start] if size else memoryview(b"")).content(_parsed(text))
    first = _data_start(len(text))
    with replacing(path, size=first + end) as file:
        file.write(_START.pack(MAGIC, len(text), zlib.crc32(text)) + text)
        for start, data in parts.items():
            file.seek(first + start)
            file.write(data)
        file.truncate(first + end)


def read(path: AnyPath) -> Content:
    """The content of a file. Raises FileError, with the place, for one that is missing or not
    sound."""
    _check_path("load_graph", path)
    reader = None
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            text = _head_of(file.read(_START.size), size, file)
            first = _data_start(len(text))
            if size < first:
                raise ArgumentError(f"ends after {size} bytes, before its data")
            # Writers replace files instead of changing them, so what is mapped stays.
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[first:]
        reader = Head(size - first, lambda start, length: mapped[start : start + length])
        return reader.content(_parsed(text))
    except FileError:
        raise
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error}); check the path"
        raise FileError(error.errno or errno.EIO, reason, os.fspath(path)) from error
    except _UNSOUND as error:
        place = f"in {reader.place}, " if reader else ""
        said = str(error) if isinstance(error, ArgumentError) else _named(error)
        reason = f"is no sound graph file: {place}{said[:400]}"
        raise FileError(errno.EINVAL, reason, os.fspath(path)) from error


def _check_path(where: str, path: object) -> None:
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise DTypeError(f"[{where}] path {path!r}: expected a path")


def _named(error: BaseException) -> str:
    return f"{type(error).__name__} {error}"


def _data_start(length: int) -> int:
    return -(-(_START.size + length) // ALIGNMENT) * ALIGNMENT


def _head_of(start: bytes, size: int, file: Any) -> bytes:
    if len(start) < _START.size or not start.startswith(MAGIC):
        raise ArgumentError(
            f"it does not begin with {MAGIC.decode()!r}: expected what the method save of a "
            f"compiled function wrote"
        )
    _, length, checksum = _START.unpack(start)
    _check_size(length, 0)
    text: bytes = file.read(length)
    if len(text) != length:
        raise ArgumentError(f"ends after {size} bytes, inside its head of {length}")
    if zlib.crc32(text) != checksum:
        raise ArgumentError("its head differs from its checksum: it was damaged")
    _check_size(length, marks(text))
    return text


def _check_size(length: int, marks: int) -> None:
    if length > MAX_HEAD or marks > MAX_MARKS:
        raise ArgumentError(
            f"a head of {length} bytes, with {marks} brackets, colons and commas; {MAX_HEAD} and "
            f"{MAX_MARKS} are allowed"
        )


def _parsed(text: bytes) -> Any:
    try:
        return untrusted_json.parse(text)
    except ValueError as error:
        raise ArgumentError(f"its head is no JSON ({error})") from None
