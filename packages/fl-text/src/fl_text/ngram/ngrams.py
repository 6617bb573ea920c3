"""The n-grams of a model as lists, one an order: what is read, estimated, pruned and written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fl_tensor.annotations import checked
from fl_tensor.files import replacing
from fl_text.errors import TextError
from fl_text.ngram.tables import FloatArray, IntArray


@dataclass(frozen=True)
class Order:
    """All n-grams of one length, in any order.

    words      int32 (rows, n): indices into the vocabulary
    log_prob   float32 or float64 (rows,): log10 p(last word | the words before it)
    backoff    the same (rows,): log10 of the backoff weight, 0 where there is none
    """

    words: IntArray
    log_prob: FloatArray
    backoff: FloatArray


@dataclass(frozen=True)
class NGrams:
    """A backoff model: `vocabulary` names the words, `orders[n - 1]` has the n-grams of n words.

    The unigrams are in the order of the vocabulary: `orders[0].words` is `[[0], [1], ...]`.
    """

    vocabulary: list[str]
    orders: list[Order]

    def check(self, where: str) -> None:
        """Raises TextError, beginning with `where`, unless shapes agree, words are in the
        vocabulary, and values are finite."""
        size = len(self.vocabulary)
        if not self.orders or not np.array_equal(
            self.orders[0].words, np.arange(size, dtype=np.int32)[:, None]
        ):
            raise TextError(f"[{where}] the words of the unigrams are not [[0], ..., [{size - 1}]]")
        for n, order in enumerate(self.orders, 1):
            words, rows = order.words, len(order.words)
            shapes = [words.shape, order.log_prob.shape, order.backoff.shape]
            if shapes != [(rows, n), (rows,), (rows,)]:
                raise TextError(
                    f"[{where}] words, log_prob and backoff of order {n} have shapes {shapes}, "
                    f"expected {[(rows, n), (rows,), (rows,)]}"
                )
            if words.dtype != np.int32 or words.min(initial=0) < 0 or words.max(initial=0) >= size:
                raise TextError(
                    f"[{where}] words of order {n} are not int32 from 0 to {size - 1}: they number "
                    "words of the vocabulary"
                )
            if not (np.isfinite(order.log_prob).all() and np.isfinite(order.backoff).all()):
                raise TextError(
                    f"[{where}] values of order {n} are not finite: use -99 for log10 0"
                )


@checked
def write_arpa(path: str | os.PathLike[str], ngrams: NGrams) -> None:
    """Writes an ARPA file in UTF-8; a file in its place is replaced by a whole one.

    Values have seven significant digits. Raises TextError for lists that do not fit together or
    words with white space in them, FileError where the file cannot be written.
    """
    ngrams.check("write_arpa")
    for word in ngrams.vocabulary:
        if not word or min(word) <= " ":
            raise TextError(
                f"[write_arpa] the word {word!r} is empty or has white space: rename it"
            )
    with replacing(path) as file:
        head = (f"ngram {n}={len(order.words)}\n" for n, order in enumerate(ngrams.orders, 1))
        file.write(f"\\data\\\n{''.join(head)}".encode())
        for n in range(1, len(ngrams.orders) + 1):
            file.write(f"\n\\{n}-grams:\n".encode())
            file.writelines(_lines(ngrams, n))
        file.write(b"\n\\end\\\n")


def _lines(ngrams: NGrams, n: int) -> Iterator[bytes]:
    order, name = ngrams.orders[n - 1], ngrams.vocabulary.__getitem__
    rows = zip(order.log_prob.tolist(), order.words.tolist(), order.backoff.tolist())
    if n == len(ngrams.orders):
        for log_prob, words, _ in rows:
            yield f"{log_prob:.7g}\t{' '.join(map(name, words))}\n".encode()
    else:
        for log_prob, words, backoff in rows:
            yield f"{log_prob:.7g}\t{' '.join(map(name, words))}\t{backoff:.7g}\n".encode()
