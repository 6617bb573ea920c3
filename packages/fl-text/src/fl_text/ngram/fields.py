"""Fields of a text file as arrays of offsets, and their values: words as numbers, decimals.

Eight bytes are read at a time, from any offset, as one number. `Text` has blanks before the file
and behind it, so that this stays inside.
"""

from __future__ import annotations

import os

import numpy as np

from fl_tensor.files import open_regular
from fl_text.errors import TextFileError
from fl_text.ngram.tables import FloatArray, IntArray

PAD = 32
#: The first, or the last, k of eight bytes.
_FIRST = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)
_LAST = ~_FIRST[::-1]
POWERS = 10.0 ** np.arange(116)  # 15 places, and an exponent of two digits


class Text:
    """The bytes of a regular file. Raises TextFileError for one that cannot be read."""

    def __init__(self, path: str | os.PathLike[str], max_bytes: int) -> None:
        self.path = os.fspath(path)
        try:
            with open_regular(path) as file:
                size = os.fstat(file.fileno()).st_size
                if size > max_bytes:
                    raise self.error(
                        f"{size} bytes are more than max_bytes={max_bytes}", "raise max_bytes"
                    )
                self.raw = bytearray(PAD + size + PAD)
                file.readinto(memoryview(self.raw)[PAD : PAD + size])  # type: ignore[attr-defined]
        except OSError as error:
            raise self.error(f"unreadable ({error.strerror})", "check the path") from error
        self.end = PAD + size
        self.raw[PAD - 1] = self.raw[self.end] = ord("\n")
        self.data = np.frombuffer(self.raw, np.uint8)
        self.windows = np.ndarray(len(self.raw) - 7, "<u8", self.raw, strides=(1,))

    def error(self, problem: str, remedy: str, offset: int | None = None) -> TextFileError:
        """An error about the line that `offset` is in."""
        if offset is not None:
            problem = f"line {self.raw.count(10, PAD, offset) + 1}: {problem}"
        return TextFileError(self.path, problem, remedy)

    def shown(self, start: int, stop: int) -> str:
        """A piece of the file for a message."""
        return repr(self.raw[start : min(stop, start + 40)].decode("utf-8", "replace"))

    def fields(self, start: int, stop: int) -> tuple[IntArray, IntArray, IntArray]:
        """Where the fields of the lines in [start, stop) begin and end, and how many of them begin
        before the end of each line. Bytes up to 0x20 separate; `stop` is behind a line."""
        data = self.data[start - 1 : stop]
        blank = data <= 32
        edges = np.flatnonzero(blank[1:] != blank[:-1])
        lines = np.flatnonzero(data[1:] == 10)
        counts = np.searchsorted(edges, lines) + 1
        edges += start
        return edges[::2], edges[1::2], counts >> 1

    def hashes(self, starts: IntArray, ends: IntArray) -> IntArray:
        """The bytes of each field as an int64 that is not negative. Different fields have different
        ones but for a chance of 2 ** -63, as in KenLM."""
        lengths = ends - starts
        hashed = self._mixed(np.uint64(0), starts, lengths)
        longer = np.flatnonzero(lengths > 8)
        at = 8
        while len(longer):
            hashed[longer] = self._mixed(hashed[longer], starts[longer] + at, lengths[longer] - at)
            at += 8
            longer = longer[lengths[longer] > at]
        return (hashed >> np.uint64(1)).view(np.int64)

    def _mixed(self, hashed: IntArray | np.uint64, starts: IntArray, lengths: IntArray) -> IntArray:
        # Fields have no zero bytes, so that the length need not be mixed in.
        mixed = hashed ^ (self.windows[starts] & _FIRST[np.minimum(lengths, 8)])
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        return mixed

    def joined(self, starts: IntArray, ends: IntArray) -> bytes:
        """The fields with a line break behind each."""
        lengths = ends - starts + 1
        last = np.cumsum(lengths)
        at = np.arange(int(lengths.sum())) + np.repeat(starts - last + lengths, lengths)
        joined = self.data[at]
        joined[last - 1] = 10
        return joined.tobytes()

    def next_title(self, start: int) -> int:
        """Where the next line that begins with a backslash begins, -1 if there is none."""
        at = start
        for _ in range(100):  # the search for one byte is faster, unless words have backslashes
            at = self.raw.find(b"\\", at, self.end)
            if at < 0 or self.raw[at - 1] == 10:
                return at
            at += 1
        return self.raw.find(b"\n\\", at, self.end) + 1 or -1

    def decimals(self, starts: IntArray, ends: IntArray) -> tuple[FloatArray, int | None]:
        """The number in each field as float64, and the position of the first that is none."""
        negative = self.data[starts] == ord("-")
        whole = starts + negative
        # The point behind one, two or three digits, or none.
        point = ends.copy()
        for place in (3, 2, 1):
            here = self.data[whole + place] == ord(".")
            here &= whole + place < ends
            np.copyto(point, whole + place, where=here)
        left, valid = self._digits(point, point - whole)
        fraction = np.maximum(ends - point - 1, 0)
        low, valid_low = self._digits(ends, np.minimum(fraction, 8))
        valid &= valid_low & (point > whole) & (point - whole <= 8) & (fraction <= 16)
        more = np.flatnonzero(valid & (fraction > 8))
        if len(more):
            high, valid[more] = self._digits(ends[more] - 8, fraction[more] - 8)
            low[more] += high * 1e8
        values = left + low / POWERS[np.minimum(fraction, 16)]
        values = np.where(negative, -values, values)
        for row in np.flatnonzero(~valid):  # exponents, infinities, more digits
            try:
                values[row] = float(self.raw[starts[row] : ends[row]])
            except ValueError:
                return values, int(row)
        return values, None

    def _digits(self, ends: IntArray, lengths: IntArray) -> tuple[FloatArray, IntArray]:
        """Up to eight decimal digits before `ends`, and whether they are digits."""
        zeros = np.uint64(0x3030303030303030)
        last = _LAST[np.clip(lengths, 0, 8)]
        digits = (self.windows[ends - 8] ^ zeros) & last
        over = digits + np.uint64(0x0606060606060606)
        valid = ((digits | over) & np.uint64(0xF0F0F0F0F0F0F0F0)) == 0
        digits = digits * np.uint64(10) + (digits >> np.uint64(8))
        digits &= np.uint64(0x00FF00FF00FF00FF)
        digits = digits * np.uint64(100) + (digits >> np.uint64(16))
        digits &= np.uint64(0x0000FFFF0000FFFF)
        digits = digits * np.uint64(10000) + (digits >> np.uint64(32))
        digits &= np.uint64(0xFFFFFFFF)
        return digits.astype(np.float64), valid
