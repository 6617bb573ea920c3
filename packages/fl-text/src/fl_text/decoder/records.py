"""The tables of a beam search: what kernels read and write.

Kernels allocate nothing. A kernel that finds a table full returns the frame that it has reached.
The caller makes the table longer and lets the frame run again.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

from typing import NamedTuple

import fl_tensor as ft
from fl_tensor.kernels import Array

#: Below every score: what is impossible (``-inf``) never gets into the beam.
LOWEST = -1.7976931348623157e308

# Entries of History.counts, Candidates.counts and Beam.counts.
SIZE = 0  # how many there are
EPOCH = 1  # slots of another epoch are empty
WATCH = 2  # candidates: raise the limit when there are so many
PROBE = 3  # candidates: 1 if only the best score is wanted
FULL = 4  # candidates: 1 if there may be more of them than places
TOP = 2  # beam: which hypothesis is the best
FRAMES = 3  # beam: frames decoded since the beginning

# Where scores of the language model come from: Scores.source.
NO_MODEL = 0
NGRAM = 1
ROWS = 2


class Settings(NamedTuple):
    """Options, and what is special among tokens and words."""

    beam_size: int
    beam_size_token: int
    beam_threshold: float
    lm_weight: float
    unk_score: float
    sil_score: float
    log_add: bool
    asg: bool
    silence: int
    blank: int  # -1 for ASG
    unknown: int
    token_lm: bool  # the language model scores tokens, not words
    compat: bool  # lexicon-free ASG without transitions in the score
    headroom: float  # the most that a word can add beyond emission and transition
    steepest: float  # the largest transition


class Scores(NamedTuple):
    """Scores of a language model, by state and by word or token of the decoder."""

    source: int
    word: Array[ft.int32]  # n-gram model: its own word for each word of the decoder
    cache_key: Array[ft.int64]  # n-gram model: (state, word) of the score beside it
    cache: Array[ft.float32]
    width: int  # rows: their length
    rows: Array[ft.float32]  # rows: one for each state of the beam


class History(NamedTuple):
    """Histories of words (or tokens): a tree, whose node 0 is the empty history.

    Two of them never have the same parent and word: hypotheses merge only if they have one history.
    """

    parent: Array[ft.int32]
    word: Array[ft.int32]
    state: Array[ft.int32]  # of the language model
    slot: Array[ft.int64]  # hash table of (parent, word): epoch << 32 | history
    counts: Array[ft.int64]


class Candidates(NamedTuple):
    """Hypotheses for the next frame. Equal ``pair`` and ``place``: the same hypothesis."""

    score: Array[ft.float64]
    emitting: Array[ft.float64]  # the part of emissions and transitions
    lm: Array[ft.float64]  # the language model's part, without weight
    pair: Array[ft.int64]  # parent history << 32 | last word: a history, numbered or not
    place: Array[ft.int64]  # trie node << 32 | 2 * token + (the last frame was blank)
    history: Array[ft.int32]  # its number, -1 for one that has none yet
    parent: Array[ft.int32]  # hypothesis of the frame before
    word: Array[ft.int32]  # that ends in this frame, or -1
    slot: Array[ft.int64]  # hash table of (pair, place): epoch << 32 | candidate
    single: Array[ft.float64]  # with log_add: the largest of the scores that were added up
    counts: Array[ft.int64]
    work: Array[ft.float64]


class Beam(NamedTuple):
    """Hypotheses that survived the last frame; fields as in Candidates."""

    score: Array[ft.float64]
    emitting: Array[ft.float64]
    lm: Array[ft.float64]
    pair: Array[ft.int64]
    place: Array[ft.int64]
    history: Array[ft.int32]
    counts: Array[ft.int64]


class Trace(NamedTuple):
    """Survivors of every frame, for the way back. Row 0 is the beam that the trace began with."""

    first: Array[ft.int64]  # of each row
    counts: Array[ft.int64]  # frames in the trace
    parent: Array[ft.int32]
    token: Array[ft.int32]
    word: Array[ft.int32]
