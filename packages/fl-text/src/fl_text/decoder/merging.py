"""Kernels that collect the candidates of a frame: merge equal ones, drop hopeless ones."""

from __future__ import annotations

import math

import fl_tensor as ft
from fl_text.decoder.records import EPOCH, FULL, PROBE, SIZE, WATCH, Candidates, Settings
from fl_text.decoder.selection import kth_largest
from fl_text.ngram.tables import MULTIPLIER


@ft.kernel
def clear(o: Settings, c: Candidates) -> None:
    """Leaves no candidate."""
    c.counts[SIZE] = 0
    c.counts[EPOCH] += 1
    c.counts[WATCH] = 2 * o.beam_size
    c.counts[PROBE] = 0
    c.counts[FULL] = 0


@ft.kernel
def raise_limit(o: Settings, c: Candidates, limit: float) -> float:
    """A candidate below the beam_size-th best one so far cannot get into the beam."""
    n = c.counts[SIZE]
    for k in range(n):
        c.work[k] = c.score[k]
    c.counts[WATCH] = n + o.beam_size
    return max(limit, kth_largest(c.work, n, o.beam_size))


@ft.kernel
def propose(
    o: Settings,
    c: Candidates,
    limit: float,
    score: float,
    pair: int,
    place: int,
    history: int,
    parent: int,
    word: int,
    emitting: float,
    lm: float,
) -> float:
    """Adds a candidate that is not below ``limit``, or merges it with its equal; the new limit.

    The limit is the best score less the threshold. If equal candidates keep the larger score, it
    also rises to the beam_size-th best one: which candidates survive does not depend on the order.
    While probing, the limit is the best score, and there are no candidates.
    """
    if not (score >= limit):  # NaN: weight 0 times a score of -inf
        return limit
    if c.counts[PROBE] == 1:
        return score
    epoch = c.counts[EPOCH]
    mask = len(c.slot) - 1
    i = ((((pair * MULTIPLIER) ^ place) * MULTIPLIER) >> 33) & mask
    slot = c.slot[i]
    k = slot & 0xFFFFFFFF
    while (slot >> 32) == epoch and (c.pair[k] != pair or c.place[k] != place):
        i = (i + 1) & mask
        slot = c.slot[i]
        k = slot & 0xFFFFFFFF
    if (slot >> 32) != epoch:
        k = c.counts[SIZE]
        c.counts[SIZE] = k + 1
        c.slot[i] = (epoch << 32) | k
        c.pair[k] = pair
        c.place[k] = place
        c.history[k] = history
        c.score[k] = score
    else:
        if history >= 0:
            c.history[k] = history
        total = c.score[k]
        largest = total
        if o.log_add:
            largest = c.single[k]
            c.score[k] = max(total, score) + math.log1p(math.exp(-abs(total - score)))
        if score <= largest:
            return limit
        if not o.log_add:
            c.score[k] = score
    c.single[k] = score
    c.parent[k] = parent
    c.word[k] = word
    c.emitting[k] = emitting
    c.lm[k] = lm
    limit = max(limit, score - o.beam_threshold)
    if c.counts[SIZE] >= c.counts[WATCH] and not o.log_add:
        limit = raise_limit(o, c, limit)
    return limit
