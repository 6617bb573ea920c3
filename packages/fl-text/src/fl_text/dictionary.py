"""``Dictionary``: tokens and their numbers, both ways."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from typing import SupportsIndex

from fl_tensor.annotations import checked
from fl_text.corpus import TextFiles, write_text
from fl_text.errors import TextError, TextFileError
from fl_text.words import is_word, split_words


class Dictionary:
    """Tokens numbered from 0. Several tokens may share a number; the first is what it maps back to.

    `Dictionary(["a", "b"])` numbers a list. `Dictionary(path)` reads a file: a line for each
    number, several tokens of a line are aliases, blank lines are skipped. Methods have the names of
    `flashlight.lib.text.dictionary`.

    Raises `TextError` for a token that is there already, `TextFileError` with file and line where
    it stands in a file, and as `TextFiles` does for files that cannot be read.
    """

    @checked
    def __init__(self, entries: str | os.PathLike[str] | Iterable[str] = ()) -> None:
        self._index_of: dict[str, int] = {}
        self._entry_of: dict[int, str] = {}
        self._default: int | None = None
        if isinstance(entries, str | os.PathLike):
            self._read(entries)
        else:
            for entry in entries:
                self.add_entry(entry)

    def _read(self, path: str | os.PathLike[str]) -> None:
        for number, line in enumerate(TextFiles(path), 1):
            index = len(self._entry_of)
            for token in split_words(line):
                if token in self._index_of:
                    raise TextFileError(
                        path,
                        f"line {number} has {token!r}, which has the number "
                        f"{self._index_of[token]} already",
                        "remove one of the two",
                    )
                self.add_entry(token, index)

    def add_entry(self, entry: str, index: SupportsIndex | None = None) -> None:
        """Give a token a number, by default the first that is free from `index_size()` on."""
        if not isinstance(entry, str):
            raise TextError(f"[Dictionary] the token {entry!r} is no str")
        if entry in self._index_of:
            raise TextError(
                f"[Dictionary] {entry!r} has the number {self._index_of[entry]} already: "
                "every token has one number"
            )
        if index is None:
            number = len(self._entry_of)
            while number in self._entry_of:
                number += 1
        else:
            number = _number(index, "add_entry")
        self._index_of[entry] = number
        self._entry_of.setdefault(number, entry)

    def get_entry(self, index: SupportsIndex) -> str:
        """The first token of a number; raises `TextError` if there is none."""
        number = _number(index, "get_entry")
        try:
            return self._entry_of[number]
        except KeyError:
            raise TextError(
                f"[get_entry] the dictionary has no number {number}, only {self._range()}"
            ) from None

    def get_index(self, entry: str) -> int:
        """The number of a token, or the default; raises `TextError` where there is neither."""
        number = self._index_of.get(entry, self._default)
        if number is None:
            raise TextError(
                f"[get_index] {entry!r} is not among the {self.entry_size()} tokens of the "
                "dictionary: add it, or set_default_index to the number of unknown tokens"
            )
        return number

    @property
    def default_index(self) -> int | None:
        """The number of tokens that are not in the dictionary, or None."""
        return self._default

    def set_default_index(self, index: SupportsIndex) -> None:
        """The number of tokens that are not in the dictionary; one that the dictionary has."""
        number = _number(index, "set_default_index")
        self.get_entry(number)
        self._default = number

    def contains(self, entry: str) -> bool:
        """Whether a token has a number of its own; `entry in dictionary` says the same."""
        return entry in self._index_of

    def entry_size(self) -> int:
        """How many tokens there are, aliases included."""
        return len(self._index_of)

    def index_size(self) -> int:
        """How many numbers there are; `len(dictionary)` says the same."""
        return len(self._entry_of)

    def is_contiguous(self) -> bool:
        """Whether the numbers are 0 .. `index_size() - 1`, without gaps."""
        return max(self._entry_of, default=-1) + 1 == len(self._entry_of)

    def map_entries_to_indices(
        self, entries: Iterable[str], default: int | None = None
    ) -> list[int]:
        """`get_index` of each token; `default` goes before the default of the dictionary."""
        default = self._default if default is None else default
        if default is None:
            return [self.get_index(entry) for entry in entries]
        find = self._index_of.get
        return [find(entry, default) for entry in entries]

    def map_indices_to_entries(self, indices: Iterable[SupportsIndex]) -> list[str]:
        """`get_entry` of each number."""
        return [self.get_entry(index) for index in indices]

    def entries(self) -> list[tuple[str, int]]:
        """All tokens with their numbers, aliases included, in the order in which they came."""
        return list(self._index_of.items())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file for `Dictionary(path)`, replacing one of that name once it is complete.

        Raises `TextError` for a dictionary with gaps, and for a token with white space.
        """
        if not self.is_contiguous():
            gap = next(n for n in range(len(self._entry_of)) if n not in self._entry_of)
            raise TextError(
                f"[Dictionary] it has {self._range()} without {gap}, and a file has no gaps: "
                "give that number to a token"
            )
        lines: list[list[str]] = [[] for _ in self._entry_of]
        for token, number in self._index_of.items():
            if not is_word(token):
                raise TextError(
                    f"[Dictionary] {token!r} is empty or has white space, which separates tokens "
                    "in a file: add another token in its place"
                )
            lines[number].append(token)
        text = "".join(" ".join(tokens) + "\n" for tokens in lines)
        write_text(path, text)

    def _range(self) -> str:
        return f"0 .. {max(self._entry_of)}" if self._entry_of else "none"

    def __len__(self) -> int:
        return len(self._entry_of)

    def __contains__(self, entry: object) -> bool:
        return entry in self._index_of

    def __repr__(self) -> str:
        return f"Dictionary({self.entry_size()} tokens, {self.index_size()} numbers)"


def _number(index: SupportsIndex, where: str) -> int:
    try:
        number = operator.index(index)
    except TypeError:
        raise TextError(f"[{where}] the number {index!r} is no integer") from None
    if number < 0 or isinstance(index, bool):
        raise TextError(f"[{where}] the number {index!r} is not at least 0")
    return number
