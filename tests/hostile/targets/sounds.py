"""Sound: files that are written, other rates, effects."""

from __future__ import annotations

import io

import numpy as np

from bad_values import value
from cases import Target
from targets.making import At, target

NO_AUDIO = [
    *[value(None), value("text"), value(3.5), value({}), value([1, 2])],
    *[value(np.zeros(4, np.int8), "int8"), value(np.zeros((1, 1, 4)), "three axes")],
]
BROKEN = [value(np.full(4, np.nan), "NaN"), value(np.full(4, np.inf), "infinity")]
TARGETS: list[Target] = [
    target(
        "speech.save_audio",
        {"path": At("a.wav"), "audio": lambda: np.zeros(8), "sample_rate": 8000},
        path=[*[value(None), value(3), value(io.StringIO(), "a text"), value("a.text")]],
        audio=[*NO_AUDIO, *BROKEN, value(np.zeros((0, 4)), "no channels")],
        sample_rate=[value(0), value(-1), value(1.5), value(None), value("8000"), value(1 << 40)],
        format=[value("wave"), value(3), value(b"WAV"), value("")],
        subtype=[value("PCM"), value(3), value("VORBIS"), value("pcm_17"), value("")],
        quality=[value(-1), value(2), value("1"), value(0.5)],
    ),
    target(
        "speech.resample",
        {"0": lambda: np.zeros(8), "1": 16000, "2": 8000},
        _0=[*NO_AUDIO[:-1], value(np.float64(1), "a number")],
        _1=[value(0), value(-1), value(1.5), value(None), value("8000")],
        _2=[value(0), value(-1), value(1.5), value(None), value("8000"), value(1 << 60)],
        method=[value("linear"), value(None), value(3)],
    ),
]
UNTRIED: dict[str, str] = {}
