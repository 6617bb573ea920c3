"""Datasets of stored samples: `FileBlob` and `MemoryBlob`."""

from __future__ import annotations

import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, BinaryIO, Literal, cast, get_args
from zlib import crc32

import fl_tensor as ft
from fl_data.blobs import container
from fl_data.blobs.codec import RawTensor, decode, encode, map_tensors
from fl_data.dataset import Dataset
from fl_data.errors import BlobError, DataError
from fl_data.files import require_little_endian
from fl_data.samples import Sample, check_index
from fl_memory import free_after_fork
from fl_tensor.files import open_regular, target_of

#: `(bytes, shape, dtype) -> value`
HostTransform = Callable[[memoryview, tuple[int, ...], ft.DType], Any]
Mode = Literal["r", "a", "w"]


class Blob(Dataset):
    """Samples kept as bytes, to which more can be added.

    A field is a tensor of any dtype and shape, a number, text, bytes, None, or a tuple, list or
    dict of these; what comes back is equal to what was added, tensors on the default backend.
    `host_transforms={field: fn}` makes something else of a tensor, before it becomes one:
    `fn(data, shape, dtype)` gets its bytes, read-only, and gives the field's value.

    Reading and adding may go on in several threads at once.
    """

    def __init__(self, host_transforms: Mapping[int | str, HostTransform] | None) -> None:
        self._hooks = dict(host_transforms or {})

    @abstractmethod
    def record(self, index: int) -> memoryview:
        """The bytes of sample `index`, checked against their checksum."""

    @abstractmethod
    def _append(self, record: bytes | memoryview) -> None: ...

    def add(self, value: Sample | Blob) -> None:
        """Append a sample, or all samples of another blob (copied as bytes).

        Raises `SampleTypeError` for a field that cannot be stored; nothing is added then.
        """
        if isinstance(value, Blob):
            for i in range(len(value)):
                self._append(value.record(i))
        else:
            self._append(encode(value))

    def raw(self, index: int) -> Sample:
        """Sample `index` with a `RawTensor` (bytes, shape, dtype) for every tensor, not copied."""
        record = self.record(index)
        try:
            return decode(record)
        except BlobError as error:
            raise BlobError(f"{self!r}: sample {index} is damaged: {error}") from error

    def __getitem__(self, index: int) -> Sample:
        sample = self.raw(index)
        if self._hooks:
            sample = self._hooked(sample)
        return cast(Sample, map_tensors(sample, RawTensor.tensor))

    def verify(self) -> None:
        """Read every sample. Raises `BlobError` for the first one that is damaged."""
        for i in range(len(self)):
            self.raw(i)

    def _hooked(self, sample: Sample) -> Sample:
        names = sample if isinstance(sample, dict) else range(len(sample))
        fields: dict[Any, Any] = {name: sample[name] for name in names}  # type: ignore[index]
        for name, hook in self._hooks.items():
            value = fields.get(name)
            if not isinstance(value, RawTensor):
                raise DataError(
                    f"[blob] there is a host transform for field {name!r}, which is "
                    f"{'no tensor' if name in fields else 'not in the sample'}: {list(fields)}"
                )
            fields[name] = hook(*value)
        return fields if isinstance(sample, dict) else tuple(fields.values())


class MemoryBlob(Blob):
    """A blob in memory, at first of `samples`."""

    def __init__(
        self,
        samples: Iterable[Sample] = (),
        host_transforms: Mapping[int | str, HostTransform] | None = None,
    ) -> None:
        super().__init__(host_transforms)
        self._records: list[bytes] = []
        for sample in samples:
            self.add(sample)

    def __len__(self) -> int:
        return len(self._records)

    def record(self, index: int) -> memoryview:
        return memoryview(self._records[check_index(index, len(self), "MemoryBlob")])

    def _append(self, record: bytes | memoryview) -> None:
        self._records.append(bytes(record))

    def __repr__(self) -> str:
        return f"MemoryBlob({len(self)} samples)"


