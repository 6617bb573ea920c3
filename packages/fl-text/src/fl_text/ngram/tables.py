"""The tables of an n-gram model: plain arrays that kernels walk and NumPy walks in batches.

A state is a context, that is, an n-gram that something can follow; state 0 is the empty one. States
of longer contexts have larger numbers, and `suffix` leads from each to a smaller one, so that every
walk ends. One hash table (open addressing) has the words that follow states. Unigrams, which follow
state 0, are found by the index of their word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

import fl_tensor as ft
from fl_tensor.kernels import Array

if TYPE_CHECKING:
    Int64s: TypeAlias = np.ndarray[Any, Any]
    Int32s: TypeAlias = np.ndarray[Any, Any]
    Float32s: TypeAlias = np.ndarray[Any, Any]
else:  # what kernels are compiled for
    Int64s, Int32s, Float32s = Array[ft.int64], Array[ft.int32], Array[ft.float32]

IntArray: TypeAlias = "np.ndarray[Any, Any]"
FloatArray: TypeAlias = "np.ndarray[Any, Any]"

#: Odd, so that the product has all bits of a key: 2 ** 64 divided by the golden ratio.
MULTIPLIER = 0x9E3779B97F4A7C15 - (1 << 64)
EMPTY = -1


class NGramTables(NamedTuple):
    """Log probabilities to base 10, with the states before and after them.

    key          int64 (slots,): state << 32 | word, or -1; the last slot is empty
    log_prob     float32 (slots,): of the word in that state
    next         int32 (slots,): the state after the word
    backoff      float32 (states,): added where a state does not know a word
    suffix       int32 (states,): the state to back off to, always a smaller one
    log_prob_1   float32 (words,): of unigrams, by word
    next_1       int32 (words,): the state after a word that the state before did not know
    buckets      searches begin at one of so many slots

    The search for a key begins at slot `h * buckets >> 32`, where h is the upper half of
    `(key ^ key >> 32) * MULTIPLIER`. It goes upwards until the key or an empty slot is found. There
    are more slots than buckets, so that no search wraps around.
    """

    key: Int64s
    log_prob: Float32s
    next: Int32s
    backoff: Float32s
    suffix: Int32s
    log_prob_1: Float32s
    next_1: Int32s
    buckets: int


def first_slot(keys: IntArray, buckets: int) -> IntArray:
    """Where the search for each of `keys` (int64, not negative) begins."""
    hashed = ((keys ^ (keys >> 32)) * np.int64(MULTIPLIER)).view(np.uint64)
    hashed >>= np.uint64(32)
    hashed *= np.uint64(buckets)
    hashed >>= np.uint64(32)
    return hashed.view(np.int64)


def place(keys: IntArray) -> tuple[IntArray, int, int]:
    """Different slots for all `keys`, the number of slots, and that of buckets."""
    buckets = 2 * len(keys) + 1
    first = first_slot(keys, buckets)
    order = np.argsort(first)
    count = np.arange(len(keys))
    # In order of the first slots, each key takes the next one that is free.
    sorted_slots = np.maximum.accumulate(first[order] - count) + count
    slots = np.empty_like(first)
    slots[order] = sorted_slots
    return slots, max(buckets, int(slots.max(initial=0)) + 1) + 1, buckets


def find(table: IntArray, buckets: int, keys: IntArray) -> IntArray:
    """The slot of each of `keys` in `table`, -1 for those that are not there; int64 (keys,)."""
    slots = first_slot(keys, buckets)
    there = table[slots]
    waiting = np.flatnonzero(there != keys)
    while len(waiting):
        seen = there[waiting]
        slots[waiting[seen == EMPTY]] = -1
        waiting = waiting[seen != EMPTY]
        slots[waiting] += 1
        there[waiting] = table[slots[waiting]]
        waiting = waiting[there[waiting] != keys[waiting]]
    return slots


def pair_keys(states: IntArray, words: IntArray) -> IntArray:
    """The keys of words that follow states; int64."""
    return (states.astype(np.int64) << 32) | words


def walk(tables: NGramTables, states: IntArray, words: IntArray) -> tuple[FloatArray, IntArray]:
    """log10 p(word | state) as float64, and the states after the words as int32, of each pair.

    Both are one-dimensional and in range: nothing is checked here.
    """
    states = states.copy()
    log_probs = np.zeros(len(words))
    after = np.empty(len(words), np.int32)
    waiting = np.arange(len(words))
    while len(waiting):
        at_unigrams = states[waiting] == 0
        last = waiting[at_unigrams]
        log_probs[last] += tables.log_prob_1[words[last]]
        after[last] = tables.next_1[words[last]]
        waiting = waiting[~at_unigrams]
        slots = find(tables.key, tables.buckets, pair_keys(states[waiting], words[waiting]))
        known = slots >= 0
        found, slots = waiting[known], slots[known]
        log_probs[found] += tables.log_prob[slots]
        after[found] = tables.next[slots]
        waiting = waiting[~known]
        log_probs[waiting] += tables.backoff[states[waiting]]
        states[waiting] = tables.suffix[states[waiting]]
    return log_probs, after


def walk_texts(tables: NGramTables, start: int, words: IntArray, ends: IntArray) -> FloatArray:
    """The score of each text, word after word in all of them at once: text k has the words up to
    `ends[k]`, and begins in state `start`."""
    at = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
    states = np.full(len(ends), start, np.int32)
    scores = np.zeros(len(ends))
    going = np.flatnonzero(at < ends)
    while len(going):
        log_probs, states[going] = walk(tables, states[going], words[at[going]])
        scores[going] += log_probs
        at[going] += 1
        going = going[at[going] < ends[going]]
    return scores
