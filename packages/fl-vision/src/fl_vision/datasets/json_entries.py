"""Reading the lists of a large JSON file entry by entry.

The file is one object; of each list in it one entry at a time is in memory. So files of many GB can
be read, and the memory depends on the longest entry alone.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from fl_tensor.files import open_regular
from fl_vision.errors import DataFileError, DataMissingError

MAX_ENTRY = 64 << 20
"""The most bytes that one entry may have."""

_CHUNK = 1 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class Entry(NamedTuple):
    """An entry of a list of the file: its bytes are `start .. stop - 1`."""

    key: str
    number: int
    value: Any
    start: int
    stop: int


def json_entries(path: Path, reader: str) -> Iterator[Entry]:
    """The entries of all lists in the object that the file holds. Other values of the object are
    read past.

    Raises `DataMissingError` where there is no such file, and `DataFileError` for a file that may
    not be read, is no JSON object, is cut off, or has an entry of more than `MAX_ENTRY` bytes.
    """
    try:
        with open_regular(path) as file:
            yield from _Scanner(path, reader, file).entries()
    except FileNotFoundError:
        raise DataMissingError(f"[{reader}] {path}: no such file; check the path") from None
    except OSError as error:
        raise DataFileError(
            reader, path, f"cannot be read ({error.strerror or error})", "check the path"
        ) from None


def read_entry(path: Path, start: int, stop: int, reader: str) -> Any:
    """The value that lies in bytes `start .. stop - 1` of the file; raises `DataFileError` where
    the file is not the one that these numbers are of."""
    try:
        with open_regular(path) as file:
            file.seek(start)
            return json.loads(file.read(stop - start))
    except (OSError, ValueError, RecursionError):
        raise DataFileError(
            reader, path, "has changed since it was opened, or is gone", "read it again"
        ) from None


class _Scanner:
    """A place in the text of a file, of which a piece is in memory."""

    def __init__(self, path: Path, reader: str, file: BinaryIO) -> None:
        self._path, self._reader, self._file = path, reader, file
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._ended = "", False
        #: The place in the text, and the same place in the file, in bytes.
        self._at, self._byte = 0, 0

    def entries(self) -> Iterator[Entry]:
        self._expect("{")
        if self._next() == "}":
            self._expect("}")
            return self._end()
        while True:
            key, _, _ = self._value()
            if not isinstance(key, str):
                raise self._wrong("a name")
            self._expect(":")
            if self._next() == "[":
                yield from self._list(key)
            else:
                self._value()
            if self._next() != ",":
                break
            self._expect(",")
        self._expect("}")
        return self._end()

    def _list(self, key: str) -> Iterator[Entry]:
        self._expect("[")
        if self._next() == "]":
            return self._expect("]")
        number = 0
        while True:
            yield Entry(key, number, *self._value())
            number += 1
            if self._next() != ",":
                break
            self._expect(",")
        return self._expect("]")

    def _value(self) -> tuple[Any, int, int]:
        """The value that is next, and where it begins and ends in the file, in bytes."""
        self._next()
        start, wanted = self._byte, _CHUNK
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
                if end < len(self._text) or self._ended:  # else a number may go on
                    break
            except json.JSONDecodeError as error:
                if self._ended:
                    raise self._wrong(f"a value ({error.msg})") from None
            except (ValueError, RecursionError) as error:
                raise self._error(
                    f"has a value at byte {start} that is too deep or too long ({error})"
                ) from None
            if len(self._text) - self._at > MAX_ENTRY:
                raise self._error(
                    f"has a value at byte {start} that is damaged or longer than {MAX_ENTRY} bytes"
                )
            self._more(wanted)
            wanted = len(self._text)
        self._go(end)
        return value, start, self._byte

    def _next(self) -> str:
        """The character behind white space; "" at the end of the file."""
        while True:
            found = _SPACE.match(self._text, self._at)
            self._go(found.end() if found else self._at)
            if self._at < len(self._text) or self._ended:
                return self._text[self._at : self._at + 1]
            self._more(_CHUNK)

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise self._wrong(repr(character))
        self._go(self._at + 1)

    def _end(self) -> None:
        if self._next():
            raise self._wrong("nothing more")

    def _go(self, place: int) -> None:
        passed = self._text[self._at : place]
        self._byte += len(passed) if passed.isascii() else len(passed.encode())
        self._at = place

    def _more(self, count: int) -> None:
        """Read on, and let go of what lies behind."""
        content = self._file.read(count)
        self._ended = not content
        try:
            self._text, self._at = self._text[self._at :] + self._decode(content, self._ended), 0
        except UnicodeDecodeError as error:
            raise self._error(f"is no UTF-8 ({error.reason})") from None
        if self._byte == 0 and self._text[:1] == "\ufeff":
            self._go(1)

    def _wrong(self, wanted: str) -> DataFileError:
        cut = ", where it ends" if self._ended and self._at >= len(self._text) else ""
        return self._error(f"is no JSON object: expected {wanted} at byte {self._byte}{cut}")

    def _error(self, problem: str) -> DataFileError:
        return DataFileError(self._reader, self._path, problem, "get the file again, or repair it")
