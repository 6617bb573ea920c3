"""Kernels around a frame: whether its survivors fit, and which candidates become the beam."""

from __future__ import annotations

import fl_tensor as ft
from fl_text.decoder.language import lm_next
from fl_text.decoder.records import (
    EPOCH,
    FRAMES,
    HASH,
    SIZE,
    TOP,
    Beam,
    Candidates,
    History,
    NGram,
    Scores,
    Settings,
    Trace,
)
from fl_text.decoder.selection import kth_largest


@ft.kernel
def survivors_fit(o: Settings, c: Candidates, h: History, trace: Trace) -> bool:
    """Whether the tables have room for the survivors of one more frame."""
    most = min(o.beam_size, len(c.score))
    row = trace.counts[0] + 1
    if row + 1 >= len(trace.first):
        return False
    return trace.first[row] + most <= len(trace.parent) and h.counts[0] + most <= len(h.state)


@ft.kernel
def hypothesis_at(beam: Beam, turn: int) -> int:
    """The hypothesis whose turn it is: the best one first, so that the limit is high at once."""
    if turn == 0:
        return beam.counts[TOP]
    if turn == beam.counts[TOP]:
        return 0
    return turn


@ft.kernel
def keep_best(
    o: Settings,
    s: Scores,
    g: NGram,
    h: History,
    c: Candidates,
    beam: Beam,
    limit: float,
    trace: Trace,
) -> None:
    """The best candidates within the threshold become the beam, and a row of the trace."""
    n = c.counts[SIZE]
    valid = 0
    for k in range(n):
        if c.score[k] >= limit:
            c.work[valid] = c.score[k]
            valid += 1
    ties = valid
    if valid > o.beam_size:
        limit = kth_largest(c.work, valid, o.beam_size)
        ties = o.beam_size
        for k in range(n):
            if c.score[k] > limit:
                ties -= 1
    row = trace.counts[0] + 1
    at = trace.first[row]
    kept = 0
    top = 0
    for k in range(n):
        score = c.score[k]
        if score > limit or (score == limit and ties > 0):
            if score == limit:
                ties -= 1
            beam.score[kept] = score
            beam.emitting[kept] = c.emitting[k]
            beam.lm[kept] = c.lm[k]
            beam.pair[kept] = c.pair[k]
            beam.place[kept] = c.place[k]
            beam.history[kept] = c.history[k]
            trace.parent[at + kept] = c.parent[k]
            trace.token[at + kept] = (c.place[k] & 0xFFFFFFFF) >> 1
            trace.word[at + kept] = c.word[k]
            if score > beam.score[top]:
                top = kept
            kept += 1
    beam.counts[SIZE] = kept
    beam.counts[TOP] = top
    beam.counts[FRAMES] += 1
    trace.first[row + 1] = at + kept
    trace.counts[0] = row
    number_histories(s, g, h, beam)


@ft.kernel
def number_histories(s: Scores, g: NGram, h: History, beam: Beam) -> None:
    """Equal pairs are one history: new ones get the next numbers.

    Those that have a number go first, so that a pair which one hypothesis enters and in which
    another one stays gets the old number.
    """
    epoch = beam.counts[EPOCH] + 1
    beam.counts[EPOCH] = epoch
    mask = len(beam.slot) - 1
    n = beam.counts[SIZE]
    for new in range(2):
        for k in range(n):
            number = beam.history[k]
            if (number < 0) == (new == 1):
                pair = beam.pair[k]
                i = ((pair * HASH) >> 33) & mask
                while (beam.slot[i] >> 32) == epoch and beam.pair[
                    beam.slot[i] & 0xFFFFFFFF
                ] != pair:
                    i = (i + 1) & mask
                if (beam.slot[i] >> 32) == epoch:
                    if new == 1:
                        beam.history[k] = beam.history[beam.slot[i] & 0xFFFFFFFF]
                else:
                    beam.slot[i] = (epoch << 32) | k
                    if new == 1:
                        number = h.counts[0]
                        h.counts[0] = number + 1
                        parent = pair >> 32
                        word = pair & 0xFFFFFFFF
                        h.parent[number] = parent
                        h.word[number] = word
                        h.state[number] = lm_next(s, g, h.state[parent], word)
                        beam.history[k] = number
