"""Estimation by modified Kneser-Ney smoothing, interpolated, with three discounts an order.

S. F. Chen and J. Goodman, "An empirical study of smoothing techniques for language modeling",
Harvard TR-10-98, 1998. Counts, discounts and pruning are those of KenLM's `lmplz` (K. Heafield et
al., "Scalable modified Kneser-Ney language model estimation", ACL 2013).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fl_tensor.annotations import explained
from fl_text.corpus import as_texts
from fl_text.errors import TextError
from fl_text.ngram.arpa import MAX_ORDER
from fl_text.ngram.ngrams import NGrams, Order
from fl_text.ngram.tables import FloatArray, IntArray, pair_keys
from fl_text.words import split_words

UNK, BOS, EOS = range(3)
NEVER = -99.0
"""log10 p(<s>): it is never predicted, so that the others sum to 1."""


@explained
def estimate(
    sentences: Iterable[str],
    order: int = 3,
    *,
    prune: Sequence[int] = (),
    discount_fallback: Sequence[float] | None = None,
) -> NGrams:
    """The modified Kneser-Ney model of `sentences`, which are split at white space of ASCII.

    prune               n-grams that occur at most `prune[n - 1]` times are left out; the last value
                        is for all higher orders. The first is 0, and none is below the one before.
    discount_fallback   three discounts, for n-grams that occur once, twice, and more often; used in
                        orders whose own cannot be estimated, for example `(0.5, 1, 1.5)`

    Unigrams are interpolated with the uniform distribution over the vocabulary, `<unk>` included
    and `<s>` not. Raises TextError for no sentences; for `<s>`, `</s>` or `<unk>` as a word; and,
    without a fallback, for discounts that cannot be estimated or fall outside their range, as
    happens with little text.
    """
    if not 1 <= order <= MAX_ORDER:
        raise TextError(f"[estimate] order is from 1 to {MAX_ORDER}, got {order}")
    limits = _limits(prune, order)
    fallback = None if discount_fallback is None else _fallback(discount_fallback)
    vocabulary, words = _read(sentences)
    counted = _count(words, len(vocabulary), order)
    return _smooth(vocabulary, counted, limits, fallback)


def _limits(prune: Sequence[int], order: int) -> list[int]:
    limits = [*prune, *[prune[-1] if prune else 0] * (order - len(prune))]
    if len(limits) > order or limits[0] != 0 or limits != sorted(limits):
        raise TextError(
            f"[estimate] prune={tuple(prune)} for order {order}: give at most {order} numbers, "
            "the first 0, none below the one before"
        )
    return limits


def _fallback(discounts: Sequence[float]) -> FloatArray:
    if len(discounts) != 3 or not all(0 <= d <= k for k, d in enumerate(discounts, 1)):
        raise TextError(
            f"[estimate] discount_fallback={tuple(discounts)}: give three numbers, the k-th from 0 "
            "to k, such as (0.5, 1, 1.5)"
        )
    return np.array([0.0, *discounts])


def _read(sentences: Iterable[str]) -> tuple[list[str], IntArray]:
    """The vocabulary, and all sentences as indices, each between BOS and EOS."""
    index = {"<unk>": UNK, "<s>": BOS, "</s>": EOS}
    words = list[int]()
    for number, sentence in enumerate(as_texts(sentences, "estimate"), 1):
        found = [index.setdefault(word, len(index)) for word in split_words(sentence)]
        if min(found, default=EOS + 1) <= EOS:
            raise TextError(
                f"[estimate] sentence {number} has <s>, </s> or <unk> as a word: remove it"
            )
        words += [BOS, *found, EOS]
    if not words:
        raise TextError("[estimate] there are no sentences: give some")
    return list(index), np.array(words, np.int32)


@dataclass
class _Counted:
    """The different n-grams of one order.

    words      (rows, n)
    prefix     the row of the first n - 1 words, and of
    suffix     the last n - 1, in the order below
    count      how often each occurs
    """

    words: IntArray
    prefix: IntArray
    suffix: IntArray
    count: IntArray


def _count(words: IntArray, vocabulary: int, order: int) -> list[_Counted]:
    """By sorting: the n-gram at a position is the (n-1)-gram there and the word behind it."""
    one = np.arange(vocabulary, dtype=np.int32)[:, None]
    none = np.zeros(vocabulary, np.int64)
    orders = [_Counted(one, none, none, np.bincount(words, minlength=vocabulary))]
    at = np.arange(len(words))  # where n-grams begin
    row = words.astype(np.int64)  # which one begins there, -1 for none
    for n in range(2, order + 1):
        # None reaches over the end of a sentence.
        at = at[words[at + n - 2] != EOS]
        keys = pair_keys(row[at], words[at + n - 1])
        keys, first, inverse, count = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        prefix, last = keys >> 32, (keys & 0xFFFFFFFF).astype(np.int32)
        grams = np.column_stack([orders[-1].words[prefix], last])
        orders.append(_Counted(grams, prefix, row[at[first] + 1], count))
        row = np.full(len(words), -1)
        row[at] = inverse.ravel()
    return orders


def _smooth(
    vocabulary: list[str],
    counted: list[_Counted],
    limits: list[int],
    fallback: FloatArray | None,
) -> NGrams:
    orders = list[Order]()
    probability = np.array([1.0 / (len(vocabulary) - 1)])  # of the order below
    kept_before = np.arange(0)
    for n, grams in enumerate(counted, 1):
        adjusted = _adjusted(counted, n)
        discount = _discounts(adjusted[adjusted > 0], n, fallback)[np.minimum(adjusted, 3)]
        kept = grams.count > limits[n - 1] if n > 1 else np.ones(len(adjusted), bool)
        contexts = len(probability)
        total = np.bincount(grams.prefix, adjusted, contexts)
        # The mass of what is pruned goes to the order below as well.
        freed = np.bincount(grams.prefix, np.where(kept, discount, adjusted), contexts)
        left = np.divide(freed, total, out=np.ones(contexts), where=total > 0)
        if n > 1:
            orders[-1].backoff[:] = np.log10(left)[kept_before]
        own = np.where(kept, adjusted - discount, 0.0) / np.maximum(total[grams.prefix], 1)
        probability = own + left[grams.prefix] * probability[grams.suffix]
        if n == 1:
            probability[BOS] = 10.0**NEVER
        kept_before = np.flatnonzero(kept)
        log_prob = np.log10(probability[kept_before])
        orders.append(Order(grams.words[kept_before], log_prob, np.zeros(len(log_prob))))
    return NGrams(vocabulary, orders)


def _adjusted(counted: list[_Counted], n: int) -> IntArray:
    """Counts of the highest order, and of n-grams that begin with BOS; for others, how many
    different words come before them."""
    grams = counted[n - 1]
    if n == len(counted):
        adjusted = grams.count.copy()
    else:
        adjusted = np.bincount(counted[n].suffix, minlength=len(grams.count))
        first = grams.words[:, 0] == BOS
        adjusted[first] = grams.count[first]
    if n == 1:
        adjusted[BOS] = 0
    return adjusted


def _discounts(adjusted: IntArray, n: int, fallback: FloatArray | None) -> FloatArray:
    """By count, from 0 to 3 and more; equation 26 of Chen and Goodman."""
    seen = np.bincount(np.minimum(adjusted, 5), minlength=6)
    problem = ""
    for k in (1, 2, 3):
        if seen[k] == 0:
            problem = f"no {n}-gram has the adjusted count {k}"
    if not problem:
        y = seen[1] / (seen[1] + 2 * seen[2])
        discounts = np.array([0.0, *(k - (k + 1) * y * seen[k + 1] / seen[k] for k in (1, 2, 3))])
        wrong = np.flatnonzero((discounts < 0) | (discounts > np.arange(4)))
        if not len(wrong):
            return discounts
        problem = f"the discount of {n}-grams with count {wrong[0]} is {discounts[wrong[0]]:.3f}"
    if fallback is None:
        raise TextError(
            f"[estimate] {problem}: the text is too small or artificial. Give more, a lower "
            "order, or discount_fallback=(0.5, 1, 1.5)"
        )
    return fallback
