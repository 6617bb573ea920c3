"""``Documents``: the token numbers of several documents, one behind another."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import sub

import fl_tensor as ft
from fl_data import DataError, Sample


class Documents:
    """Document `i` is the numbers `before`, then `tokens[starts[i] : starts[i + 1]]`, then `after`.

    `tokens` is an array of int64, or a view of a mapped file.
    """

    def __init__(
        self,
        tokens: array[int] | memoryview,
        starts: Sequence[int] | memoryview,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
    ) -> None:
        self.tokens, self.starts = tokens, starts
        self.before, self.after = array("q", before), array("q", after)

    @classmethod
    def gathered(cls, documents: Iterable[Sequence[int]]) -> Documents:
        """Documents in memory."""
        tokens, starts = array("q"), array("q", [0])
        for document in documents:
            tokens.extend(document)
            starts.append(len(tokens))
        return cls(tokens, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def bounds(self, index: int) -> tuple[int, int]:
        """Where a document begins and ends among the tokens."""
        return self.starts[index], self.starts[index + 1]

    def lengths(self) -> array[int]:
        """How many numbers each document has."""
        frame = len(self.before) + len(self.after)
        try:
            found = array("q", map(sub, self.starts[1:], self.starts))
            sound = not found or min(found) >= 0
        except OverflowError:
            sound = False
        if not sound:
            for index in range(len(self)):
                self.bounds(index)  # which names the document
        return array("q", (length + frame for length in found)) if frame else found

    def numbers(self, index: int, most: int | None = None) -> array[int]:
        """The numbers of a document, the first `most` of them if it has more."""
        start, stop = self.bounds(index)
        if most is not None:
            stop = min(stop, start + most)
        found = self.before[:]
        found.extend(self.tokens[start:stop])
        found.extend(self.after)
        return found if most is None else found[:most]


def check_context(context: object, where: str) -> None:
    """Raises `DataError` unless `context` is an integer of at least 1."""
    if isinstance(context, bool) or not isinstance(context, int) or context < 1:
        raise DataError(f"[{where}] context must be an integer of at least 1, got {context!r}")


def check_pad(pad: int, where: str) -> None:
    """Raises `DataError` for a negative number of the padding token."""
    if pad < 0:
        raise DataError(f"[{where}] pad {pad}: give the number of a token")


def usable_lengths(documents: Documents, where: str) -> array[int]:
    """The numbers of targets of all documents; raises `DataError` for a document without one."""
    lengths = documents.lengths()
    if lengths and min(lengths) < 2:
        number, length = next((i, n) for i, n in enumerate(lengths) if n < 2)
        raise DataError(
            f"[{where}] text {number} has {length} tokens: two are the least from "
            "which one can be predicted; add an end token, or leave it out"
        )
    return array("q", (length - 1 for length in lengths))


def table(rows: Iterable[array[int]], pad: int, width: int) -> ft.Tensor:
    """Rows of at most `width` numbers, padded at the end: int64 `(rows, width)`."""
    flat = array("q")
    count = 0
    for row in rows:
        flat.extend(row)
        flat.extend([pad] * (width - len(row)))
        count += 1
    return ft.asarray(flat, ft.int64).reshape(count, width)


def first_of(batch: Sample) -> Sample:
    """The sample of a batch of one."""
    assert isinstance(batch, tuple)
    return tuple(field[0] for field in batch)
