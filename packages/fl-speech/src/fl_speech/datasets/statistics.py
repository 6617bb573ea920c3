"""``SpeechStatMeter``: how large the batches of a run are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fl_nn.meters import Meter
from fl_speech.errors import SpeechDataError


class SpeechStats(NamedTuple):
    """Sums and maxima of input and target sizes, and how many samples and batches there were."""

    input_size: int
    target_size: int
    max_input_size: int
    max_target_size: int
    samples: int
    batches: int


class SpeechStatMeter(Meter):
    """Statistics of batches: `add(input sizes, target sizes)` for each, a size for each sample.

    `value` is a `SpeechStats`. `result` is the mean input size. Raises `SpeechDataError` for sizes
    that are negative, or unequally many.
    """

    def reset(self) -> None:
        self._stats = SpeechStats(0, 0, 0, 0, 0, 0)

    def add(self, input_sizes: Iterable[Any], target_sizes: Iterable[Any]) -> None:
        """A batch: lists, or arrays of one axis, of integers."""
        inputs, targets = _sizes(input_sizes), _sizes(target_sizes)
        if len(inputs) != len(targets):
            raise SpeechDataError(
                f"{len(inputs)} input sizes and {len(targets)} target sizes",
                "give both sizes of each sample",
            )
        self._add(
            SpeechStats(
                sum(inputs),
                sum(targets),
                max(inputs, default=0),
                max(targets, default=0),
                len(inputs),
                1,
            )
        )

    @property
    def value(self) -> SpeechStats:
        return self._stats

    def result(self) -> float:
        return self._stats.input_size / max(1, self._stats.samples)

    def state(self) -> dict[str, Any]:
        return self._stats._asdict()

    def merge(self, state: Mapping[str, Any]) -> None:
        self._add(SpeechStats(**state))

    def _add(self, more: SpeechStats) -> None:
        a, b = self._stats, more
        self._stats = SpeechStats(
            a.input_size + b.input_size,
            a.target_size + b.target_size,
            max(a.max_input_size, b.max_input_size),
            max(a.max_target_size, b.max_target_size),
            a.samples + b.samples,
            a.batches + b.batches,
        )


def _sizes(given: Any) -> list[int]:
    values = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(values, list | tuple):
        raise SpeechDataError(f"{given!r} are no sizes", "give a list of integers")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise SpeechDataError(f"the size {value!r} is no integer of at least 0", "give one")
    return list(values)
