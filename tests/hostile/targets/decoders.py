"""Beam-search decoders: emissions, tries, settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import fl_text as text
from bad_values import value
from cases import Target
from fl_text.decoder import DecoderOptions, LexiconDecoder, LexiconFreeDecoder, Trie
from targets.making import target


def letters() -> text.Dictionary:
    return text.Dictionary(["|", "a", "b", "#"])


def words() -> text.Dictionary:
    return text.Dictionary(["a", "ab"])


def trie() -> Trie:
    return Trie([(1, 0), (1, 2, 0)], [0, 1], tokens=4)


def decode(emissions: Any, **more: Any) -> object:
    return LexiconFreeDecoder(letters()).decode(emissions, **more)


def stream(emissions: Any, look_back: Any) -> object:
    with LexiconFreeDecoder(letters()).begin() as begun:
        begun.step(emissions)
        return begun.prune(look_back)


FRAMES = np.zeros((3, 4), np.float32)
EMISSIONS = [
    *[value(None), value("text"), value(len), value({"a": 1}), value(3.5)],
    *[value(np.zeros((3, 5)), "other tokens"), value(np.zeros(4), "one frame")],
    value(np.full((3, 4), math.nan), "NaN"),
    value(np.full((3, 4), math.inf), "infinite"),
    value(np.zeros((3, 4), complex), "complex"),
    value(np.zeros((3, 4), object), "objects"),
]
COUNTS = [value(0), value(-1), value(2.5), value("text"), value([1])]
NO_MODELS = [value("text"), value(3), value(len), value({"a": 1})]
SPECIAL = [value("?"), value(4), value(-1), value(2.5), value(None)]
TARGETS: list[Target] = [
    target(
        "text.decoder.DecoderOptions",
        {"beam_size": 5},
        call=DecoderOptions,
        beam_size=COUNTS,
        beam_size_token=COUNTS,
        beam_threshold=[value(-1.0), value(math.nan), value(math.inf), value("text")],
        lm_weight=[value(math.nan), value("text"), value([1])],
        unk_score=[value(math.inf), value(math.nan), value("text")],
        criterion=[value("s2s"), value(3), value(None), value([1])],
    ),
    target(
        "text.decoder.Trie",
        {"0": [(1, 0), (1, 2, 0)], "1": [0, 1], "2": [0.0, -1.0], "tokens": 4},
        call=Trie,
        _0=[value([]), value([(1,), (9,)]), value([(1,), ()]), value(3), value([1, 2])],
        _1=[value([0]), value([0, -1]), value("text"), value([0, 1 << 40])],
        _2=[value([0.0]), value([0.0, math.nan]), value([0.0, -math.inf]), value("text")],
        tokens=[value(2), value(0), value(-1), value("text"), value(2.5)],
        smearing=[value("mean"), value(3), value(None)],
    ),
    target(
        "text.decoder.LexiconFreeDecoder",
        {"0": letters},
        call=LexiconFreeDecoder,
        _0=[value(None), value(["a"]), value(3)],
        lm=NO_MODELS,
        options=[value({"beam_size": 5}), value(3)],
        silence=SPECIAL,
        blank=SPECIAL,
        transitions=[value(np.zeros((4, 4)), "for CTC")],
    ),
    target(
        "text.decoder.LexiconDecoder",
        {"0": trie, "1": letters, "words": words},
        call=LexiconDecoder,
        _0=[value(None), value(["a"]), value({"a": ["b"]}), value(3)],
        _1=[value(None), value(["a"]), value(3)],
        words=[value(None), value(["a"]), value({"a": 0})],
        lm=NO_MODELS,
        hot_words=[value({"c": 1.0}), value({"a": math.nan}), value({"a": "x"}), value(["a"])],
    ),
    target(
        "text.decoder.LexiconFreeDecoder.decode",
        {"0": FRAMES, "n_best": 2},
        call=decode,
        _0=EMISSIONS,
        n_best=COUNTS,
    ),
    target(
        "text.decoder.LexiconFreeDecoder.decode_batch",
        {"0": [FRAMES], "1": [2], "threads": 1},
        call=lambda *a, **k: LexiconFreeDecoder(letters()).decode_batch(*a, **k),
        _0=[value(3), value(None), value([FRAMES, FRAMES], "more utterances"), value(["text"])],
        _1=[value([4]), value([-1]), value([1, 2]), value(["text"]), value(3)],
        threads=COUNTS,
    ),
    target(
        "text.decoder.Stream",
        {"0": FRAMES, "1": 2},
        call=stream,
        _0=EMISSIONS,
        _1=[value(-1), value("text"), value([1])],
    ),
]
UNTRIED: dict[str, str] = {
    "text.decoder.Hypothesis": "a record",
    "text.decoder.Span": "a record",
}
