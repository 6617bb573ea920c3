"""ARPA files, read as bytes: counts, then a section of n-grams for each order.

Fields are found, hashed and parsed a block at a time by array operations: a million n-grams take
less than a second. Nothing is allocated from the announced counts.
"""

from __future__ import annotations

import os
import re

import numpy as np

from fl_text.errors import TextFileError
from fl_text.ngram.fields import PAD, Text
from fl_text.ngram.ngrams import NGrams, Order
from fl_text.ngram.tables import FloatArray, IntArray, find, place

MAX_BYTES = 1 << 34
"""The largest ARPA file that is read unless told otherwise: 16 GiB."""

MAX_ORDER = 16
"""The longest n-grams: 16 words."""

UNKNOWN_LOG_PROB = -100.0
"""log10 p(<unk>) for a file that does not have this word."""

#: Bytes that are parsed at a time: what is made of them should stay in the processor's cache.
_BLOCK = 1 << 18
_WHOLE_FILE = "the file was cut off, or edited; write it again"


def read_arpa(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> NGrams:
    """The n-grams of an ARPA file, in UTF-8, with log probabilities to base 10 as float32.

    Fields are separated by blanks or tabs; text before `\\data\\` is skipped, as are empty lines.
    `<unk>` (or `<UNK>`) is added with log probability -100 where it is missing, missing backoffs
    are 0. Raises TextFileError, with the line, for a file that is missing, cut off or no ARPA file;
    for counts that do not agree with its sections; for words that are not UTF-8, come twice, or
    are not among the unigrams; for no `<s>` or `</s>`; for log probabilities that are positive,
    infinite or no numbers; for a backoff of the highest order other than 0. N-grams that come twice
    are found when tables are made of them.
    """
    text = Text(path, max_bytes)
    counts, start = _head(text)
    vocabulary = _Vocabulary(text)
    orders = []
    for n, count in enumerate(counts, 1):
        title = start
        start = _next_line(text, title)
        stop = text.raw.find(b"\n\\", start - 1, text.end) + 1
        if not stop:
            raise text.error(
                rf"ends inside its section \{n}-grams:", _WHOLE_FILE, max(PAD, text.end - 1)
            )
        order = _section(text, vocabulary, n, len(counts), start, stop)
        if len(order.log_prob) != count:
            raise text.error(
                rf"the section \{n}-grams: has {len(order.log_prob)} n-grams, and the head "
                f"announced {count}",
                _WHOLE_FILE,
                title,
            )
        orders.append(order)
        start = stop
        _expect(text, rf"\{n + 1}-grams:" if n < len(counts) else "\\end\\", start)
    return vocabulary.complete(orders)


def _next_line(text: Text, start: int) -> int:
    return text.raw.index(b"\n", start) + 1


def _line(text: Text, start: int) -> str:
    return text.raw[start : text.raw.index(b"\n", start)].strip()[:80].decode("utf-8", "replace")


def _expect(text: Text, title: str, start: int) -> None:
    if _line(text, start) != title:
        raise text.error(
            f"{_line(text, start)!r} stands where {title!r} is expected",
            "sections come in the order of n, as many as the head announces",
            start,
        )


def _head(text: Text) -> tuple[list[int], int]:
    """The announced counts, and where the section of unigrams begins."""
    data = re.compile(rb"^\\data\\[ \t\r]*$", re.MULTILINE).search(text.raw, PAD, text.end)
    if data is None:
        raise text.error(r"has no line \data\ ", "give a language model in ARPA format")
    start, counts = _next_line(text, data.start()), list[int]()
    while start < text.end:
        line = _line(text, start)
        found = re.fullmatch(r"ngram\s+(\d{1,3})\s*=\s*(\d{1,15})", line)
        if found and int(found[1]) == len(counts) + 1 <= MAX_ORDER:
            counts.append(int(found[2]))
        elif line.startswith("\\") and counts:
            _expect(text, r"\1-grams:", start)
            return counts, start
        elif line:
            raise text.error(
                f"{line!r} stands where 'ngram {len(counts) + 1}=COUNT' or a section is expected",
                f"the head has one count an order, from 1 to at most {MAX_ORDER}",
                start,
            )
        start = _next_line(text, start)
    raise text.error("ends inside its head", _WHOLE_FILE, max(PAD, text.end - 1))


class _Vocabulary:
    """The words of the unigrams, found by the bytes of the file."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.words: list[str] = []

    def add(self, starts: IntArray, ends: IntArray) -> None:
        """The words of all unigrams."""
        text, self.starts, self.ends = self.text, starts, ends
        try:
            self.words = [text.raw[a:b].decode() for a, b in zip(starts.tolist(), ends.tolist())]
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        index = {word: k for k, word in enumerate(self.words)}
        for k, word in enumerate(self.words if len(index) < len(self.words) else ()):
            if index[word] != k:
                raise text.error(
                    f"the word {word[:40]!r} is a unigram twice",
                    "remove one of them",
                    int(starts[index[word]]),
                )
        self.index = index
        hashes = text.hashes(starts, ends)
        slots, size, self.buckets = place(hashes)
        self.key = np.full(size, -1, np.int64)
        self.key[slots] = hashes
        self.word = np.zeros(size, np.int32)
        self.word[slots] = np.arange(len(slots))

    def _not_utf8(self) -> TextFileError:
        for a, b in zip(self.starts.tolist(), self.ends.tolist()):
            try:
                self.text.raw[a:b].decode()
            except UnicodeDecodeError as error:
                byte = self.text.raw[a + error.start]
                return self.text.error(
                    f"a word is not UTF-8 (byte 0x{byte:02x})", "convert the file to UTF-8", a
                )
        raise AssertionError("unreachable")

    def find(self, starts: IntArray, ends: IntArray) -> IntArray:
        """The index of each word, as int32."""
        slots = find(self.key, self.buckets, self.text.hashes(starts, ends))
        words = self.word[slots]
        # -1 is the last slot: its word is some other one.
        unknown = self.text.differ(starts, ends, self.starts[words], self.ends[words])
        if len(unknown):
            at = int(starts[unknown[0]])
            raise self.text.error(
                f"the word {self.text.shown(at, int(ends[unknown[0]]))} is not among the unigrams",
                "every word needs a unigram; write the file again",
                at,
            )
        return words

    def complete(self, orders: list[Order]) -> NGrams:
        """The model, with `<unk>`."""
        for marker in ("<s>", "</s>"):
            if marker not in self.index:
                raise self.text.error(
                    f"has no unigram {marker}",
                    "models of sentences need <s> and </s>: estimate it with them",
                )
        if "<unk>" not in self.index and "<UNK>" in self.index:
            self.words[self.index["<UNK>"]] = "<unk>"
        elif "<unk>" not in self.index:
            one = orders[0]
            self.words.append("<unk>")
            orders[0] = Order(
                np.arange(len(self.words), dtype=np.int32)[:, None],
                np.append(one.log_prob, np.float32(UNKNOWN_LOG_PROB)),
                np.append(one.backoff, np.float32(0)),
            )
        return NGrams(self.words, orders)


def _section(
    text: Text, vocabulary: _Vocabulary, n: int, highest: int, start: int, stop: int
) -> Order:
    """The n-grams between two titles."""
    words, log_probs, backoffs = list[IntArray](), list[FloatArray](), list[FloatArray]()
    while start < stop:
        # A block ends behind a line.
        end = stop if start + _BLOCK >= stop else _next_line(text, start + _BLOCK)
        starts, ends, counts = text.fields(start, end)
        first = np.concatenate([[0], counts[:-1]])
        fields = counts - first
        rows = np.flatnonzero(fields)
        first, fields = first[rows], fields[rows]
        wrong = np.flatnonzero((fields != n + 1) & (fields != n + 2))
        if len(wrong):
            raise text.error(
                f"has {fields[wrong[0]]} fields",
                f"n-grams of {n} words have a log probability, {n} words and perhaps a backoff",
                int(starts[first[wrong[0]]]),
            )
        log_probs.append(_log_probs(text, starts[first], ends[first]))
        backoff = np.zeros(len(first), np.float32)
        has = np.flatnonzero(fields == n + 2)
        at = first[has] + n + 1
        backoff[has] = _backoffs(text, starts[at], ends[at], n == highest)
        backoffs.append(backoff)
        at = (first[:, None] + np.arange(1, n + 1)).ravel()
        if n == 1:
            words.append(np.stack([starts[at], ends[at]], axis=1))
        else:
            words.append(vocabulary.find(starts[at], ends[at]).reshape(-1, n))
        start = end
    joined = np.concatenate(words) if words else np.zeros((0, max(n, 2)), np.int32)
    if n == 1:
        vocabulary.add(joined[:, 0], joined[:, 1])
        joined = np.arange(len(joined), dtype=np.int32)[:, None]
    none = [np.zeros(0, np.float32)]
    return Order(joined, np.concatenate(log_probs or none), np.concatenate(backoffs or none))


def _log_probs(text: Text, starts: IntArray, ends: IntArray) -> FloatArray:
    values, wrong = text.decimals(starts, ends)
    if wrong is None:
        bad = np.flatnonzero(~((values <= 0) & (values > -1e30)))
        wrong = int(bad[0]) if len(bad) else None
    if wrong is not None:
        at = int(starts[wrong])
        raise text.error(
            f"{text.shown(at, int(ends[wrong]))} is no log probability",
            "these are finite numbers up to 0; write -99 for what never occurs",
            at,
        )
    return values.astype(np.float32)


def _backoffs(text: Text, starts: IntArray, ends: IntArray, highest: bool) -> FloatArray:
    values, wrong = text.decimals(starts, ends)
    if wrong is None:
        bad = np.flatnonzero(values != 0 if highest else ~(np.abs(values) < 1e30))
        wrong = int(bad[0]) if len(bad) else None
    if wrong is not None:
        at = int(starts[wrong])
        raise text.error(
            f"{text.shown(at, int(ends[wrong]))} is no backoff"
            + (" of the highest order, which has none" if highest else ""),
            "write the file again",
            at,
        )
    return values.astype(np.float32)
