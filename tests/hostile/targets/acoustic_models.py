"""Acoustic models: architecture files, Python files, features and lengths."""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft
from bad_values import Bad, value
from cases import Target
from fl_speech.models import AcousticModel, from_python, load_arch
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
UNTRIED: dict[str, str] = {}
