"""ARPA files, read as bytes: counts, then a section of n-grams for each order.

Fields are found, hashed and parsed a block at a time by array operations: a million n-grams take
less than a second. Nothing is allocated from the announced counts.
"""

from __future__ import annotations

import os
import re

import numpy as np

from fl_tensor.annotations import checked
from fl_text.errors import TextFileError
from fl_text.ngram import kernels
from fl_text.ngram.fields import PAD, POWERS, Text
from fl_text.ngram.ngrams import NGrams, Order
from fl_text.ngram.reading_kernels import Lines, WordTable, read_lines
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


@checked
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
        stop = text.next_title(start)
        if stop < 0:
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
            self.words = text.joined(starts, ends).decode().split("\n")[:-1]
        except UnicodeDecodeError:
            raise self._not_utf8() from None
        if len(set(self.words)) < len(self.words):
            raise self._twice()
        hashes = text.hashes(starts, ends)
        slots, size, self.buckets = place(hashes)
        self.key = np.full(size, -1, np.int64)
        self.key[slots] = hashes
        self.word = np.zeros(size, np.int32)
        self.word[slots] = np.arange(len(slots))

    def _twice(self) -> TextFileError:
        index = {word: k for k, word in enumerate(self.words)}
        k, word = next((k, word) for k, word in enumerate(self.words) if index[word] != k)
        return self.text.error(
            f"the word {word[:40]!r} is a unigram twice",
            "remove one of them",
            int(self.starts[index[word]]),
        )

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
        unknown = np.flatnonzero(slots < 0)
        if len(unknown):
            at = int(starts[unknown[0]])
            raise self.text.error(
                f"the word {self.text.shown(at, int(ends[unknown[0]]))} is not among the unigrams",
                "every word needs a unigram; write the file again",
                at,
            )
        return self.word[slots]

    def record(self) -> WordTable:
        """The same for kernels."""
        return WordTable(self.text.data, self.key, self.word, self.buckets)

    def complete(self, orders: list[Order]) -> NGrams:
        """The model, with `<unk>`."""
        for marker in ("<s>", "</s>"):
            if marker not in self.words:
                raise self.text.error(
                    f"has no unigram {marker}",
                    "models of sentences need <s> and </s>: estimate it with them",
                )
        if "<unk>" not in self.words and "<UNK>" in self.words:
            self.words[self.words.index("<UNK>")] = "<unk>"
        elif "<unk>" not in self.words:
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
    # A line has at least a digit, and for each word a blank and a letter. Pages that are never
    # written to take no memory.
    most, width = (stop - start) // (2 * n + 1) + 1, max(n, 2)
    lines = Lines(
        np.empty(most * width, np.int32 if n > 1 else np.int64),
        np.empty(most, np.float32),
        np.empty(most, np.float32),
        POWERS,
        np.array([0, start, 0]),
    )
    fast = n > 1 and kernels.compiled()
    size = least = _BLOCK >> 6 if fast else _BLOCK
    while lines.state[1] < stop:
        before = int(lines.state[1])
        if fast:
            read_lines(vocabulary.record(), lines, n, n == highest, stop)
        row, line = int(lines.state[0]), int(lines.state[1])
        # Where lines are seldom ordinary, more are left to the array operations at a time.
        size = least if line - before > size else min(2 * size, _BLOCK)
        if line < stop:
            # A block ends behind a line.
            end = stop if line + size >= stop else _next_line(text, line + size)
            words, log_prob, backoff = _block(text, vocabulary, n, n == highest, line, end)
            stop_row = row + len(log_prob)
            lines.words[row * width : stop_row * width] = words.ravel()
            lines.log_prob[row:stop_row] = log_prob
            lines.backoff[row:stop_row] = backoff
            lines.state[:2] = stop_row, end
    rows = int(lines.state[0])
    words = np.asarray(lines.words)[: rows * width].reshape(-1, width)
    if n == 1:
        vocabulary.add(words[:, 0], words[:, 1])
        words = np.arange(rows, dtype=np.int32)[:, None]
    return Order(words, np.asarray(lines.log_prob)[:rows], np.asarray(lines.backoff)[:rows])


def _block(
    text: Text, vocabulary: _Vocabulary, n: int, highest: bool, start: int, stop: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Words, log probabilities and backoffs of the lines from `start` to `stop`; for n = 1
    the offsets of words in place of words."""
    starts, ends, counts = text.fields(start, stop)
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
    log_prob = _log_probs(text, starts[first], ends[first])
    backoff = np.zeros(len(first), np.float32)
    has = np.flatnonzero(fields == n + 2)
    at = first[has] + n + 1
    backoff[has] = _backoffs(text, starts[at], ends[at], highest)
    at = (first[:, None] + np.arange(1, n + 1)).ravel()
    if n == 1:
        return np.stack([starts[at], ends[at]], axis=1), log_prob, backoff
    return vocabulary.find(starts[at], ends[at]), log_prob, backoff


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
