"""Kernels around a frame: whether its survivors fit, and which candidates become the beam."""

from __future__ import annotations

import fl_tensor as ft
from fl_text.decoder.numbering import history_of
from fl_text.decoder.records import (
    FRAMES,
    SIZE,
    TOP,
    Beam,
    Candidates,
    History,
    Scores,
    Settings,
    Trace,
)
from fl_text.decoder.selection import kth_largest
from fl_text.ngram.tables import NGramTables


@ft.kernel
def survivors_fit(o: Settings, c: Candidates, h: History, trace: Trace) -> bool:
    """Whether the tables have room for the survivors of one more frame."""
    most = min(o.beam_size, len(c.score))
    row = trace.counts[0] + 1
    if row + 1 >= len(trace.first):
        return False
    return trace.first[row] + most <= len(trace.parent) and h.counts[SIZE] + most <= len(h.state)


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
    g: NGramTables,
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
    for k in range(kept):
        if beam.history[k] < 0:
            beam.history[k] = history_of(s, g, h, beam.pair[k])
