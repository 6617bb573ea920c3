"""``PartialFile``: the part of a text file for one of several ranks or workers."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import BinaryIO

from fl_tensor.annotations import Checked
from fl_tensor.files import open_regular
from fl_text.corpus import MAX_LINE
from fl_text.errors import TextError, TextFileError

_BLOCK = 1 << 22


class PartialFile(Checked):
    """The lines of part `rank` of `world` parts of a UTF-8 file; may be iterated again and again.

    Parts have nearly equal bytes. A line belongs to the part in which it begins, so the parts, one
    after another, are the file. Lines are as `TextFiles` gives them. Raises `TextError` for a rank
    outside 0 .. `world - 1`, and `TextFileError` naming file, line and byte.
    """

    def __init__(self, path: str | os.PathLike[str], rank: int, world: int) -> None:
        if world < 1 or not 0 <= rank < world:
            raise TextError(
                f"[PartialFile] rank {rank} of {world}: ranks are 0 .. world - 1, and world is at "
                "least 1"
            )
        self.path = os.fspath(path)
        self.rank, self.world = rank, world

    def __iter__(self) -> Iterator[str]:
        for position, block in self.blocks():
            if position == 0:
                block = block.removeprefix(b"\xef\xbb\xbf")
            for raw in io.BytesIO(block):
                yield (raw[:-2] + b"\n" if raw.endswith(b"\r\n") else raw).decode()

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Pieces of the part, `(position in the file, bytes)`: whole lines of valid UTF-8, some
        megabytes each."""
        try:
            with open_regular(self.path) as file:
                size = os.fstat(file.fileno()).st_size
                start, stop = (size * rank // self.world for rank in (self.rank, self.rank + 1))
                if start:
                    file.seek(start - 1)
                    self._line(file)  # the rest of the line of the part before
                while (position := file.tell()) < stop:
                    block = file.read(min(_BLOCK, stop - position))
                    if not block.endswith(b"\n"):
                        block += self._line(file)
                    self._check(position, block)
                    yield position, block
        except OSError as error:
            raise TextFileError(
                self.path, f"unreadable ({error.strerror})", "check the path and its permissions"
            ) from error

    def _line(self, file: BinaryIO) -> bytes:
        position = file.tell()
        raw = file.readline(MAX_LINE + 1)
        if len(raw) > MAX_LINE:
            raise TextFileError(
                self.path,
                f"line {self._line_of(position)} is longer than {MAX_LINE} bytes",
                "break it up",
            )
        return raw

    def _check(self, position: int, block: bytes) -> None:
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            place = position + error.start
            begin = block.rfind(b"\n", 0, error.start) + 1
            raise TextFileError(
                self.path,
                f"line {self._line_of(place)} is not UTF-8 (byte 0x{block[error.start]:02x} at "
                f"{error.start - begin}, {place} of the file)",
                "convert the file to UTF-8",
            ) from error

    def _line_of(self, position: int) -> int:
        """The number of the line in which a byte stands; reads the file up to there."""
        lines = 1
        with open_regular(self.path) as file:
            while position > 0 and (block := file.read(min(_BLOCK, position))):
                lines += block.count(b"\n")
                position -= len(block)
        return lines

    def __repr__(self) -> str:
        return f"PartialFile({self.path!r}, rank={self.rank}, world={self.world})"
