"""Batches of utterances, by number or by duration."""

from __future__ import annotations

from typing import Any, Literal

from fl_data import (
    Batch,
    BucketBatch,
    Dataset,
    DynamicBatch,
    EpochDataset,
    Sample,
    Shuffle,
    Subset,
    check_index,
    pad_collate,
)
from fl_speech.datasets.dataset import SpeechDataset
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import checked

Strategy = Literal["none", "random", "dynamic", "random_dynamic"]


@checked
def batches(
    ds: SpeechDataset,
    size: int | None = None,
    *,
    strategy: Strategy = "none",
    max_duration_ms: float | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    pad: float = 0.0,
    effects_from_update: int | None = None,
    rank: int = 0,
    world_size: int = 1,
) -> Dataset:
    """Batches `(features (B, T, F), lengths (B,), targets (B, L))` of `ds`: features end in `pad`,
    targets in -1; lengths are int64 numbers of frames.

    strategy          "none": `size` utterances of similar duration, sorted once. "random": `size`
                      utterances in a new order each epoch. "dynamic": as "none", but as many as
                      fit `max_duration_ms`: the longest duration times their number.
                      "random_dynamic": new batches of similar duration in each epoch, that fit
    shuffle           a new order of batches in each epoch, drawn by `seed`; without it utterances
                      are in the order of `ds` ("random"), or sorted by duration
    effects_from_update   effects of `ds` begin with this batch, counted from 0 over all epochs
    rank, world_size  every rank has its share of each batch, as `Batch` says, for "dynamic" batches
                      of its own, as `DynamicBatch` says

    Raises `SpeechDataError` where `size` or `max_duration_ms` is missing or not for this strategy,
    and for an utterance that is longer than `max_duration_ms`.
    """
    _check(ds, size, strategy, max_duration_ms)

    def make(source: SpeechDataset) -> Dataset:
        options: dict[str, Any] = {
            "collate": pad_collate({0: pad, 2: -1}),
            "rank": rank,
            "world_size": world_size,
        }
        durations = ds.durations
        if strategy == "random_dynamic":
            return BucketBatch(
                source, durations, max_size=max_duration_ms, seed=seed, shuffle=shuffle, **options
            )
        if strategy == "random":
            assert size is not None
            return Batch(Shuffle(source, seed) if shuffle else source, size, **options)
        order = sorted(range(len(durations)), key=durations.__getitem__)
        ordered = Subset(source, order)
        made: Dataset
        if size is not None:
            made = Batch(ordered, size, **options)
        else:
            assert max_duration_ms is not None
            made = DynamicBatch(ordered, [durations[i] for i in order], max_duration_ms, **options)
        if not shuffle:
            return made
        return Shuffle(made, 0 if seed is None and world_size > 1 else seed)

    if effects_from_update is None:
        return make(ds)
    if seed is None and shuffle:
        raise SpeechDataError(
            "effects from an update on need the same order of batches with and without them",
            "give seed=",
        )
    return _FromUpdate(
        make(ds.with_effects(False)), make(ds.with_effects(True)), effects_from_update
    )


class _FromUpdate(EpochDataset):
    """The batches of `before`, from batch number `update` over all epochs on those of `after`."""

    def __init__(self, before: Dataset, after: Dataset, update: int) -> None:
        self._before, self._after, self._update = before, after, update

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return self._before, self._after

    def __len__(self) -> int:
        return len(self._before)

    def __getitem__(self, index: int) -> Sample:
        number = check_index(index, len(self), "batches")
        update = self.epoch * len(self) + number
        return (self._after if update >= self._update else self._before)[number]


def _check(
    ds: SpeechDataset, size: int | None, strategy: Strategy, max_duration_ms: float | None
) -> None:
    by_size = strategy in ("none", "random")
    given, other = (size, max_duration_ms) if by_size else (max_duration_ms, size)
    if given is None or other is not None:
        needs, not_needed = ("size", "max_duration_ms")[:: 1 if by_size else -1]
        raise SpeechDataError(
            f"the strategy {strategy!r} needs {needs}, and not {not_needed}",
            "give one of the two, or another strategy",
        )
    if max_duration_ms is None:
        return
    if not max_duration_ms > 0:
        raise SpeechDataError(f"max_duration_ms {max_duration_ms} is not above 0", "raise it")
    for one in ds.utterances:
        if one.duration_ms > max_duration_ms:
            raise one.error(
                f"its {one.duration_ms:g} ms are more than max_duration_ms={max_duration_ms:g}",
                "raise max_duration_ms, or leave it out by filter_utterances(maxisz=...)",
            )
