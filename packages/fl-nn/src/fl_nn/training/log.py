"""JSON lines: one record per line, for programs that read what a run did."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fl_tensor.annotations import Checked
from fl_tensor.files import open_regular, target_of


class JsonLog(Checked):
    """Appends records to a regular file. `position` and `rewind` let a resumed run drop what an
    interrupted one logged after its last checkpoint."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        target_of(self.path)  # raises for what is no path

    def clear(self) -> None:
        """Begin an empty file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        target_of(self.path).write_bytes(b"")

    def write(self, record: Mapping[str, Any]) -> None:
        """Append one record. The line is whole in the file when this returns. Figures that are not
        finite, for which JSON has no words, are null."""
        line = json.dumps(_finite(dict(record)), allow_nan=False) + "\n"
        with open(target_of(self.path), "ab") as file:
            file.write(line.encode())

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
