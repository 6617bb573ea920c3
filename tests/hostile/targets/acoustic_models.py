"""Acoustic models: architecture files, Python files, features and lengths."""

from __future__ import annotations

import json
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from bad_values import Bad, value
from cases import Target
from fl_speech.models import (
    AcousticModel,
    Wav2Vec2,
    Whisper,
    from_python,
    load_arch,
    normalized,
    whisper_features,
)
from targets.making import At, target, x

ARCH = b"V -1 1 NFEAT 0\nC NFEAT 6 3 2 -1\nR\nRO 2 0 3 1\nL 6 NLABEL\n"
PYTHON = b"""import fl_nn as nn

def create_module(n_features, n_classes):
    return nn.Linear(n_features, n_classes)
"""
ARCHS = [
    Bad("cut off", At("a.arch", ARCH[:-4]).make),
    Bad("no text", At("a.arch", b"\xff\xfe\x00").make),
    Bad("an unknown token", At("a.arch", ARCH + b"WHAT 3\n").make),
]
PYTHONS = [
    Bad("cut off", At("a.py", PYTHON[:-4]).make),
    Bad("no text", At("a.py", b"\xff\xfe\x00").make),
    Bad("without the function", At("a.py", b"x = 3\n").make),
    Bad("another result", At("a.py", PYTHON.replace(b"nn.Linear(", b"print(")).make),
]
FEATURES = [value(None), value("text"), value(len), value(x(3)), value(x(2, 5, 4))]
LENGTHS = [value("text"), value([1]), value([1, 9]), value([0, 1]), value([1.5, 2]), value(len)]


def model() -> AcousticModel:
    return AcousticModel(nn.Linear(3, 2)).eval()


def call(features: Any, lengths: Any) -> object:
    return model()(features, lengths)


def stream(features: Any) -> object:
    return model().stream().push(features)


def wav2vec2() -> Wav2Vec2:
    return Wav2Vec2(7, 8, 2, 12, 1, (4, 6), (10, 3), (5, 2), reach=4, groups=2).eval()


def whisper() -> Whisper:
    return Whisper(20, 5, 8, 2, 12, 1, steps=10, texts=9, start=1, end=2).eval()


def refusing(kind: type[Wav2Vec2] | type[Whisper]) -> Any:
    """Loads a folder; the good one, without weights, is refused by its settings."""

    def load(folder: Any) -> object:
        if (
            getattr(folder, "name", "") == "model"
            and (folder / "config.json").read_bytes() == b"{}"
        ):
            return None
        return kind.from_huggingface(folder)

    return load


def huge(kind: type[Wav2Vec2] | type[Whisper]) -> bytes:
    name = "hidden_size" if kind is Wav2Vec2 else "d_model"
    settings = {"model_type": kind.__name__.lower(), name: 10**9}
    return json.dumps(settings).encode()


TARGETS: list[Target] = [
    target(
        "speech.models.load_arch",
        {"0": At("a.arch", ARCH), "1": 3, "2": 4},
        call=load_arch,
        _0=[*ARCHS, value("no_such_name")],
        _1="positive",
        _2="positive",
    ),
    target(
        "speech.models.from_python",
        {"0": At("a.py", PYTHON), "1": 3, "2": 4},
        call=from_python,
        _0=[*PYTHONS, value("no_such_file.py")],
        _1="positive",
        _2="positive",
    ),
    target(
        "speech.models.AcousticModel",
        {"0": lambda: nn.Linear(3, 2), "layout": "features"},
        call=AcousticModel,
        _0=[value(None), value("text"), value(len)],
        layout="choice",
    ),
    target(
        "speech.models.AcousticModel called",
        {"features": lambda: ft.ones((2, 5, 3)), "lengths": [5, 4]},
        call=call,
        features=FEATURES,
        lengths=LENGTHS,
    ),
    target(
        "speech.models.Stream",
        {"features": lambda: ft.ones((5, 3))},
        call=stream,
        features=[value(None), value("text"), value(x(3)), value(x(2, 5, 3, 1)), value(x(2, 4))],
    ),
]
TARGETS += [
    target(
        f"speech.models.{kind.__name__}.from_huggingface",
        {"0": At("model", {"config.json": b"{}"})},
        call=refusing(kind),
        _0=[
            value(None),
            value(3),
            Bad("a missing folder", At("none").make),
            Bad("no JSON", At("model", {"config.json": b"{"}).make),
            Bad("a list", At("model", {"config.json": b"[]"}).make),
            Bad("another model", At("model", {"config.json": b'{"model_type": "bert"}'}).make),
            Bad("deep", At("model", {"config.json": b"[" * 100_000}).make),
            Bad("a huge size", At("model", {"config.json": huge(kind)}).make),
        ],
    )
    for kind in (Wav2Vec2, Whisper)
]
TARGETS += [
    target(
        "speech.models.normalized",
        {"samples": lambda: ft.ones((2, 5)), "lengths": [5, 4]},
        call=normalized,
        samples=[value(None), value("text"), value(x(3)), value(x(2, 5, 4))],
        lengths=LENGTHS,
    ),
    target(
        "speech.models.whisper_features",
        {"samples": lambda: ft.ones((2, 500)), "mels": 8, "seconds": 0.5},
        call=whisper_features,
        samples=[value(None), value("text"), value(3.5), value(len)],
        mels=[value(0), value(-1), value("text"), value(2.5)],
        seconds=[value(0.0), value(-1.0), value("text"), value(float("nan")), value(1e12)],
    ),
    target(
        "speech.models.Wav2Vec2 called",
        {"features": lambda: ft.ones((2, 90)), "lengths": [90, 60]},
        call=lambda features, lengths: wav2vec2()(features, lengths),
        features=[value(None), value("text"), value(x(3)), value(x(2, 5, 4)), value(x(2, 5))],
        lengths=LENGTHS,
    ),
    target(
        "speech.models.Whisper.greedy",
        {"features": lambda: ft.ones((1, 20, 5)), "prompt": [1], "max_tokens": 2, "suppress": []},
        call=lambda **given: whisper().greedy(**given),
        features=[value(None), value("text"), value(x(3)), value(x(1, 20, 4)), value(x(1, 30, 5))],
        prompt=[value([]), value([20]), value([-1]), value(["a"]), value(3)],
        max_tokens=[value(0), value(9), value(-1), value("text")],
        suppress=[value([20]), value([-1]), value(3), value("text")],
    ),
]
UNTRIED: dict[str, str] = {}