class FileBlob(Blob):
    """A blob in the file `path`, read through a memory map.

    `mode` is `"r"` (read), `"a"` (add to it, or begin it) or `"w"` (begin anew). What was added is
    there for others after `commit()`, which the end of a `with` block does unless it is left by an
    error, and `close()`; a process that dies loses what it had not committed, nothing else. There
    is one writer at a time, and any number of readers in any processes, who see the samples that
    were committed when they opened the file.

    Every byte is under a checksum, looked at when it is read; a file that is damaged, cut off, or
    something else is a `BlobError`. `fl_data.blobs.container` describes the format.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "r",
        host_transforms: Mapping[int | str, HostTransform] | None = None,
    ) -> None:
        super().__init__(host_transforms)
        if mode not in get_args(Mode):
            raise DataError(f"[FileBlob] unknown mode {mode!r}: use one of {get_args(Mode)}")
        self.path, self.mode = Path(path), mode
        self._lock = free_after_fork(RLock())
        self._file: BinaryIO | None = _open(self.path, mode)
        try:
            slot, _ = container.read_slots(self.path, self._file)
            self._index = container.read_index(self.path, self._file, slot.end)
            if mode != "r":
                self._file.truncate(slot.end)  # what a writer left behind that died
            self._map: mmap.mmap | None = _mapped(self._file)
        except BaseException:
            self._file.close()
            raise
        if mode == "r":  # the map is enough
            self._file.close()
            self._file = None
        self._number, self._committed = slot.number, len(self._index)
        self._segment = self._end = slot.end

    def __len__(self) -> int:
        return len(self._index)

    def record(self, index: int) -> memoryview:
        number = check_index(index, len(self), "FileBlob")
        start, size = self._index.starts[number], self._index.sizes[number]
        found = self._bytes(start, start + size)
        if crc32(found) != self._index.checksums[number]:
            raise BlobError(
                f"{self.path}: sample {number} does not match its checksum: the file was damaged "
                "after it was written"
            )
        return found

    def _append(self, record: bytes | memoryview) -> None:
        with self._lock:
            container.write_at(self._writable("add"), self._end, record)
            self._index.append(self._end, len(record), crc32(record))
            self._end += len(record)

    def commit(self) -> None:
        """Put what was added on the disk, for good, and show it to those who open the file."""
        with self._lock:
            file = self._writable("commit")
            if self._committed == len(self._index):
                return
            end = container.write_segment(
                file, self._segment, self._end, self._index, self._committed
            )
            container.write_slot(file, self._number + 1, end)
            self._number, self._committed = self._number + 1, len(self._index)
            self._segment = self._end = end

    def close(self) -> None:
        """Commit, and close the file. Reading goes on as long as a `raw` sample is held."""
        with self._lock:
            if self._file is not None:
                self.commit()
            self._drop()

    def _drop(self) -> None:
        file, self._file, self._map = self._file, None, None
        if file is not None:
            file.close()

    @staticmethod
    def repair(path: str | os.PathLike[str]) -> int:
        """Bring a file that was cut off, or whose header is damaged, back to the last commit that
        is whole; returns its number of samples. What comes after is cut away.

        Raises `BlobError` when neither of the last two commits is whole.
        """
        place = Path(path)
        with _open(place, "a", must_exist=True) as file:
            for slot in container.valid_slots(place, file):
                try:
                    index = container.read_index(place, file, slot.end)
                    for start, size, checksum in zip(
                        index.starts, index.sizes, index.checksums, strict=True
                    ):
                        if crc32(container.read_at(place, file, start, size)) != checksum:
                            raise BlobError(f"{place}: the sample at byte {start} is damaged")
                except BlobError:
                    continue
                file.truncate(slot.end)
                container.write_slot(file, slot.number + 1, slot.end)
                container.write_slot(file, slot.number + 2, slot.end)
                return len(index)
        raise BlobError(f"{place}: no commit is whole: restore it from a copy")

    def _writable(self, what: str) -> BinaryIO:
        if self.mode == "r":
            raise BlobError(f"[FileBlob] {what}: {self.path} is open to read; use mode 'a'")
        if self._file is None:
            raise BlobError(f"[FileBlob] {what}: {self.path} was closed")
        return self._file

    def _bytes(self, start: int, stop: int) -> memoryview:
        found = self._map
        if found is not None and stop > len(found):
            with self._lock:
                if self._file is not None:
                    self._map = found = _mapped(self._file)  # it has grown
        if found is None:
            raise BlobError(f"[FileBlob] read: {self.path} was closed")
        return memoryview(found)[start:stop]

    def __enter__(self) -> FileBlob:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            with self._lock:
                self._drop()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.mode != "r":
            raise BlobError(f"[FileBlob] {self.path} is being written: other processes may open it")
        return FileBlob, (self.path, "r", self._hooks)

    def __repr__(self) -> str:
        return f"FileBlob({os.fspath(self.path)!r}, {len(self)} samples)"


def _mapped(file: BinaryIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _open(path: Path, mode: Mode, must_exist: bool = False) -> BinaryIO:
    """The file, unbuffered; locked and with a header if it is to be written."""
    require_little_endian("FileBlob")
    try:
        if mode == "r":
            return open_regular(path, buffering=0)
        path = target_of(path)
        if mode == "w":
            path.unlink(missing_ok=True)  # who reads the old one may go on
        flags = os.O_RDWR | (0 if must_exist else os.O_CREAT) | getattr(os, "O_BINARY", 0)
        file = cast(BinaryIO, open(os.open(path, flags, 0o666), "r+b", buffering=0))
    except OSError as error:
        raise BlobError(f"{path}: cannot be opened ({error.strerror or error})") from error
    try:
        container.lock(path, file)
        if file.seek(0, os.SEEK_END) == 0 and not must_exist:
            container.create(file)
    except BaseException:
        file.close()
        raise
    return file
