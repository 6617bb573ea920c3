"""Voice activity by level."""

from __future__ import annotations

from typing import Any

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_speech.inference import speech_by_level
from targets.making import target


def found(**arguments: Any) -> Any:
    return speech_by_level(**arguments)


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
]
UNTRIED: dict[str, str] = {}
