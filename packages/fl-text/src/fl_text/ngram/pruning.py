"""Pruning by relative entropy: n-grams that the model predicts nearly as well without go.

A. Stolcke, "Entropy-based pruning of backoff language models", DARPA Broadcast News Transcription
and Understanding Workshop, 1998.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fl_tensor.annotations import checked
from fl_text.errors import TextError
from fl_text.ngram.linking import link, with_contexts
from fl_text.ngram.ngrams import NGrams, Order
from fl_text.ngram.tables import FloatArray, IntArray, walk

#: Mass below this is rounding: what is left for words that a context does not name.
_LEAST = 1e-7


@checked
def prune(ngrams: NGrams, threshold: float) -> NGrams:
    """The model without the n-grams whose removal raises its perplexity by less than `threshold`,
    as a share: 1e-8 is gentle, 1e-6 strong.

    The rise is estimated for each n-gram alone, from the model itself (equations 5 to 8 of the
    paper). Unigrams stay, and so do n-grams that are contexts of longer ones. Backoffs are computed
    anew, so that probabilities sum to 1 if those of the unigrams do. Raises TextError for lists
    that do not fit together and a threshold that is not from 0 up.
    """
    if not 0 <= threshold < math.inf:
        raise TextError(f"[prune] threshold is a finite number from 0 up, got {threshold}")
    ngrams.check("prune")
    whole = with_contexts(ngrams, "prune")
    orders = list(whole.orders)
    needed: IntArray | None = None  # contexts of what is kept of the order above
    for n in range(len(orders), 1, -1):
        order = orders[n - 1]
        contexts = _contexts(NGrams(whole.vocabulary, orders[:n]), n)
        keep = _rise(order, contexts) >= threshold
        if needed is not None:
            keep |= _rows_in(order.words, needed)
        orders[n - 1] = Order(order.words[keep], order.log_prob[keep], order.backoff[keep])
        needed = np.unique(orders[n - 1].words[:, :-1], axis=0)
    return NGrams(whole.vocabulary, _with_backoffs(whole.vocabulary, orders))


@dataclass
class _Contexts:
    """The contexts of the n-grams of one order, and what the order below says of their words.

    row         (n-grams,): which context
    words       (contexts, n - 1)
    log_prob    (contexts,): log10 of the probability of its words
    lower       (n-grams,): log10 p(word | context without its first word)
    log_left    (contexts,): log10 of the backoff weight
    """

    row: IntArray
    words: IntArray
    log_prob: FloatArray
    lower: FloatArray
    log_left: FloatArray


def _contexts(ngrams: NGrams, n: int) -> _Contexts:
    """Of order n, which is the highest of `ngrams`."""
    tables, words = link(ngrams), ngrams.orders[-1].words
    states = np.zeros(len(words), np.int32)
    log_prob = np.zeros(len(words))
    for k in range(n - 1):
        step, states = walk(tables, states, words[:, k])
        # The beginning of a sentence is certain.
        log_prob += np.where((k == 0) & (words[:, 0] == ngrams.vocabulary.index("<s>")), 0, step)
    lower, _ = walk(tables, tables.suffix[states], words[:, -1])
    different, first, row = np.unique(states, return_index=True, return_inverse=True)
    return _Contexts(
        row.ravel(), words[first, :-1], log_prob[first], lower, tables.backoff[different]
    )


def _masses(order: Order, contexts: _Contexts) -> tuple[FloatArray, FloatArray]:
    """For each context, what its n-grams leave of 1, and what the same words leave in the order
    below."""
    count = len(contexts.words)
    left = 1 - np.bincount(contexts.row, 10.0**order.log_prob, count)
    lower = 1 - np.bincount(contexts.row, 10.0**contexts.lower, count)
    return left, lower


def _rise(order: Order, contexts: _Contexts) -> FloatArray:
    """The share by which perplexity rises without each n-gram."""
    row = contexts.row
    here, below = 10.0 ** order.log_prob.astype(np.float64), 10.0**contexts.lower
    left, lower = _masses(order, contexts)
    # Without the n-gram, its probability is left as well, and backing off takes more words.
    backoff = np.log(np.maximum(left[row] + here, _LEAST) / np.maximum(lower[row] + below, _LEAST))
    log_here, log_left = np.log(here), contexts.log_left[row] * math.log(10)
    distance = -(10.0 ** contexts.log_prob[row]) * (
        here * (np.log(below) + backoff - log_here)
        + np.maximum(left[row], 0) * (backoff - log_left)
    )
    return np.expm1(distance)


def _with_backoffs(vocabulary: list[str], orders: list[Order]) -> list[Order]:
    """The orders with backoffs that make the probabilities of each context sum to 1."""
    done = [Order(orders[0].words, orders[0].log_prob, np.zeros(len(orders[0].words)))]
    for n in range(2, len(orders) + 1):
        order = orders[n - 1]
        contexts = _contexts(NGrams(vocabulary, [*done, order]), n)
        left, lower = _masses(order, contexts)
        # Where every word is named, nothing is backed off to.
        weight = np.where((left > _LEAST) & (lower > _LEAST), left / lower, 1.0)
        before = done[-1]
        backoff = np.zeros(len(before.words))
        backoff[_find_rows(before.words, contexts.words)] = np.log10(weight)
        done[-1] = Order(before.words, before.log_prob, backoff)
        done.append(Order(order.words, order.log_prob, np.zeros(len(order.words))))
    return done


def _as_keys(words: IntArray) -> IntArray:
    """Rows as single values, which compare equal if all words do."""
    words = np.ascontiguousarray(words)
    return words.view(np.dtype((np.void, words.itemsize * words.shape[1]))).ravel()


def _rows_in(words: IntArray, some: IntArray) -> IntArray:
    return np.isin(_as_keys(words), _as_keys(some))


def _find_rows(words: IntArray, some: IntArray) -> IntArray:
    """Where each row of `some` is in `words`, which has them all."""
    keys = _as_keys(words)
    order = np.argsort(keys)
    return order[np.searchsorted(keys, _as_keys(some), sorter=order)]
