"""Voice activity by level and by a network."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_speech.inference import SpeechDetector, fit_to_speech, speech_by_level
from fl_speech.training import train_speech_detector
from targets.making import target


def found(**arguments: Any) -> Any:
    return speech_by_level(**arguments)


def trained(**arguments: Any) -> Any:
    return train_speech_detector(**arguments)


def detector(samples: Any, threshold: Any, **sizes: Any) -> Any:
    return SpeechDetector(**sizes).speech(samples, threshold)


def fitted(**arguments: Any) -> Any:
    return fit_to_speech(**arguments)


COUNTS = [*map(value, ("a", 0, -1, 1.5, float("nan")))]
NUMBERS = [*map(value, ("a", -1.0, float("nan"), float("inf")))]
TARGETS: list[Target] = [
    target(
        "speech.inference.speech_by_level",
        {"samples": lambda: ft.zeros((900,)), "sample_rate": 8000},
        call=found,
        samples=[*map(value, ("a", [float("nan")], [[0.0, 1.0]]))],
        sample_rate=[*map(value, ("a", 0, -8000, 999))],
        threshold=NUMBERS,
        below_db=NUMBERS,
        pause_ms=NUMBERS,
        least_ms=NUMBERS,
        hangover_ms=NUMBERS,
    ),
    target(
        "speech.training.train_speech_detector",
        {"recordings": lambda: [([0.0] * 800, [(0.0, 0.1)])], "sample_rate": 8000, "epochs": 1},
        call=trained,
        recordings=[*map(value, ("a", 3, [], [([0.0], [(1.0, 0.0)])], [([float("nan")], [])]))],
        sample_rate=COUNTS,
        epochs=COUNTS,
    ),
    target(
        "speech.inference.SpeechDetector",
        {
            "samples": lambda: ft.zeros((900,)),
            "threshold": 0.5,
            "sample_rate": 8000,
            "filters": 8,
            "channels": 4,
            "blocks": 1,
        },
        call=detector,
        samples=[*map(value, ("a", [[0.0, 1.0]], None))],
        sample_rate=COUNTS,
        filters=COUNTS,
        channels=COUNTS,
        blocks=COUNTS,
    ),
    target(
        "speech.inference.fit_to_speech",
        {"spans": lambda: [(0.1, 0.2)], "speech": lambda: [True] * 40, "frame_s": 0.01},
        call=fitted,
        spans=[*map(value, ("a", 3, [1.0], [("a", "b")], [(2.0, 1.0)], [(float("nan"), 1.0)]))],
        speech=[*map(value, ([[True]], 3))],
        frame_s=[*map(value, ("a", 0.0, -1.0, float("nan")))],
    ),
]
UNTRIED: dict[str, str] = {}
