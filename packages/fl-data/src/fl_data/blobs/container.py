"""The container format of blobs: an appendable file of records with checksums.

    file     := header, segments, and perhaps what an unfinished writer left behind
    header   := magic (8), version u32, CRC-32 of these; two slots
    slot     := number u64, end u64, CRC-32 of both as u64
    segment  := records, their sizes (u64 each), their CRC-32 (u32 each), trailer
    trailer  := start of the segment u64, number of records u64, CRC-32 of sizes to here as u64

All numbers are little-endian. A commit writes a segment behind the last one, waits for the disk,
and then writes the older of the two slots, with the next number: the slot with the higher number
says where the file ends. So a writer that dies loses what it had not committed and nothing else,
and readers may come at any time. Records fill a segment without gaps: sizes alone say where they
are, and none can reach outside. Every byte before the end is under a checksum.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from array import array
from itertools import accumulate
from pathlib import Path
from typing import BinaryIO, NamedTuple
from zlib import crc32

from fl_data.errors import BlobError

MAGIC = b"\x89flblob\n"
VERSION = 1
HEADER = 64
_START = struct.Struct("<8sII")
_SLOT = struct.Struct("<QQQ")
_TRAILER = struct.Struct("<QQQ")
_PER_RECORD = 12


class Slot(NamedTuple):
    number: int
    end: int


class Index:
    """Where the records are: `starts[i]`, `sizes[i]`, and their checksums."""

    def __init__(self) -> None:
        self.starts, self.sizes, self.checksums = array("Q"), array("Q"), array("I")

    def __len__(self) -> int:
        return len(self.starts)

    def append(self, start: int, size: int, checksum: int) -> None:
        self.sizes.append(size)
        self.checksums.append(checksum)
        self.starts.append(start)  # last: it makes the record visible to readers


def create(file: BinaryIO) -> None:
    """Write the header of a file without records."""
    head = _START.pack(MAGIC, VERSION, 0)[:-4]
    write_at(file, 0, head + struct.pack("<I", crc32(head)) + _slot(1, HEADER) + _slot(0, HEADER))


def read_slots(path: Path, file: BinaryIO) -> tuple[Slot, Slot]:
    """The newer slot and the older one. Raises BlobError unless both are as they were written."""
    for attempt in range(5):
        slots = _slots(path, read_at(path, file, 0, HEADER))
        whole = [slot for slot in slots if slot is not None]
        if len(whole) == 2:
            older, newer = sorted(whole)
            if newer.number == older.number + 1 and HEADER <= older.end <= newer.end:
                return newer, older
        time.sleep(0.001 * attempt)  # a writer may be at it in this moment
    raise BlobError(
        f"{path}: its header is damaged; FileBlob.repair(path) goes back to the last whole commit"
    )


def valid_slots(path: Path, file: BinaryIO) -> list[Slot]:
    """The slots whose checksum is right, newest first."""
    found = _slots(path, read_at(path, file, 0, HEADER))
    return sorted((slot for slot in found if slot is not None), reverse=True)


def _slots(path: Path, header: bytes) -> list[Slot | None]:
    magic, version, checksum = _START.unpack_from(header)
    if magic != MAGIC:
        raise BlobError(f"{path}: is no blob: it begins with {magic!r}")
    if checksum != crc32(header[: _START.size - 4]):
        raise BlobError(f"{path}: its header is damaged")
    if version != VERSION:
        raise BlobError(
            f"{path}: has version {version} of the format, this package reads {VERSION}: update it"
        )
    slots: list[Slot | None] = []
    for at in (_START.size, _START.size + _SLOT.size):
        number, end, checksum = _SLOT.unpack_from(header, at)
        slots.append(Slot(number, end) if _slot(number, end) == header[at:][: _SLOT.size] else None)
    return slots


def read_index(path: Path, file: BinaryIO, end: int) -> Index:
    """The records of all segments before `end`. Raises BlobError where they do not fit together."""
    size = file.seek(0, os.SEEK_END)
    if end > size:
        raise BlobError(
            f"{path}: was cut off: it has {size} bytes of {end}; FileBlob.repair(path) goes back "
            "to the last whole commit"
        )
    segments: list[tuple[int, array[int], array[int]]] = []
    while end > HEADER:
        segment = _read_segment(path, file, end)
        segments.append(segment)
        end = segment[0]
    index = Index()
    for start, sizes, checksums in reversed(segments):
        index.sizes.extend(sizes)
        index.checksums.extend(checksums)
        index.starts.extend(accumulate(sizes[:-1], initial=start))
    return index


def _read_segment(path: Path, file: BinaryIO, end: int) -> tuple[int, array[int], array[int]]:
    last = end - _TRAILER.size
    if last < HEADER:
        raise BlobError(f"{path}: a segment ends at byte {end}, inside the header")
    trailer = read_at(path, file, last, _TRAILER.size)
    start, count, checksum = _TRAILER.unpack(trailer)
    # Before anything is read or made: what is announced has to fit into the file.
    if not (HEADER <= start < last and 0 < count <= (last - start) // _PER_RECORD):
        raise BlobError(
            f"{path}: the segment that ends at byte {end} is damaged: it claims to begin at "
            f"{start} and to hold {count} records"
        )
    first = last - count * _PER_RECORD
    table = read_at(path, file, first, count * _PER_RECORD)
    if checksum != crc32(trailer[:16], crc32(table)):
        raise BlobError(f"{path}: the index at byte {first} does not match its checksum")
    sizes, checksums = array("Q", table[: 8 * count]), array("I", table[8 * count :])
    if sum(sizes) != first - start:
        raise BlobError(f"{path}: {sum(sizes)} bytes of records where there are {first - start}")
    return start, sizes, checksums


def write_segment(file: BinaryIO, start: int, at: int, index: Index, first: int) -> int:
    """Write the end of the segment of the records from `first` on; returns where it ends."""
    table = index.sizes[first:].tobytes() + index.checksums[first:].tobytes()
    head = struct.pack("<QQ", start, len(index) - first)
    write_at(file, at, table + head + struct.pack("<Q", crc32(head, crc32(table))))
    os.fsync(file.fileno())
    return at + len(table) + _TRAILER.size


def write_slot(file: BinaryIO, number: int, end: int) -> None:
    """Say that the file ends at `end`; of the two slots, `number` takes the older one."""
    write_at(file, _START.size + _SLOT.size * ((number + 1) % 2), _slot(number, end))
    os.fsync(file.fileno())


def _slot(number: int, end: int) -> bytes:
    content = struct.pack("<QQ", number, end)
    return content + struct.pack("<Q", crc32(content))


def write_at(file: BinaryIO, at: int, data: bytes | memoryview) -> None:
    """All of `data` at byte `at` of an unbuffered file."""
    file.seek(at)
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def read_at(path: Path, file: BinaryIO, at: int, count: int) -> bytes:
    """`count` bytes at byte `at`. Raises BlobError when the file ends before."""
    file.seek(at)
    parts = []
    while count and (part := file.read(count)):
        parts.append(part)
        count -= len(part)
    if count:
        raise BlobError(f"{path}: was cut off: {count} bytes are missing at byte {at}")
    return b"".join(parts)


def lock(path: Path, file: BinaryIO) -> None:
    """Keep a second writer out, until the file is closed (where the system has such locks)."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlobError(
                f"{path}: is being written elsewhere: a blob has one writer at a time"
            ) from error
