"""Frequencies of rotary positions, and their scaling for contexts longer than in training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fl_nn.errors import ModuleError
from fl_nn.settings import ABOVE_ZERO, COUNT, Kind, is_number, misfits

_FACTOR = Kind("a number of at least 1", lambda x: is_number(x) and 1.0 <= x < math.inf)
_STEPS = {"original_max_position_embeddings": COUNT}
#: The kinds of scaling and the settings of each, named as in configurations of Hugging Face.
_SETTINGS: dict[str, dict[str, Kind]] = {
    "default": {},
    "linear": {"factor": _FACTOR},
    "dynamic": {"factor": _FACTOR, **_STEPS},
    "llama3": {
        "factor": _FACTOR,
        "low_freq_factor": ABOVE_ZERO,
        "high_freq_factor": ABOVE_ZERO,
        **_STEPS,
    },
}


def check_scaling(where: str, scaling: Mapping[str, Any] | None, size: int) -> dict[str, Any]:
    """`scaling` as a dict that has "rope_type". Raises ModuleError for unknown kinds, and for
    settings that are missing, unknown or out of range."""
    given = {"rope_type": "default"} if scaling is None else dict(scaling)
    kind = given.get("rope_type")
    if not isinstance(kind, str) or kind not in _SETTINGS:
        raise ModuleError(
            f"[{where}] scaling: rope_type is {kind!r}: one of {', '.join(_SETTINGS)}"
        )
    problems = misfits(_SETTINGS[kind], {k: v for k, v in given.items() if k != "rope_type"})
    if (
        not problems
        and kind == "llama3"
        and not given["low_freq_factor"] < given["high_freq_factor"]
    ):
        problems = ["low_freq_factor must be below high_freq_factor"]
    if not problems and kind == "dynamic" and size < 4:
        problems = ["dynamic scaling needs heads of at least 4 features"]
    if problems:
        raise ModuleError(f"[{where}] scaling of rope_type {kind!r}: {'; '.join(problems)}")
    return given


def frequencies(size: int, base: float, scaling: Mapping[str, Any], steps: int) -> list[float]:
    """Radians per step of each pair of features, size / 2 of them: base^(-2i / size), scaled.

    default  as they are (Su et al., 2021)
    linear   divided by factor (Chen et al., 2023)
    dynamic  the base grows with the number of `steps` beyond the original ones, by
             (factor steps / original - factor + 1)^(size / (size - 2)) ("NTK-aware")
    llama3   wavelengths above original / low_freq_factor divided by factor, those below
             original / high_freq_factor as they are, between them interpolated (Llama 3.1)
    """
    kind = scaling["rope_type"]
    if kind == "dynamic":
        original, factor = scaling["original_max_position_embeddings"], scaling["factor"]
        growth = factor * max(steps, original) / original - (factor - 1.0)
        base = base * growth ** (size / (size - 2))
    plain = [base ** (-2.0 * i / size) for i in range(size // 2)]
    if kind == "linear":
        return [f / scaling["factor"] for f in plain]
    if kind == "llama3":
        return [_llama3(f, scaling) for f in plain]
    return plain


def _llama3(frequency: float, scaling: Mapping[str, Any]) -> float:
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * frequency / (2.0 * math.pi)
    kept = min(max((turns - low) / (high - low), 0.0), 1.0)
    return (1.0 - kept) * frequency / scaling["factor"] + kept * frequency
