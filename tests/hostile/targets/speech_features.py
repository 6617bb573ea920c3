"""Features of audio: extractors, streams, derivatives, normalisation."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_speech.features import FeatureExtractor, FeatureParams
from targets.making import target, x


def extracted(samples: Any, lengths: Any = None) -> Any:
    return FeatureExtractor(FeatureParams.flashlight())(samples, lengths)


def streamed(chunk: Any) -> Any:
    return FeatureExtractor().stream().push(chunk)


LENGTHS = [*map(value, ("a", [1.5, 2.0], [1, 2, 3], [[1, 2]], 3))]
TARGETS: list[Target] = [
    target(
        "speech.features.FeatureExtractor",
        {"kind": "mfcc", "transform": "fft"},
        params="module",
        kind="choice",
        transform="choice",
    ),
    target(
        "speech.features.FeatureExtractor of samples",
        {"samples": lambda: ft.zeros((2, 900)), "lengths": [900, 300]},
        call=extracted,
        samples="required_array",
        lengths=LENGTHS,
    ),
    target(
        "speech.features.FeatureStream",
        {"chunk": lambda: ft.zeros((900,))},
        call=streamed,
        chunk="required_array",
    ),
    target(
        "speech.features.dct_matrix",
        {"filters": 9, "coefficients": 6},
        filters="positive",
        coefficients="positive",
        norm="choice",
    ),
    target(
        "speech.features.lifter_weights",
        {"coefficients": 9, "lifter": 22.0},
        coefficients="positive",
        lifter="rate",
    ),
    target(
        "speech.features.deltas",
        {"x": lambda: x(4, 3), "window": 2},
        x="required_array",
        window="positive",
    ),
    target("speech.features.normalize", {"x": lambda: x(4, 3)}, x="required_array"),
    target(
        "speech.features.local_normalize",
        {"x": lambda: x(4, 3), "left": 1, "right": 1},
        x="required_array",
        left="count",
        right="count",
    ),
]
UNTRIED: dict[str, str] = {}
