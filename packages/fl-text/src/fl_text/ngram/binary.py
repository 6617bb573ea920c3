"""Tables in a file of their own, to be mapped into memory.

Everything is little-endian. A head of 72 bytes has the magic bytes and eight int64: the numbers of
slots, states, words, buckets and bytes of the vocabulary, the indices of `<s>`, `</s>`, `<unk>`.
Behind it are `key`, `log_prob`, `next`, `backoff`, `suffix`, `log_prob_1` and `next_1`. The
vocabulary comes last, in UTF-8, a word a line. Each begins at the next multiple of 64 bytes.

Files are untrusted, and kernels check no index. So every state that a table names is compared with
their number, suffixes with the states that they belong to, and scores with their range: that takes
milliseconds. Only the vocabulary waits until a word is asked for.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np

from fl_tensor.files import open_regular, replacing
from fl_text.errors import TextError, TextFileError
from fl_text.ngram.tables import EMPTY, IntArray, NGramTables

MAGIC = b"flngram1"
_HEAD = struct.Struct("<8s8q")
_ALIGNED = 64
_DAMAGED = "the file is damaged or no n-gram model: make it again from the ARPA file"
_MARKERS = ("<s>", "</s>", "<unk>")


class StoredWords(Sequence[str]):
    """The vocabulary of a mapped file: decoded when it is first used, but for its length and the
    indices of `<s>`, `</s>` and `<unk>`. Raises TextFileError then if it is not sound."""

    def __init__(self, path: str, data: memoryview, size: int, markers: tuple[int, ...]) -> None:
        self._path, self._data, self._size = path, data, size
        self._markers = dict(zip(_MARKERS, markers))

    @cached_property
    def _words(self) -> list[str]:
        try:
            words = str(self._data, "utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise TextFileError(self._path, f"a word is not UTF-8 ({error})", _DAMAGED) from error
        if len(words) != self._size or len(set(words)) != self._size:
            raise TextFileError(
                self._path,
                f"has {len(set(words))} different words, expected {self._size}",
                _DAMAGED,
            )
        if [words[k] for k in self._markers.values()] != [*_MARKERS]:
            raise TextFileError(self._path, "its markers of sentences are other words", _DAMAGED)
        return words

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> list[str]: ...
    def __getitem__(self, at: int | slice) -> str | list[str]:
        return self._words[at]

    def __len__(self) -> int:
        return self._size

    def index(self, word: str, *bounds: int) -> int:
        known = self._markers.get(word)
        return self._words.index(word, *bounds) if known is None or bounds else known


def is_binary(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as one of `save_tables`; False where it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def save_tables(
    path: str | os.PathLike[str], tables: NGramTables, vocabulary: Sequence[str]
) -> None:
    """Writes the file. Raises FileError where it cannot be written, TextError for a word with a
    line break."""
    text = "\n".join(vocabulary).encode()
    if text.count(b"\n") != len(vocabulary) - 1:
        raise TextError("[NGramModel.save] a word has a line break: it can be in no ARPA file")
    sizes = (len(tables.key), len(tables.backoff), len(vocabulary), tables.buckets, len(text))
    with replacing(path) as file:
        file.write(_HEAD.pack(MAGIC, *sizes, *map(vocabulary.index, _MARKERS)))
        for (_, dtype, _), array in zip(_arrays(*sizes), [*tables[:-1], np.frombuffer(text, "u1")]):
            file.write(b"\0" * (-file.tell() % _ALIGNED))
            file.write(memoryview(np.ascontiguousarray(array, dtype)))


def load_tables(path: str | os.PathLike[str]) -> tuple[NGramTables, StoredWords]:
    """What `save_tables` wrote: arrays that cannot be written to. Raises TextFileError."""
    name = os.fspath(path)
    if sys.byteorder != "little":
        raise TextFileError(name, "is for little-endian machines", "read the ARPA file here")
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD.size)
            size = os.fstat(file.fileno()).st_size
            if len(head) < _HEAD.size or head[:8] != MAGIC:
                raise TextFileError(
                    name,
                    f"does not begin with {MAGIC.decode()!r}",
                    "give a file of NGramModel.save; read ARPA files with NGramModel.from_arpa",
                )
            # Writers replace files instead of changing them, so what is mapped stays.
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise TextFileError(name, f"unreadable ({error.strerror})", "check the path") from error
    _, *numbers = _HEAD.unpack(head)
    sizes, markers = numbers[:5], numbers[5:]
    slots, states, words, buckets, _ = sizes
    sound = min(sizes) >= 1 and max(sizes) <= size and buckets < slots and states < 1 << 31
    if not sound or not all(0 <= marker < words for marker in markers):
        raise TextFileError(name, f"has the head {numbers}", _DAMAGED)
    arrays, at = [], _HEAD.size
    for _, dtype, count in _arrays(*sizes):
        at += -at % _ALIGNED
        end = at + count * np.dtype(dtype).itemsize
        if end > size:
            raise TextFileError(name, f"ends after {size} bytes, before byte {end}", _DAMAGED)
        arrays.append(np.frombuffer(mapped[at:end], dtype))
        at = end
    if at != size:
        raise TextFileError(name, f"has {size} bytes, and its head says {at}", _DAMAGED)
    tables = NGramTables._make([*arrays[:-1], buckets])
    problem = _problem(tables)
    if problem:
        raise TextFileError(name, problem, _DAMAGED)
    return tables, StoredWords(name, mapped[at - sizes[4] : at], words, tuple(markers))


def _arrays(
    slots: int, states: int, words: int, buckets: int, text: int
) -> list[tuple[str, Any, int]]:
    names = NGramTables._fields
    counts = [slots, slots, slots, states, states, words, words, text]
    dtypes = ["<i8", "<f4", "<i4", "<f4", "<i4", "<f4", "<i4", "u1"]
    return list(zip(names, dtypes, counts))


def _problem(tables: NGramTables) -> str | None:
    """What would lead a kernel outside the tables, into an endless walk, or to no number."""
    states = len(tables.backoff)
    if tables.key[-1] != EMPTY:
        return "its last slot is not empty"
    for name in ("next", "next_1", "suffix"):
        # As unsigned numbers, negative ones are too large as well.
        largest = int(getattr(tables, name).view(np.uint32).max())
        if largest >= states:
            return f"{name} names a state {largest}, and there are {states}"
    if tables.suffix[0] != 0 or not _below(tables.suffix[1:]):
        return "suffix leads to a state that is not smaller"
    for name, bound in (("log_prob", 0.0), ("log_prob_1", 0.0), ("backoff", 1e30)):
        values = getattr(tables, name)
        if not (values.max() <= bound and values.min() > -1e30):
            return f"{name} has a value out of range"
    return None


def _below(suffix: IntArray) -> bool:
    return bool((suffix <= np.arange(len(suffix), dtype=np.int32)).all())
