"""Kernels over the tables of a model, for decoders and for whole texts."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_tensor.kernels.compilers import Interpreter, compiler_name
from fl_text.ngram.tables import MULTIPLIER, NGramTables


def compiled() -> bool:
    """Whether kernels are compiled; array operations are faster than the interpreter."""
    return compiler_name() != Interpreter.name


@ft.kernel
def slot_of(table: Array[ft.int64], buckets: int, key: int) -> int:
    """The slot of a key, -1 if the table does not have it. As `tables.find`."""
    hashed = (((key ^ (key >> 32)) * MULTIPLIER) >> 32) & 0xFFFFFFFF
    slot = (hashed * buckets) >> 32
    while table[slot] != key:
        if table[slot] < 0:
            return -1
        slot += 1
    return slot


@ft.kernel
def log_prob(g: NGramTables, state: int, word: int) -> float:
    """log10 p(word | state)."""
    total = 0.0
    while state > 0:
        slot = slot_of(g.key, g.buckets, (state << 32) | word)
        if slot >= 0:
            return total + g.log_prob[slot]
        total += g.backoff[state]
        state = g.suffix[state]
    return total + g.log_prob_1[word]


@ft.kernel
def next_state(g: NGramTables, state: int, word: int) -> int:
    """The state after a word."""
    while state > 0:
        slot = slot_of(g.key, g.buckets, (state << 32) | word)
        if slot >= 0:
            return g.next[slot]
        state = g.suffix[state]
    return g.next_1[word]


@ft.kernel
def score_texts(
    g: NGramTables,
    start: int,
    words: Array[ft.int32],
    ends: Array[ft.int64],
    scores: Array[ft.float64],
) -> None:
    """The score of each text: text k has the words up to `ends[k]`, and begins in state `start`."""
    at = 0
    for text in range(len(ends)):
        state = start
        total = 0.0
        while at < ends[text]:
            total += log_prob(g, state, words[at])
            state = next_state(g, state, words[at])
            at += 1
        scores[text] = total
