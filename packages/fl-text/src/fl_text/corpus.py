"""Text files as lines, bounded and validated."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from fl_tensor.annotations import Checked
from fl_tensor.files import open_regular, replacing
from fl_text.errors import TextError, TextFileError

MAX_BYTES = 1 << 32
"""The largest file that `TextFiles` reads unless told otherwise: 4 GiB."""

MAX_LINE = 1 << 24
"""The longest line in bytes: 16 MiB."""


class TextFiles(Checked):
    """The lines of UTF-8 files, plain or compressed by gzip, one file after another; may be
    iterated any number of times.

    Lines keep their `"\\n"` (`"\\r\\n"` becomes `"\\n"`); a byte order mark is dropped. Lines are
    read when they are asked for. Raises `TextFileError` naming the file (and the line) if it is
    missing, larger than `max_bytes` as it is or unpacked, has a line over `max_line` bytes, or is
    not UTF-8.
    """

    def __init__(
        self,
        *paths: str | os.PathLike[str],
        max_bytes: int = MAX_BYTES,
        max_line: int = MAX_LINE,
    ) -> None:
        if not paths:
            raise TextError("[TextFiles] give at least one path")
        self.paths = [os.fspath(path) for path in paths]
        self._max_line, self._max_bytes = max_line, max_bytes
        for path in self.paths:
            if not os.path.isfile(path):
                raise TextFileError(path, "no such file", "check the path")
            if os.path.getsize(path) > max_bytes:
                raise TextFileError(
                    path,
                    f"{os.path.getsize(path)} bytes are more than max_bytes={max_bytes}",
                    "split the file, or raise max_bytes",
                )

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            yield from read_lines(path, self._max_line, self._max_bytes)

    def __repr__(self) -> str:
        return f"TextFiles({', '.join(map(repr, self.paths))})"


def read_lines(
    path: str,
    max_line: int = MAX_LINE,
    max_bytes: int | None = None,
    skip: Callable[[TextFileError], None] | None = None,
) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or compressed by gzip, as `TextFiles` gives them. `skip`
    gets the error of each bad line, and the lines go on behind it; they end where gzip data are
    damaged."""
    number, size = 0, 0
    try:
        with open_regular(path) as file, _unpacked(file) as lines:
            while raw := lines.readline(max_line + 1):
                number += 1
                size += len(raw)
                if max_bytes is not None and size > max_bytes:
                    raise TextFileError(
                        path,
                        f"line {number} ends beyond max_bytes={max_bytes}",
                        "split the file, or raise max_bytes",
                    )
                try:
                    line = _decoded(path, number, raw, max_line)
                except TextFileError as error:
                    if skip is None:
                        raise
                    skip(error)
                    while len(raw) > max_line and not raw.endswith(b"\n"):
                        raw = lines.readline(max_line + 1)
                    continue
                yield line
    except (EOFError, OSError, zlib.error) as error:
        packed = getattr(error, "errno", None) is None
        problem = f"line {number + 1}: damaged gzip data ({error})" if packed else None
        failed = TextFileError(
            path,
            problem or f"unreadable ({getattr(error, 'strerror', error)})",
            "compress it again" if packed else "check its permissions",
        )
        if skip is None:
            raise failed from error
        skip(failed)


@contextmanager
def _unpacked(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file, or what gzip made it of: no text in UTF-8 begins with its two bytes."""
    begin = file.read(2)
    file.seek(0)
    if begin != b"\x1f\x8b":
        yield file
        return
    import gzip

    with gzip.GzipFile(fileobj=file) as unpacked:
        yield cast(BinaryIO, unpacked)


def _decoded(path: str, number: int, raw: bytes, max_line: int) -> str:
    if len(raw) > max_line:
        raise TextFileError(
            path,
            f"line {number} is longer than max_line={max_line} bytes",
            "break it up, or raise max_line",
        )
    if number == 1:
        raw = raw.removeprefix(b"\xef\xbb\xbf")
    if raw.endswith(b"\r\n"):
        raw = raw[:-2] + b"\n"
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        binary = b"\0" in raw
        raise TextFileError(
            path,
            f"line {number} is not UTF-8 (byte 0x{raw[error.start]:02x} at {error.start})",
            "it seems to be no text: give text files" if binary else "convert the file to UTF-8",
        ) from error


def as_texts(texts: Iterable[str], where: str) -> Iterator[str]:
    """Each of `texts`, checked; raises `TextError` for what is no text."""
    if isinstance(texts, str | bytes | os.PathLike):
        raise TextError(
            f"[{where}] got one {type(texts).__name__} where several texts are expected: "
            "give a list of texts, or TextFiles(path) for a file"
        )
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TextError(f"[{where}] text {number} is a {type(text).__name__}, not a str")
        yield text


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by UTF-8 text; raises `TextFileError`."""
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise TextFileError(
            path,
            f"{text[error.start]!r} cannot be written as UTF-8 (half of a surrogate pair)",
            "remove it",
        ) from error
    try:
        with replacing(path) as file:
            file.write(raw)
    except OSError as error:
        raise TextFileError(path, str(error.strerror), "check its folder") from error
