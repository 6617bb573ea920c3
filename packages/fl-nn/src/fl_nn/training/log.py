"""JSON lines: one record per line, for programs that read what a run did."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fl_tensor import FileError
from fl_tensor.annotations import Checked
from fl_tensor.files import open_regular, target_of, unwritable


class JsonLog(Checked):
    """Appends records to a regular file; FileError where it cannot be written.

    `position` and `rewind` let a resumed run drop what an interrupted one logged after its last
    checkpoint."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        target_of(self.path)  # raises for what is no path

    def clear(self) -> None:
        """Begin an empty file."""
        with self._naming_failures():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            target_of(self.path).write_bytes(b"")

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record. The line is whole in the file when this returns. Figures that are not
        finite, for which JSON has no words, are null."""
        line = json.dumps(_finite(dict(record)), allow_nan=False) + "\n"
        with self._naming_failures(), open(target_of(self.path), "ab") as file:
            file.write(line.encode())

    @contextmanager
    def _naming_failures(self) -> Iterator[None]:
        try:
            yield
        except FileError:
            raise
        except OSError as error:
            raise unwritable(self.path, error) from error

    @property
    def position(self) -> int:
        """The length of the file, for `rewind`."""
        return self.path.stat().st_size if self.path.exists() else 0

    def rewind(self, position: int) -> None:
        """Drop what was written after `position`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.position > position:
            os.truncate(self.path, position)

    def read(self) -> list[dict[str, Any]]:
        """All records."""
        with open_regular(self.path) as file:
            return [json.loads(line) for line in file]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value
