"""Datasets over memory-mapped files: a sample is read on demand."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data.arrays.npy import read_npy_header
from fl_data.dataset import Dataset, Sample, check_count, check_index, check_indices
from fl_data.errors import DataError, FileFormatError
from fl_data.files import opened, require_little_endian

_PathLike = str | os.PathLike[str]


class MappedArray:
    """An array in a file, `(n, ...)` in C order, whose rows become tensors one at a time.

    `MappedArray.npy(path)` is what `numpy.save` wrote, `MappedArray.raw(path, dtype, shape)` bytes
    without a header. The file is mapped, not read: it may be larger than memory, processes share
    what the system keeps of it, and a copy sent to another process is a path.

    Raises `FileFormatError` for a file that is missing, too short, or holds something else. The
    file must not be cut while it is mapped: the system ends a process that reads beyond its end.
    """

    def __init__(self, path: Path, dtype: ft.DType, shape: Sequence[int], offset: int) -> None:
        require_little_endian("MappedArray")
        self.path, self.dtype, self.offset = path, dtype, offset
        self.shape = tuple(shape)
        if not self.shape:
            raise FileFormatError(f"{path}: holds one number, without an axis of samples")
        self._row_bytes = math.prod(self.shape[1:]) * dtype.itemsize
        with opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            end = offset + self.shape[0] * self._row_bytes
            if size < end:
                raise FileFormatError(
                    f"{path}: has {size} bytes, but {self.shape} of {dtype} end at byte {end}: "
                    "it was cut off, or shape, dtype or offset are others"
                )
            # An empty file cannot be mapped.
            self._bytes = memoryview(
                mmap.mmap(file.fileno(), end, access=mmap.ACCESS_READ) if end else b""
            )

    @classmethod
    def npy(cls, path: _PathLike, dtype: object | None = None) -> MappedArray:
        """The array of a `.npy` file; `dtype` only for what NumPy has no name for: bfloat16."""
        place = Path(path)
        with opened(place) as file:
            header = read_npy_header(place, file, dtype)
        return cls(place, header.dtype, header.shape, header.offset)

    @classmethod
    def raw(
        cls, path: _PathLike, dtype: object, shape: Sequence[int], offset: int = 0
    ) -> MappedArray:
        """The elements, little-endian, that begin at byte `offset`; an extent of -1 for the number
        of samples is as many as there are."""
        place, kind = Path(path), ft.dtype(dtype)
        start = check_count(offset, "offset", "MappedArray")
        extents = list(shape)
        if extents[:1] == [-1]:
            row = math.prod(extents[1:]) * kind.itemsize
            with opened(place) as file:
                rest = os.fstat(file.fileno()).st_size - start
            if row <= 0 or rest < 0 or rest % row:
                raise FileFormatError(f"{place}: {rest} bytes are no multiple of {row} per sample")
            extents[0] = rest // row
        return cls(
            place, kind, [check_count(n, "an extent", "MappedArray") for n in extents], start
        )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: int) -> ft.Tensor:
        row = check_index(index, len(self), "MappedArray")
        return self._tensor(self._rows(row, row + 1), self.shape[1:])

    def gather(self, indices: Sequence[int]) -> ft.Tensor:
        """Rows `indices` as one tensor `(len(indices), ...)`."""
        rows = check_indices(indices, len(self), "MappedArray")
        if isinstance(rows, range) and rows.step == 1:
            found = self._rows(rows.start, rows.stop)
        else:
            found = memoryview(b"".join([self._rows(row, row + 1) for row in rows]))
        return self._tensor(found, (len(rows), *self.shape[1:]))

    def _rows(self, start: int, stop: int) -> memoryview:
        size = self._row_bytes
        return self._bytes[self.offset + start * size : self.offset + stop * size]

    def _tensor(self, content: memoryview, shape: tuple[int, ...]) -> ft.Tensor:
        if self.dtype is ft.bool and bytes(content).strip(b"\0\1"):
            raise FileFormatError(f"{self.path}: bools are bytes 0 and 1, and it holds others")
        return ft.frombytes(content, shape, self.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return MappedArray, (self.path, self.dtype, self.shape, self.offset)

    def __repr__(self) -> str:
        return f"{os.fspath(self.path)!r} {self.shape} {self.dtype}"


class MappedDataset(Dataset):
    """Sample `i` is row `i` of every array: `MappedDataset("images.npy", "labels.npy")[i]`.

    An array is the path of a `.npy` file or a `MappedArray`; named ones give dicts. This is
    `TensorDataset` for what stays in files.
    """

    def __init__(self, *arrays: Any, **named: Any) -> None:
        if bool(arrays) == bool(named):
            raise DataError(
                "[MappedDataset] give arrays or named arrays, at least one and not both kinds"
            )
        self._names = tuple(named) if named else None
        self._arrays = tuple(
            array if isinstance(array, MappedArray) else MappedArray.npy(array)
            for array in (arrays or named.values())
        )
        if len({len(array) for array in self._arrays}) > 1:
            raise DataError(
                f"[MappedDataset] {', '.join(map(repr, self._arrays))} hold "
                f"{[len(array) for array in self._arrays]} samples: the numbers must be equal"
            )

    @property
    def arrays(self) -> tuple[MappedArray, ...]:
        """The arrays, each `(n, ...)`."""
        return self._arrays

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __getitem__(self, index: int) -> Sample:
        row = check_index(index, len(self), "MappedDataset")
        return self._sample([array[row] for array in self._arrays])

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, len(self), "MappedDataset")
        return self._sample([array.gather(rows) for array in self._arrays])

    def _sample(self, values: list[ft.Tensor]) -> Sample:
        if self._names is not None:
            return dict(zip(self._names, values, strict=True))
        return tuple(values)

    def __repr__(self) -> str:
        return f"MappedDataset({', '.join(map(repr, self._arrays))})"
