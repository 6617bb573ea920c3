"""Leaving utterances out that are too short or too long."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fl_speech.datasets.utterance import Utterance
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import checked


class Filtered(NamedTuple):
    """What `filter_utterances` kept, and how many each limit left out."""

    kept: list[Utterance]
    dropped: dict[str, int]


@checked
def filter_utterances(
    utterances: Sequence[Utterance],
    targets: Callable[..., Sequence[int]] | None = None,
    *,
    minisz: float = 0,
    maxisz: float = math.inf,
    mintsz: int = 0,
    maxtsz: float = math.inf,
) -> Filtered:
    """The utterances whose input takes `minisz` .. `maxisz` milliseconds and whose target has
    `mintsz` .. `maxtsz` tokens, by `targets(words)`; the names are those of the original.

    `dropped` counts by the limit that an utterance breaks first. Raises `SpeechDataError` for
    limits of targets without `targets`, for limits that nothing fits, and as `targets` does, naming
    the sample.
    """
    for name, low, high in (("isz", minisz, maxisz), ("tsz", mintsz, maxtsz)):
        if not 0 <= low <= high:
            raise SpeechDataError(
                f"min{name} {low} and max{name} {high}: nothing is between them",
                "give 0 <= minimum <= maximum",
            )
    by_target = mintsz > 0 or maxtsz < math.inf
    if by_target and targets is None:
        raise SpeechDataError("mintsz and maxtsz count tokens", "give targets, a TargetGenerator")
    kept: list[Utterance] = []
    dropped: Counter[str] = Counter()
    for one in utterances:
        limits = [(one.duration_ms, minisz, "minisz", maxisz, "maxisz")]
        if by_target:
            limits.append((_tokens(one, targets), mintsz, "mintsz", maxtsz, "maxtsz"))
        reasons = _broken(limits)
        if reason := next(reasons, None):
            dropped[reason] += 1
        else:
            kept.append(one)
    return Filtered(kept, dict(dropped))


def _broken(limits: Iterable[tuple[float, float, str, float, str]]) -> Any:
    for size, low, low_name, high, high_name in limits:
        if size < low:
            yield low_name
        if size > high:
            yield high_name


def _tokens(one: Utterance, targets: Any) -> int:
    try:
        return len(targets(one.words or ()))
    except SpeechDataError as error:
        raise one.error(error.problem, error.remedy) from error
