"""Kernels that ask a language model: n-gram tables, or a row of scores for each state."""

from __future__ import annotations

import fl_tensor as ft
from fl_text.decoder.records import NO_MODEL, ROWS, Scores
from fl_text.ngram.kernels import log_prob, next_state
from fl_text.ngram.tables import MULTIPLIER, NGramTables


@ft.kernel
def lm_score(s: Scores, g: NGramTables, state: int, word: int) -> float:
    """The model's score of a word of the decoder in a state."""
    if s.source == NO_MODEL:
        return 0.0
    if s.source == ROWS:
        return s.rows[state * s.width + word]
    known = s.word[word]
    key = (state << 32) | known
    i = ((key * MULTIPLIER) >> 31) & (len(s.cache_key) - 1)
    if s.cache_key[i] != key:
        s.cache_key[i] = key
        s.cache[i] = log_prob(g, state, known)
    return s.cache[i]


@ft.kernel
def lm_next(s: Scores, g: NGramTables, state: int, word: int) -> int:
    """The state after a word; -1 where the caller finds it after the frame."""
    if s.source == NO_MODEL:
        return 0
    if s.source == ROWS:
        return -1
    return next_state(g, state, s.word[word])
