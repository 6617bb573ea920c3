"""The encoding of a sample: tagged values, little-endian, without executable content.

    value   := tag, content
    N T F      None, True, False
    i d        int64; float64
    s b        text in UTF-8, bytes: u64 length, content
    ( [        tuple, list: u32 count, values
    {          dict: u32 count, then for each a u32 length, the name in UTF-8, a value
    A          tensor: u8 dtype, u8 number of axes, u64 for each, elements in C order

Bytes from a file are not trusted. Each length is compared with the remaining bytes first, so a
reader uses no more memory than the bytes do.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_data.errors import BlobError, SampleTypeError
from fl_data.files import require_little_endian
from fl_data.samples import Sample, as_tensor

#: Numbers in files: only ever appended to.
DTYPES = tuple(
    ft.dtype(name)
    for name in (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
        "float16 bfloat16 float32 float64 complex64 complex128"
    ).split()
)
_CODES = {dtype: code for code, dtype in enumerate(DTYPES)}
MAX_DEPTH = 32
MAX_AXES = 64
_CONSTANTS = {b"N": None, b"T": True, b"F": False}


class RawTensor(NamedTuple):
    """The elements of a tensor as they are stored: `data` has their bytes in C order, read-only."""

    data: memoryview
    shape: tuple[int, ...]
    dtype: ft.DType

    def tensor(self) -> ft.Tensor:
        """A tensor on the default backend; a copy."""
        return ft.frombytes(self.data, self.shape, self.dtype)


def encode(sample: Sample) -> bytes:
    """The bytes of a sample: of tensors, numbers, text, bytes, None, and tuples, lists and dicts of
    these. Raises `SampleTypeError` naming the field that holds something else."""
    require_little_endian("blob")
    if not isinstance(sample, tuple | dict):
        raise SampleTypeError(
            f"[blob] a sample is a tuple or a dict, got {type(sample).__name__}: "
            "give (x,) for a single tensor"
        )
    parts: list[bytes | memoryview] = []
    _encode(sample, "sample", parts, 0)
    return b"".join(parts)


def _encode(value: Any, where: str, parts: list[bytes | memoryview], depth: int) -> None:
    value = as_tensor(value, where, "blob")
    if depth > MAX_DEPTH:
        raise SampleTypeError(f"[blob] {where} lies more than {MAX_DEPTH} levels deep")
    if isinstance(value, ft.Array | RawTensor):
        shape = value.shape
        if len(shape) > MAX_AXES:
            raise SampleTypeError(f"[blob] {where} has {len(shape)} axes, more than {MAX_AXES}")
        head = struct.pack(f"<cBB{len(shape)}Q", b"A", _CODES[value.dtype], len(shape), *shape)
        parts += (head, value.data if isinstance(value, RawTensor) else value.tobytes())
    elif value is None or isinstance(value, bool):
        parts.append({None: b"N", True: b"T", False: b"F"}[value])
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise SampleTypeError(f"[blob] {where} is {value}, which is no int64")
        parts.append(struct.pack("<cq", b"i", value))
    elif isinstance(value, float):
        parts.append(struct.pack("<cd", b"d", value))
    elif isinstance(value, str | bytes | bytearray | memoryview):
        content = _utf8(value, where) if isinstance(value, str) else bytes(value)
        tag = b"s" if isinstance(value, str) else b"b"
        parts += (struct.pack("<cQ", tag, len(content)), content)
    elif isinstance(value, tuple | list):
        parts.append(struct.pack("<cI", b"(" if isinstance(value, tuple) else b"[", len(value)))
        for i, item in enumerate(value):
            _encode(item, f"{where}[{i}]", parts, depth + 1)
    elif isinstance(value, dict):
        parts.append(struct.pack("<cI", b"{", len(value)))
        for name, item in value.items():
            if not isinstance(name, str):
                raise SampleTypeError(f"[blob] {where} has the key {name!r}: names are text")
            content = _utf8(name, where)
            parts += (struct.pack("<I", len(content)), content)
            _encode(item, f"{where}[{name!r}]", parts, depth + 1)
    else:
        raise SampleTypeError(
            f"[blob] {where} is a {type(value).__name__}: fields are tensors, numbers, text, "
            "bytes, None, and tuples, lists and dicts of these; convert it with ft.asarray"
        )


def _utf8(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise SampleTypeError(f"[blob] {where} is no proper text: {error}") from error


def decode(data: memoryview) -> Sample:
    """The sample that these bytes are, with a `RawTensor` over them for every tensor.

    Raises `BlobError` unless they are exactly one sample.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise BlobError(f"[blob] {len(data) - reader.at} bytes are left behind the sample")
    if not isinstance(value, tuple | dict) or isinstance(value, RawTensor):
        raise BlobError(f"[blob] a sample is a tuple or a dict, found {type(value).__name__}")
    return value


def map_tensors(value: Any, make: Callable[[RawTensor], Any]) -> Any:
    """`value` with `make(raw)` for every `RawTensor` in it."""
    if isinstance(value, RawTensor):
        return make(value)
    if isinstance(value, dict):
        return {name: map_tensors(item, make) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map_tensors(item, make) for item in value)
    return value


class _Reader:
    """A position in bytes that never passes their end."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> memoryview:
        start, stop = self.at, self.at + count
        if stop > len(self.data):
            raise BlobError(
                f"[blob] {count} bytes are announced at byte {start}, {len(self.data) - start} "
                "are left"
            )
        self.at = stop
        return self.data[start:stop]

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise BlobError(f"[blob] values lie more than {MAX_DEPTH} levels deep")
        tag = bytes(self.take(1))
        if tag == b"A":
            return self._tensor()
        if tag in (b"i", b"d"):
            return self.numbers("<q" if tag == b"i" else "<d")[0]
        if tag in (b"s", b"b"):
            content = bytes(self.take(self.numbers("<Q")[0]))
            return content if tag == b"b" else _text(content)
        if tag in (b"(", b"["):
            (count,) = self.numbers("<I")
            items = [self.value(depth + 1) for _ in range(count)]
            return tuple(items) if tag == b"(" else items
        if tag == b"{":
            return self._dict(depth)
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        raise BlobError(f"[blob] {tag!r} at byte {self.at - 1} begins no value")

    def _dict(self, depth: int) -> dict[str, Any]:
        (count,) = self.numbers("<I")
        found: dict[str, Any] = {}
        for _ in range(count):
            name = _text(bytes(self.take(self.numbers("<I")[0])))
            if name in found:
                raise BlobError(f"[blob] the name {name!r} comes twice")
            found[name] = self.value(depth + 1)
        return found

    def _tensor(self) -> RawTensor:
        code, axes = self.numbers("<BB")
        if code >= len(DTYPES):
            raise BlobError(f"[blob] {code} is no dtype: this version knows 0 .. {len(DTYPES) - 1}")
        if axes > MAX_AXES:
            raise BlobError(f"[blob] a tensor of {axes} axes: there are at most {MAX_AXES}")
        shape, dtype = self.numbers(f"<{axes}Q"), DTYPES[code]
        # Without the zeros: an empty tensor must not have an extent that no array can have.
        if math.prod(extent for extent in shape if extent) * dtype.itemsize >= 2**63:
            raise BlobError(f"[blob] no tensor has the shape {shape}")
        data = self.take(math.prod(shape) * dtype.itemsize)
        if dtype is ft.bool and bytes(data).strip(b"\0\1"):
            raise BlobError("[blob] a bool tensor holds bytes other than 0 and 1")
        return RawTensor(data, shape, dtype)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BlobError(f"[blob] text is not UTF-8: {error}") from error
