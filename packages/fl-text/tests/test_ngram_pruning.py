"""Pruning by relative entropy leaves out what the definition says, and the rest sums to 1."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from fl_text import TextError
from fl_text.ngram import NGramModel, NGrams, Order, estimate, prune

Rows = dict[tuple[int, ...], float]


def small(order: int = 2) -> NGrams:
    draw = random.Random(1)
    sentences = [
        " ".join(f"w{min(9, int(draw.paretovariate(0.8)))}" for _ in range(draw.randrange(1, 6)))
        for _ in range(60)
    ]
    return estimate(sentences, order, discount_fallback=(0.5, 1, 1.5))


def rows(order: Order) -> Rows:
    return {tuple(w): float(p) for w, p in zip(order.words.tolist(), order.log_prob)}


def rise(unigrams: Rows, bigrams: Rows, gone: tuple[int, int], bos: int) -> float:
    """By how much perplexity rises without a bigram: from both distributions of its context."""
    context = gone[0]

    def distribution(kept: Rows) -> list[float]:
        named = {w: 10**p for (h, w), p in kept.items() if h == context}
        lower = {w: 10**p for (w,), p in unigrams.items()}
        weight = (1 - sum(named.values())) / (1 - sum(lower[w] for w in named))
        return [named.get(w, weight * lower[w]) for w in lower]

    old = distribution(bigrams)
    new = distribution({gram: p for gram, p in bigrams.items() if gram != gone})
    seen = 1.0 if context == bos else 10 ** unigrams[(context,)]
    return math.expm1(seen * sum(p * math.log(p / q) for p, q in zip(old, new) if p > 1e-50))


def test_what_is_pruned_follows_the_definition() -> None:
    ngrams = small()
    unigrams, bigrams = map(rows, ngrams.orders)
    rises = {gram: rise(unigrams, bigrams, gram, bos=1) for gram in bigrams}
    ordered = sorted(rises.values())
    for share in (0.1, 0.5, 0.9):
        at = int(share * len(ordered))
        threshold = (ordered[at - 1] + ordered[at]) / 2
        kept = rows(prune(ngrams, threshold).orders[1])
        assert kept.keys() == {gram for gram, value in rises.items() if value >= threshold}


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 1e-2, 10.0])
def test_a_pruned_model_sums_to_one(threshold: float) -> None:
    pruned = prune(small(3), threshold)
    model = NGramModel.from_ngrams(pruned)
    words = np.arange(len(model.vocabulary))
    for state in range(len(model.tables.backoff)):
        log_probs, _ = model.score_words(np.full(len(words), state), words)
        assert (10.0**log_probs).sum() == pytest.approx(1, abs=1e-5)
    # Contexts of what is left are left.
    for lower, order in zip(pruned.orders, pruned.orders[1:]):
        assert {gram[:-1] for gram in rows(order)} <= rows(lower).keys()
    assert [len(order.words) for order in pruned.orders][1:] == [0, 0] or threshold < 10


def test_nothing_that_helps_goes_at_threshold_zero() -> None:
    ngrams = small(3)
    model, pruned = NGramModel.from_ngrams(ngrams), NGramModel.from_ngrams(prune(ngrams, 0))
    for sentence in ("w1 w2 w1", "w9 w1", "w3 new w2"):
        assert pruned.score(sentence) == pytest.approx(model.score(sentence), abs=1e-2)


def test_thresholds_are_checked() -> None:
    for threshold in (-1.0, math.nan, math.inf):
        with pytest.raises(TextError, match="threshold is a finite number from 0 up"):
            prune(small(), threshold)
