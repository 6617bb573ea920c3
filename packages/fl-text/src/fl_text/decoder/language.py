"""Kernels that ask a language model: n-gram tables, or a row of scores for each state."""

from __future__ import annotations

import fl_tensor as ft
from fl_text.decoder.records import HASH, NO_MODEL, ROWS, NGram, Scores


@ft.kernel
def find(g: NGram, state: int, word: int) -> int:
    """The slot of a word in a context, -1 if the model has no such n-gram."""
    key = (state << 32) | word
    hashed = (((key ^ (key >> 32)) * HASH) >> 32) & 0xFFFFFFFF
    slot = (hashed * g.buckets) >> 32
    while g.key[slot] != key:
        if g.key[slot] < 0:
            return -1
        slot += 1
    return slot


@ft.kernel
def back_off(g: NGram, state: int, word: int) -> float:
    """log10 of a word's probability in a context, by shorter contexts where it is unknown."""
    total = 0.0
    while state > 0:
        slot = find(g, state, word)
        if slot >= 0:
            return total + g.log_prob[slot]
        total += g.backoff[state]
        state = g.suffix[state]
    return total + g.log_prob_1[word]


@ft.kernel
def lm_score(s: Scores, g: NGram, state: int, word: int) -> float:
    """The model's score of a word of the decoder in a state."""
    if s.source == NO_MODEL:
        return 0.0
    if s.source == ROWS:
        return s.rows[state * s.width + word]
    known = s.word[word]
    key = (state << 32) | known
    i = ((key * HASH) >> 31) & (len(s.cache_key) - 1)
    if s.cache_key[i] != key:
        s.cache_key[i] = key
        s.cache[i] = back_off(g, state, known)
    return s.cache[i]


@ft.kernel
def lm_next(s: Scores, g: NGram, state: int, word: int) -> int:
    """The state after a word; -1 where the caller finds it after the frame."""
    if s.source == NO_MODEL:
        return 0
    if s.source == ROWS:
        return -1
    known = s.word[word]
    while state > 0:
        slot = find(g, state, known)
        if slot >= 0:
            return g.next[slot]
        state = g.suffix[state]
    return g.next_1[known]
