"""The lexer: the words of an architecture file with line and column."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fl_nn.errors import ArchError
from fl_tensor.files import open_regular

#: A file may be as long as this; the longest published one has 20 KiB.
MAX_BYTES = 1 << 20
_SHOWN = 72


@dataclass(frozen=True)
class Line:
    """One line; `number` counts from 1."""

    file: str
    number: int
    text: str

    def error(self, message: str, column: int) -> ArchError:
        """The error that `message` is, with the place in front and a caret below it."""
        start = max(0, column - _SHOWN)
        shown = self.text[start : start + _SHOWN + 16]
        clean = "".join(c if c.isprintable() else " " for c in shown)
        caret = " " * (column - 1 - start) + "^"
        where = f"{self.file}:{self.number}:{column}"
        text = f"{where}: {message}\n    {clean}\n    {caret}"
        return ArchError(text, self.file, self.number, column)


@dataclass(frozen=True)
class Word:
    """A word of a line; `column` counts characters from 1."""

    text: str
    line: Line
    column: int

    def error(self, message: str) -> ArchError:
        return self.line.error(message, self.column)

    def error_behind(self, message: str) -> ArchError:
        """For something that should follow."""
        return self.line.error(message, self.column + len(self.text))


def read(source: str | os.PathLike[str]) -> Iterator[list[Word]]:
    """The words of every line that has any: of a text, or of the file at a path. What follows a #
    is a comment. Raises ArchError for a file that cannot be read, is no UTF-8 or too long."""
    if isinstance(source, str):
        file, text = "<text>", source
    else:
        file, text = os.fspath(source), _text_of(source)
    if len(text) > MAX_BYTES:
        raise ArchError(f"{file}: longer than {MAX_BYTES} bytes: no architecture file", file)
    for number, content in enumerate(text.split("\n"), 1):
        line = Line(file, number, content.rstrip("\r"))
        before, _, _ = line.text.partition("#")
        words = [Word(m[0], line, m.start() + 1) for m in re.finditer(r"\S+", before)]
        if words:
            yield words


def _text_of(path: os.PathLike[str]) -> str:
    file = os.fspath(path)
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise ArchError(f"{file}: cannot be read: {error.strerror or error}", file) from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"{file}:{line}: byte {data[error.start]:#04x} is no UTF-8 text"
        raise ArchError(message, file, line) from error
