"""Errors of the data package. Each is also the ordinary Python error, so plain handlers work."""

from __future__ import annotations

from fl_memory.errors import FlError as FlError


class DataError(FlError, ValueError):
    """Sizes, samples or settings that do not fit together."""


class SampleTypeError(FlError, TypeError):
    """A value of the wrong kind: not a dataset, not a sample, not a function."""


class SampleIndexError(FlError, IndexError):
    """A sample index outside the dataset."""


class IterationError(FlError, RuntimeError):
    """An iterator used in a way that would give samples in the wrong order."""


class WorkerError(FlError, RuntimeError):
    """A sample could not be made in a worker thread; `__cause__` is what the worker raised.

    `index` is the position of the failed sample in the dataset that was prefetched.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class FileFormatError(DataError):
    """A file that is missing, damaged, cut off, or of another kind than was expected."""


class BlobError(FileFormatError):
    """A blob that is damaged, cut off, no blob at all, or used against its mode."""


def add_note(error: BaseException, note: str) -> None:
    """A line below the message of `error` in its traceback (Python 3.11 and later print it)."""
    error.__notes__ = [*getattr(error, "__notes__", ()), note]
