"""Sound: files that are written, other rates, effects."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

import fl_tensor as ft
from bad_values import Bad, value
from cases import Target
from fl_speech import effects, save_audio
from targets.making import At, target

NO_AUDIO = [
    *[value(None), value("text"), value(3.5), value({}), value([1, 2])],
    *[value(np.zeros(4, np.int8), "int8"), value(np.zeros((1, 1, 4)), "three axes")],
]
BROKEN = [value(np.full(4, np.nan), "NaN"), value(np.full(4, np.inf), "infinity")]
SHARES = [value(-0.1), value(1.1), value(float("nan")), value(None), value("1"), value(b"1")]
BOUNDS = [value(float("nan")), value(float("inf")), value(None), value("1"), value([1.0])]
COUNTS = [value(-1), value(1.5), value(None), value("1"), value(1 << 40)]
SEEDS = [value(None), value(-1), value(1.5), value("0"), value(1 << 64), value(True)]


class Quiet(effects.SoundEffect):
    def apply(self, x: Any, generator: ft.Generator) -> Any:
        return x / 2


def applied(kind: type[effects.SoundEffect]) -> Any:
    """An effect that is made and called."""

    def call(x: Any = None, generator: Any = 0, **settings: Any) -> Any:
        effect = kind(**settings)
        return effect(np.ones(2000) if x is None else x, generator)

    return call


def noise_list(content: bytes, name: str = "bad.txt") -> Any:
    def make(folder: Path) -> Path:
        save_audio(folder / "a.wav", np.ones(10), 8000)
        (folder / name).write_bytes(content)
        return folder / name

    return make


def noisy(folder: Any, x: Any = None, generator: Any = 0, **settings: Any) -> Any:
    settings = {"list_file_path": noise_list(b"a.wav", "good.txt")(Path(folder).parent)} | settings
    return effects.AdditiveNoise(**settings)(np.ones(100) if x is None else x, generator)


def written(entry: Any) -> Bad:
    """A file of effects with this entry."""

    def make(folder: Path) -> Path:
        (folder / "bad.json").write_text(json.dumps({"soundEffectChain": [entry]}))
        return folder / "bad.json"

    return Bad(f"a file with {entry!r:.40}", make)


def chain() -> effects.SoundEffectChain:
    return effects.SoundEffectChain([effects.Amplify()])


ENTRIES = [{}, [], None, {"type": 3}, {"type": "Amplify", "amplifyConfig": {"ratioMin": None}}]
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
    target(
        "speech.effects.SoundEffect",
        {"x": lambda: np.ones(100), "generator": 0},
        call=lambda x, generator: Quiet()(x, generator),
        x=[*NO_AUDIO, *BROKEN],
        generator=SEEDS,
    ),
    target(
        "speech.effects.AdditiveNoise",
        {"0": At("empty")},
        call=noisy,
        list_file_path=[
            *[value(None), value(3), value("none"), Bad("no list", noise_list(b"\xff"))],
            *[Bad("no files", noise_list(b"x\0y")), Bad("empty", noise_list(b""))],
            Bad("itself", noise_list(b"bad.txt")),
        ],
        proba=SHARES,
        ratio=SHARES,
        min_snr=BOUNDS,
        max_snr=BOUNDS,
        n_clips_min=COUNTS,
        n_clips_max=COUNTS,
    ),
    target(
        "speech.effects.GaussianNoise",
        {},
        call=applied(effects.GaussianNoise),
        proba=SHARES,
        min_snr=[*BOUNDS, value(31)],
        max_snr=[*BOUNDS, value(-1)],
        generator=SEEDS,
    ),
    target(
        "speech.effects.ReverbEcho",
        {},
        call=applied(effects.ReverbEcho),
        proba=SHARES,
        initial_min=[*BOUNDS, value(-1.0)],
        rt60_min=[*BOUNDS, value(0.0)],
        first_delay_min=[*BOUNDS, value(0.0)],
        repeat=COUNTS,
        jitter=SHARES,
        sample_rate=[value(0), value(-1), value(1.5), value(None), value("1")],
    ),
    target(
        "speech.effects.TimeStretch",
        {},
        call=applied(effects.TimeStretch),
        proba=SHARES,
        min_factor=[*BOUNDS, value(0.0), value(2.0)],
        max_factor=[*BOUNDS, value(100.0), value(0.5)],
        sample_rate=[value(0), value(-1), value(1.5), value(None), value("1")],
    ),
    target(
        "speech.effects.time_stretch",
        {"0": lambda: np.ones(2000), "1": 0.9},
        _0=NO_AUDIO,
        _1=[*BOUNDS, value(0.0), value(-1.0), value(1e9)],
        sample_rate=[value(0), value(-1), value(1.5), value(None), value("1")],
    ),
    target(
        "speech.effects.Amplify",
        {},
        call=applied(effects.Amplify),
        ratio_min=[*BOUNDS, value(-1.0), value(2.0)],
        ratio_max=[*BOUNDS, value(-1.0)],
    ),
    target(
        "speech.effects.ClampAmplitude",
        {},
        call=applied(effects.ClampAmplitude),
        x=[*NO_AUDIO[1:], *BROKEN],
    ),
    target(
        "speech.effects.Normalize",
        {},
        call=applied(effects.Normalize),
        only_if_too_high=[value(None), value("no"), value(2.0)],
    ),
    target(
        "speech.effects.SoundEffectChain",
        {"effects": lambda: [effects.Amplify()]},
        effects=[value(None), value(3), value("ab"), value([None]), value([effects.Amplify])],
    ),
    target(
        "speech.effects.create_effects",
        {"config": lambda: {"soundEffectChain": []}},
        config=[value(None), value([]), value({}), value({"soundEffectChain": 3}), value("a")],
    ),
    target(
        "speech.effects.read_effects",
        {"path": At("a.json", b'{"soundEffectChain": []}')},
        path=[value(None), value(3), value("none"), *[written(entry) for entry in ENTRIES]],
    ),
    target(
        "speech.effects.write_effects",
        {"path": At("a.json"), "effects": chain},
        path=[value(None), value(3), value("none/a.json")],
        effects=[value(None), value([]), value("a")],
    ),
]
UNTRIED: dict[str, str] = {}
