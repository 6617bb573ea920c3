"""A backoff n-gram model that scores sentences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fl_tensor.annotations import Checked, checked, explained
from fl_text.corpus import as_texts
from fl_text.errors import TextError
from fl_text.ngram import kernels
from fl_text.ngram.arpa import MAX_BYTES, read_arpa
from fl_text.ngram.binary import is_binary, load_tables, save_tables
from fl_text.ngram.linking import link
from fl_text.ngram.ngrams import NGrams
from fl_text.ngram.tables import FloatArray, IntArray, NGramTables, walk, walk_texts
from fl_text.words import split_words

if TYPE_CHECKING:
    from typing_extensions import Self


class Perplexity(NamedTuple):
    """Of a text: `value` is 10 ** (-log_prob / words), and `words` counts the end of each sentence
    and the `unknown` ones as well."""

    value: float
    log_prob: float
    sentences: int
    words: int
    unknown: int


class NGramModel(Checked):
    """A backoff model: `tables` for kernels, and the `vocabulary` whose indices they use.

    Scores are logarithms to base 10, as in ARPA files. A state is a number: `start` is the one at
    the beginning of a sentence, 0 the one that knows no words. Words outside the vocabulary count
    as `<unk>`.
    """

    def __init__(self, tables: NGramTables, vocabulary: Sequence[str]) -> None:
        self.tables = tables
        self.vocabulary = vocabulary
        if len(vocabulary) != len(tables.log_prob_1):
            raise TextError(
                f"[NGramModel] {len(vocabulary)} words for tables of {len(tables.log_prob_1)}: "
                "give the vocabulary that the tables were made for"
            )
        self.bos, self.eos, self.unk = map(self._marker, ("<s>", "</s>", "<unk>"))
        self.start = int(tables.next_1[self.bos])

    def _marker(self, word: str) -> int:
        try:
            return self.vocabulary.index(word)
        except ValueError:
            raise TextError(f"[NGramModel] {word!r} is not in the vocabulary: add it") from None

    @classmethod
    def from_ngrams(cls, ngrams: NGrams) -> Self:
        """The model of lists of n-grams. Raises TextError for lists that do not fit together, and
        for n-grams that come twice."""
        ngrams.check("NGramModel.from_ngrams")
        return cls(link(ngrams, "NGramModel"), ngrams.vocabulary)

    @classmethod
    @checked
    def from_arpa(cls, path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> Self:
        """The model of an ARPA file. Raises TextFileError for one that is not sound."""
        ngrams = read_arpa(path, max_bytes)
        return cls(link(ngrams, os.fspath(path)), ngrams.vocabulary)

    @classmethod
    @checked
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model of a file that `save` wrote, mapped into memory: pages are read when they are
        used, and processes share them. Raises TextFileError for a file that is not sound."""
        return cls(*load_tables(path))

    @classmethod
    @checked
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """`load` for a file that begins as those of `save` do, else `from_arpa`."""
        return cls.load(path) if is_binary(path) else cls.from_arpa(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model for `load`; a file in its place is replaced by a whole one."""
        save_tables(path, self.tables, self.vocabulary)

    @cached_property
    def index(self) -> dict[str, int]:
        """The index of each word."""
        return {word: k for k, word in enumerate(self.vocabulary)}

    @explained
    def indices(self, words: Iterable[str]) -> IntArray:
        """The index of each word, that of `<unk>` for unknown ones; int32 (words,)."""
        index, unknown = self.index, self.unk
        return np.array([index.get(word, unknown) for word in words], np.int32)

    def score_words(self, states: IntArray, words: IntArray) -> tuple[FloatArray, IntArray]:
        """log10 p(word | state) and the state after the word, of pairs; float64 and int32 (pairs,).

        Raises TextError for states or words that the model does not have.
        """
        states, words = np.asarray(states), np.asarray(words)
        if states.ndim != 1 or states.shape != words.shape:
            raise TextError(
                f"[NGramModel.score_words] states {states.shape} and words {words.shape}: give two "
                "arrays of one dimension and one length"
            )
        for name, values, size in (
            ("states", states, len(self.tables.backoff)),
            ("words", words, len(self.tables.log_prob_1)),
        ):
            if values.dtype.kind not in "iu" or (
                len(values) and not (0 <= int(values.min()) and int(values.max()) < size)
            ):
                raise TextError(
                    f"[NGramModel.score_words] {name} are integers from 0 to {size - 1}, got "
                    f"{values.dtype} {values[:8]}"
                )
        return walk(self.tables, states.astype(np.int32), words.astype(np.int32))

    @checked
    def score(self, sentence: str, *, bos: bool = True, eos: bool = True) -> float:
        """log10 p of the words of a sentence, split at white space of ASCII, with `<s>` before and
        `</s>` behind it unless told otherwise."""
        return float(self.score_sentences([sentence], bos=bos, eos=eos)[0])

    @explained
    def score_sentences(
        self, sentences: Iterable[str], *, bos: bool = True, eos: bool = True
    ) -> FloatArray:
        """`score` of each sentence, float64 (sentences,)."""
        return self._scores(*self._texts(sentences, eos), bos)

    @explained
    def perplexity(self, sentences: Iterable[str]) -> Perplexity:
        """Of sentences with their ends, unknown words included. Raises TextError for none."""
        words, ends = self._texts(sentences, True)
        if not len(ends):
            raise TextError("[NGramModel.perplexity] there are no sentences: give some")
        total = float(self._scores(words, ends, True).sum())
        unknown = int(np.count_nonzero(words == self.unk))
        return Perplexity(10 ** (-total / len(words)), total, len(ends), len(words), unknown)

    def _scores(self, words: IntArray, ends: IntArray, bos: bool) -> FloatArray:
        start = self.start if bos else 0
        if not kernels.compiled():
            return walk_texts(self.tables, start, words, ends)
        scores = np.empty(len(ends))
        kernels.score_texts(self.tables, start, words, ends, scores)
        return scores

    def _texts(self, sentences: Iterable[str], eos: bool) -> tuple[IntArray, IntArray]:
        """The words of all sentences, and where each ends."""
        end = ["</s>"] if eos else []
        texts = [
            self.indices([*split_words(text), *end]) for text in as_texts(sentences, "NGramModel")
        ]
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        return np.concatenate(texts or [np.zeros(0, np.int32)]), ends

    def __repr__(self) -> str:
        return (
            f"NGramModel({len(self.vocabulary)} words, "
            f"{int(np.count_nonzero(self.tables.key >= 0))} longer n-grams)"
        )
