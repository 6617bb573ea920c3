"""Batches of recordings for training and validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_data import Dataset, Prefetch, check_index, mix
from fl_dist import Communicator
from fl_speech.audio import load_audio
from fl_speech.datasets import SpeechDataset, Utterance, batches
from fl_speech.errors import SpeechDataError
from fl_speech.frontend import FLOOR, Frontend
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser

__all__ = ["Source", "statistics", "training_batches", "valid_batches"]

#: Batches are padded to multiples of so many frames: compiled backends plan every shape once.
FRAMES = 32
#: Features of so many bytes are kept.
CACHE = 1 << 30
# Streams of random numbers that must not be one another's.
_ORDER, _EFFECTS = 1, 2


@dataclass
class Source:
    """How samples of a training are made.

    effects    sound effects, `effects(samples, generator) -> samples`, of training alone
    skip_bad   recordings that cannot be used are left out, and `skipped` has their errors
    """

    recogniser: Recogniser
    effects: Callable[..., Any] | None = None
    skip_bad: bool = False
    skipped: list[SpeechDataError] = field(default_factory=list)

    def dataset(self, utterances: Sequence[Utterance], training: bool) -> SpeechDataset:
        """Features, lengths and targets of recordings."""
        recogniser, recipe = self.recogniser, self.recogniser.recipe
        with ft.use("numpy"):
            found = SpeechDataset(
                utterances,
                recogniser.features,
                recogniser.targets,
                effects=self.effects if training else None,
                subsampling=0,
                downmix=True,
                on_error="skip" if self.skip_bad else "raise",
                cache_bytes=CACHE,
                seed=mix(recipe.seed, _EFFECTS),
            )
            if self.skip_bad:
                found = found.scan()
        self.skipped += found.skipped
        return found


def training_batches(
    source: Source, utterances: Sequence[Utterance], communicator: Communicator, prefetch: int
) -> Dataset:
    """Batches (features, lengths, targets) in a new order in each epoch."""
    recipe = source.recogniser.recipe
    dynamic = recipe.batching in ("dynamic", "random_dynamic")
    found = batches(
        source.dataset(utterances, True),
        None if dynamic else recipe.batch_size,
        strategy=recipe.batching,  # type: ignore[arg-type]
        max_duration_ms=1000 * recipe.max_batch_duration if dynamic else None,
        seed=mix(recipe.seed, _ORDER),
        effects_from_update=recipe.effects_start if source.effects else None,
        rank=communicator.rank,
        world_size=communicator.world_size,
    )
    made: Dataset = OnHost(found, recipe)
    return Prefetch(made, threads=1, depth=prefetch) if prefetch else made


def valid_batches(
    source: Source, utterances: Sequence[Utterance], communicator: Communicator
) -> Dataset:
    """Batches of like durations, always the same."""
    recipe = source.recogniser.recipe
    found = batches(
        source.dataset(utterances, False),
        recipe.batch_size,
        shuffle=False,
        rank=communicator.rank,
        world_size=communicator.world_size,
    )
    return OnHost(found, recipe)


class OnHost(Dataset):
    """Batches that NumPy makes, whatever the current backend, and hands to that: recordings of all
    lengths have shapes that need not be planned. Features get the dtype of the recipe, and are
    padded to multiples of `FRAMES`."""

    def __init__(self, batches: Dataset, recipe: Recipe) -> None:
        self._batches, self._dtype = batches, ft.dtype(recipe.dtype)

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._batches,)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        with ft.use("numpy"):
            batch = self._batches[check_index(index, len(self), "OnHost")]
        features, lengths, targets = (np.asarray(field) for field in batch)
        missing = -features.shape[1] % FRAMES
        features = np.pad(features, [(0, 0), (0, missing), (0, 0)])
        return ft.asarray(features, self._dtype), ft.asarray(lengths), ft.asarray(targets)


def statistics(recipe: Recipe, utterances: Sequence[Utterance]) -> tuple[list[float], list[float]]:
    """Mean and deviation of each feature over recordings."""
    frontend = Frontend(recipe.changed(normalise="none"))
    count = 0
    total = squares = np.zeros(frontend.size)
    with ft.use("numpy"):
        for one in utterances:
            audio, _ = load_audio(one.path, sample_rate=recipe.sample_rate)
            x = np.asarray(frontend(ft.mean(audio, axis=0)), np.float64)
            count, total, squares = count + len(x), total + x.sum(0), squares + (x * x).sum(0)
    mean = total / max(1, count)
    deviation = np.sqrt(np.maximum(squares / max(1, count) - mean * mean, 0)) + FLOOR
    return mean.tolist(), deviation.tolist()
