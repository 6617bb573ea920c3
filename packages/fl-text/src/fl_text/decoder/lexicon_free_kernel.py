"""The kernel of the lexicon-free decoder: any token may follow any other."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import fl_tensor as ft
from fl_tensor.kernels import Array
from fl_text.decoder.language import lm_score
from fl_text.decoder.merging import clear, propose
from fl_text.decoder.pruning import hypothesis_at, keep_best, survivors_fit
from fl_text.decoder.records import (
    FRAMES,
    FULL,
    LOWEST,
    PROBE,
    ROWS,
    SIZE,
    Beam,
    Candidates,
    History,
    Scores,
    Settings,
    Trace,
)
from fl_text.decoder.selection import choose_tokens, sort_tokens
from fl_text.ngram.tables import NGramTables


@ft.kernel
def lexicon_free_frames(
    o: Settings,
    s: Scores,
    g: NGramTables,
    h: History,
    beam: Beam,
    c: Candidates,
    trace: Trace,
    emissions: Array[ft.float32],
    transitions: Array[ft.float32],
    tokens: int,
    start: int,
    stop: int,
    chosen: Array[ft.int32],
) -> int:
    """Decodes frames ``start`` to ``stop - 1`` of ``emissions``; the frame that comes next.

    It is less than ``stop`` if a table is full, or if the rows of new histories must be filled.
    """
    for frame in range(start, stop):
        if not survivors_fit(o, c, h, trace):
            return frame
        clear(o, c)
        at = frame * tokens
        count = choose_tokens(o, emissions, at, tokens, chosen, c.work)
        sort_tokens(emissions, at, count, chosen)
        limit = LOWEST
        for probe in range(int(o.log_add), -1, -1):
            c.counts[PROBE] = probe
            limit = extend_all_freely(
                o, s, g, h, beam, c, emissions, transitions, tokens, at, chosen, count, limit
            )
            if c.counts[FULL] == 1:
                return frame
            if probe == 1:
                limit = max(LOWEST, limit - o.beam_threshold)
        keep_best(o, s, g, h, c, beam, limit, trace)
        if s.source == ROWS:
            return frame + 1
    return stop


@ft.kernel
def extend_all_freely(
    o: Settings,
    s: Scores,
    g: NGramTables,
    h: History,
    beam: Beam,
    c: Candidates,
    emissions: Array[ft.float32],
    transitions: Array[ft.float32],
    tokens: int,
    at: int,
    chosen: Array[ft.int32],
    count: int,
    limit: float,
) -> float:
    """Proposes what follows from each hypothesis."""
    steps = o.asg and beam.counts[FRAMES] > 0
    for turn in range(beam.counts[SIZE]):
        if c.counts[SIZE] + count > len(c.score):
            c.counts[FULL] = 1
            return limit
        k = hypothesis_at(beam, turn)
        limit = extend(
            o, s, g, h, beam, c, emissions, transitions, tokens, at, steps, chosen, count, k, limit
        )
    return limit


@ft.kernel
def extend(
    o: Settings,
    s: Scores,
    g: NGramTables,
    h: History,
    beam: Beam,
    c: Candidates,
    emissions: Array[ft.float32],
    transitions: Array[ft.float32],
    tokens: int,
    at: int,
    steps: bool,
    chosen: Array[ft.int32],
    count: int,
    k: int,
    limit: float,
) -> float:
    """Hypothesis ``k`` takes each token, those with the highest emissions first.

    A repeated token and a blank leave the history as it is; the language model scores the others.
    """
    place = beam.place[k]
    blank = place & 1
    last = (place & 0xFFFFFFFF) >> 1
    history = beam.history[k]
    state = h.state[history]
    ceiling = beam.score[k] + o.headroom + max(0.0, o.sil_score)
    if steps:
        ceiling += o.steepest
    for rank in range(count):
        token = chosen[rank]
        gain = float(emissions[at + token])
        if ceiling + gain < limit:
            break
        score = beam.score[k] + gain
        if steps:
            gain += transitions[token * tokens + last]
            if not o.compat:
                score = beam.score[k] + gain
        if token == o.silence:
            score += o.sil_score
        if score + o.headroom < limit:
            continue
        emitting = beam.emitting[k] + gain
        if (o.asg and token != last) or (
            not o.asg and token != o.blank and (token != last or blank == 1)
        ):
            lm = lm_score(s, g, state, token)
            limit = propose(
                o, c, limit, score + o.lm_weight * lm, (history << 32) | token, 2 * token, -1, k,
                -1, emitting, beam.lm[k] + lm,
            )  # fmt: skip
        else:
            turned = 2 * token
            if not o.asg and token == o.blank:
                turned += 1
            limit = propose(
                o, c, limit, score, beam.pair[k], turned, history, k, -1, emitting, beam.lm[k]
            )
    return limit
