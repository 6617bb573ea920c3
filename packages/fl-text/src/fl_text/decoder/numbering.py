"""Kernels that number histories: the same words in the same order always have the same number."""

from __future__ import annotations

import fl_tensor as ft
from fl_text.decoder.language import lm_next
from fl_text.decoder.records import EPOCH, SIZE, History, Scores
from fl_text.ngram.tables import MULTIPLIER, NGramTables


@ft.kernel
def slot_of(h: History, pair: int) -> int:
    """The slot of a pair (parent << 32 | word), or the empty one where it belongs."""
    mask = len(h.slot) - 1
    i = ((pair * MULTIPLIER) >> 33) & mask
    while (h.slot[i] >> 32) == h.counts[EPOCH]:
        k = h.slot[i] & 0xFFFFFFFF
        if ((h.parent[k] << 32) | h.word[k]) == pair:
            return i
        i = (i + 1) & mask
    return i


@ft.kernel
def history_of(s: Scores, g: NGramTables, h: History, pair: int) -> int:
    """The number of a pair's history; a new history gets the next one."""
    i = slot_of(h, pair)
    if (h.slot[i] >> 32) == h.counts[EPOCH]:
        return h.slot[i] & 0xFFFFFFFF
    number = h.counts[SIZE]
    h.counts[SIZE] = number + 1
    h.slot[i] = (h.counts[EPOCH] << 32) | number
    parent = pair >> 32
    word = pair & 0xFFFFFFFF
    h.parent[number] = parent
    h.word[number] = word
    h.state[number] = lm_next(s, g, h.state[parent], word)
    return number


@ft.kernel
def index_histories(h: History) -> None:
    """Fills the hash table anew. The first history of all has no parent, and is never looked up."""
    h.counts[EPOCH] += 1
    for k in range(h.counts[SIZE]):
        if h.parent[k] >= 0:
            h.slot[slot_of(h, (h.parent[k] << 32) | h.word[k])] = (h.counts[EPOCH] << 32) | k
