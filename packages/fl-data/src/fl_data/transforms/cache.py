"""Cached functions on samples, in memory or on disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast
from zlib import crc32

from fl_data.blobs.codec import RawTensor, decode, encode, map_tensors
from fl_data.dataset import Dataset, as_dataset
from fl_data.errors import DataError, SampleTypeError
from fl_data.samples import Sample, as_sample, check_count, check_index
from fl_data.transforms.fingerprint import fingerprint
from fl_memory import free_after_fork


class CachedTransform(Dataset):
    """`Transform(ds, fn)`, which computes `fn(sample)` once and keeps the result.

    Results are kept in memory, or, where `folder` is given, in files that later runs and other
    processes find: at most `max_bytes` of them (those that were not asked for longest go first). Of
    a folder, each process may exceed this by a sixteenth. `fn` gives the same for the same sample,
    always: random functions belong behind it, into `RandomTransform`. Its results are of what blobs
    can store; a hit is a copy.

    A result is found by what it was made of: the content of the input sample and a `fingerprint`
    of `fn` (its code, constants, and the functions and values of yours that it uses), so neither
    changed data nor a changed function is served a stale value. `version` says it in your words
    instead: then `fn` has changed when `version` has, and only then. `key(index)` names the input
    of sample `index` (a path and its time of change, say) where reading it would take too long;
    it has to be another text when the sample is another, also of another dataset in this folder.

    Threads and processes may fill one folder at once: a file appears whole or not at all, and one
    that was damaged is made anew.
    """

    def __init__(
        self,
        ds: object,
        fn: Callable[[Any], Any],
        *,
        folder: str | os.PathLike[str] | None = None,
        max_bytes: int | None = None,
        version: str | None = None,
        key: Callable[[int], str] | None = None,
    ) -> None:
        self._ds = as_dataset(ds)
        if not callable(fn):
            raise SampleTypeError(f"[CachedTransform] {fn!r} is not callable")
        if max_bytes is not None:
            check_count(max_bytes, "max_bytes", "CachedTransform")
        self._fn, self._key = fn, key
        self._version = f"version {version}" if version is not None else fingerprint(fn)
        self._store: _Store = (
            _Memory(max_bytes) if folder is None else _Folder(Path(folder), max_bytes)
        )

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __len__(self) -> int:
        return len(self._ds)

    def __getitem__(self, index: int) -> Sample:
        row = check_index(index, len(self), "CachedTransform")
        sample = None if self._key is not None else self._ds[row]
        made_of = f"key {self._named(row)}".encode() if sample is None else _content(sample)
        name = _digest(self._version.encode(), made_of)
        record = self._store.get(name)
        if record is not None:
            return _read(record)
        found = self._fn(sample if sample is not None else self._ds[row])
        record = encode(as_sample(found, "CachedTransform"))
        self._store.put(name, record)
        return _read(record)  # the same, whether it was there or not

    def _named(self, row: int) -> str:
        assert self._key is not None
        name = self._key(row)
        if not isinstance(name, str):
            raise SampleTypeError(f"[CachedTransform] key({row}) is a {type(name).__name__}: a str")
        return name


class _Store(Protocol):
    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, record: bytes) -> None: ...


class _Memory:
    """The records that were asked for last."""

    def __init__(self, max_bytes: int | None) -> None:
        self._max, self._bytes = max_bytes, 0
        self._records: OrderedDict[str, bytes] = OrderedDict()
        self._lock = free_after_fork(threading.Lock())

    def get(self, name: str) -> bytes | None:
        with self._lock:
            if name in self._records:
                self._records.move_to_end(name)
            return self._records.get(name)

    def put(self, name: str, record: bytes) -> None:
        with self._lock:
            if name not in self._records:
                self._records[name] = record
                self._bytes += len(record)
            while self._max is not None and self._bytes > self._max:
                _, gone = self._records.popitem(last=False)
                self._bytes -= len(gone)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Memory, (self._max,)  # another process begins with an empty one


#: The names of records below a folder.
_RECORD = "[0-9a-f]" * 2 + "/" + "[0-9a-f]" * 38


class _Folder:
    """A file for each record: its CRC-32, and itself. Its time of change is that of the last use,
    if there is a bound."""

    def __init__(self, folder: Path, max_bytes: int | None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataError(f"[CachedTransform] folder {folder}: {reason}") from error
        self._folder, self._max = folder, max_bytes
        #: Bytes that may be written before the folder is looked at again.
        self._room = 0
        self._lock = free_after_fork(threading.Lock())

    def get(self, name: str) -> bytes | None:
        try:
            content = self._path(name).read_bytes()
            if self._max is not None:
                os.utime(self._path(name))
        except FileNotFoundError:
            return None
        record = content[4:]
        return record if content[:4] == crc32(record).to_bytes(4, "little") and record else None

    def put(self, name: str, record: bytes) -> None:
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=".partial-")
        try:
            with open(handle, "wb") as file:
                file.write(crc32(record).to_bytes(4, "little") + record)
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise
        if self._max is not None:
            with self._lock:
                self._room -= len(record) + 4
                if self._room < 0:
                    self._room = self._make_room(self._max)

    def _make_room(self, most: int) -> int:
        """Remove records, the longest unused first, where there are more than `most` bytes; how
        many may be written before the next look."""
        found = []
        for path in self._folder.glob(_RECORD):
            with suppress(FileNotFoundError):  # another process has removed it
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        held = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if held <= most:
                break
            path.unlink(missing_ok=True)
            held -= size
        return min(most // 16, most - held)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Folder, (self._folder, self._max)

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name[2:]


def _content(sample: Sample) -> bytes:
    try:
        return encode(sample)
    except SampleTypeError as error:
        raise SampleTypeError(
            f"[CachedTransform] an input has no content to be found by ({error}): give key="
        ) from error


def _read(record: bytes) -> Sample:
    return cast(Sample, map_tensors(decode(memoryview(record)), RawTensor.tensor))


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(b"fl_data cache 1", digest_size=20)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()
