"""The n-grams of a model as lists, one an order: what is read, estimated, pruned and written."""

from __future__ import annotations

from dataclasses import dataclass

from fl_text.ngram.tables import FloatArray, IntArray


@dataclass(frozen=True)
class Order:
    """All n-grams of one length, in any order.

    words      int32 (rows, n): indices into the vocabulary
    log_prob   float32 or float64 (rows,): log10 p(last word | the words before it)
    backoff    the same (rows,): log10 of the backoff weight, 0 where the file has none
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
