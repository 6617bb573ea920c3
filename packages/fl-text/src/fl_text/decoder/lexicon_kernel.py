"""The kernel of the lexicon decoder: hypotheses walk the trie, a frame at a time."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

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
from fl_text.decoder.selection import choose_tokens, highest, mark_tokens
from fl_text.decoder.trie import MAX_LABELS, TrieTables
from fl_text.ngram.tables import NGramTables


@ft.kernel
def lexicon_frames(
    o: Settings,
    trie: TrieTables,
    bonus: Array[ft.float64],
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
    allowed: Array[ft.int32],
) -> int:
    """Decodes frames ``start`` to ``stop - 1`` of ``emissions``; the frame that comes next.

    It is less than ``stop`` if a table is full, or if the rows of new histories must be filled.
    ``bonus`` is the score of each label's word.
    """
    for frame in range(start, stop):
        if not survivors_fit(o, c, h, trace):
            return frame
        clear(o, c)
        at = frame * tokens
        count = choose_tokens(o, emissions, at, tokens, chosen, c.work)
        mark_tokens(o, tokens, chosen, count, allowed)
        limit = LOWEST
        for probe in range(int(o.log_add), -1, -1):
            c.counts[PROBE] = probe
            limit = extend_all(
                o, trie, bonus, s, g, h, beam, c, emissions, transitions, tokens, at, allowed, limit
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
def extend_all(
    o: Settings,
    trie: TrieTables,
    bonus: Array[ft.float64],
    s: Scores,
    g: NGramTables,
    h: History,
    beam: Beam,
    c: Candidates,
    emissions: Array[ft.float32],
    transitions: Array[ft.float32],
    tokens: int,
    at: int,
    allowed: Array[ft.int32],
    limit: float,
) -> float:
    """Proposes what follows from each hypothesis, unless it cannot reach the limit."""
    steps = o.asg and beam.counts[FRAMES] > 0
    peak = highest(emissions, at, tokens) + max(0.0, o.sil_score)
    if steps:
        peak += o.steepest
    for turn in range(beam.counts[SIZE]):
        k = hypothesis_at(beam, turn)
        node = beam.place[k] >> 32
        smear = 0.0
        if node > 0:
            smear = trie.smear[node]
        if beam.score[k] + peak + max(0.0, o.headroom - o.lm_weight * smear) < limit:
            continue
        edges = trie.first[node + 1] - trie.first[node]
        if c.counts[SIZE] + (MAX_LABELS + 2) * edges + 2 > len(c.score):
            c.counts[FULL] = 1
            return limit
        limit = stay(o, beam, c, emissions, transitions, tokens, at, steps, k, limit)
        limit = walk(
            o, trie, bonus, s, g, h, beam, c, emissions, transitions, tokens, at, steps, allowed,
            k, smear, limit,
        )  # fmt: skip
    return limit


@ft.kernel
def stay(
    o: Settings,
    beam: Beam,
    c: Candidates,
    emissions: Array[ft.float32],
    transitions: Array[ft.float32],
    tokens: int,
    at: int,
    steps: bool,
    k: int,
    limit: float,
) -> float:
    """Hypothesis ``k`` stays at its node: it repeats a token (silence at the root), or blank."""
    place = beam.place[k]
    node = place >> 32
    last = (place & 0xFFFFFFFF) >> 1
    if o.asg or (place & 1) == 0 or node == 0:
        token = last
        if node == 0:
            token = o.silence
        gain = float(emissions[at + token])
        if steps:
            gain += transitions[token * tokens + last]
        score = beam.score[k] + gain
        if token == o.silence:
            score += o.sil_score
        limit = propose(
            o, c, limit, score, beam.pair[k], (node << 32) | (2 * token), beam.history[k], k, -1,
            beam.emitting[k] + gain, beam.lm[k],
        )  # fmt: skip
    if not o.asg:
        gain = float(emissions[at + o.blank])
        limit = propose(
            o, c, limit, beam.score[k] + gain, beam.pair[k], (node << 32) | (2 * o.blank + 1),
            beam.history[k], k, -1, beam.emitting[k] + gain, beam.lm[k],
        )  # fmt: skip
    return limit


@ft.kernel
def walk(
    o: Settings,
    trie: TrieTables,
    bonus: Array[ft.float64],
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
    allowed: Array[ft.int32],
    k: int,
    smear: float,
    limit: float,
) -> float:
    """Hypothesis ``k`` goes on to each child, and completes the words that end there.

    The language model is asked last, and only if the score without it can still reach the limit.
    """
    place = beam.place[k]
    node = place >> 32
    last = (place & 0xFFFFFFFF) >> 1
    history = beam.history[k]
    state = h.state[history]
    for edge in range(trie.first[node], trie.first[node + 1]):
        token = trie.token[edge]
        if allowed[token] == 0:
            continue
        gain = float(emissions[at + token])
        if steps:
            gain += transitions[token * tokens + last]
        score = beam.score[k] + gain
        if token == o.silence:
            score += o.sil_score
        if score - o.lm_weight * smear + o.headroom < limit:
            continue
        child = edge + 1
        emitting = beam.emitting[k] + gain
        pair = beam.pair[k]
        known = history
        lm = 0.0
        if o.token_lm:
            lm = lm_score(s, g, state, token)
            pair = (history << 32) | token
            known = -1
        repeated = token == last
        if (o.asg or (place & 1) == 1 or not repeated) and trie.first[child + 1] > trie.first[
            child
        ]:
            if not o.token_lm:
                lm = trie.smear[child] - smear
            limit = propose(
                o, c, limit, score + o.lm_weight * lm, pair, (child << 32) | (2 * token), known, k,
                -1, emitting, beam.lm[k] + lm,
            )  # fmt: skip
        if trie.label_first[child] == trie.label_first[child + 1]:
            if o.unk_score > -math.inf:
                if not o.token_lm:
                    lm = lm_score(s, g, state, o.unknown) - smear
                    pair = (history << 32) | o.unknown
                limit = propose(
                    o, c, limit, score + o.lm_weight * lm + o.unk_score, pair, 2 * token, -1, k,
                    o.unknown, emitting, beam.lm[k] + lm,
                )  # fmt: skip
        elif node > 0 or not repeated:
            for entry in range(trie.label_first[child], trie.label_first[child + 1]):
                word = trie.label[entry]
                if not o.token_lm:
                    lm = lm_score(s, g, state, word) - smear
                    pair = (history << 32) | word
                limit = propose(
                    o, c, limit, score + o.lm_weight * lm + bonus[entry], pair, 2 * token, -1, k,
                    word, emitting, beam.lm[k] + lm,
                )  # fmt: skip
    return limit
