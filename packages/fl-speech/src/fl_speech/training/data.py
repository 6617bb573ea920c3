"""Batches of recordings for training and validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_data import Batch, Dataset, Prefetch, Shuffle, Transform, check_index, mix, pad_collate
from fl_dist import Communicator
from fl_speech.audio import load_audio
from fl_speech.frontend import FLOOR, Frontend
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser

# Streams of random numbers that must not be one another's.
_ORDER = 1
#: Batches are padded to multiples of so many frames.
FRAMES = 32


class Source:
    """Where samples of a training come from; `skipped` counts those that were left out."""

    def __init__(self, recogniser: Recogniser, skip_bad: bool) -> None:
        self.recogniser, self.skip_bad, self.skipped = recogniser, skip_bad, 0


class Spoken(Dataset):
    """Sample `i` is `(features (T, F), targets (L,))` of utterance `i`, on the host; kept."""

    def __init__(self, source: Source, utterances: Sequence[Any]) -> None:
        self.source, self.utterances = source, utterances
        self.kept: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Any:
        i = check_index(index, len(self), "Spoken")
        if i not in self.kept:
            one, recogniser = self.utterances[i], self.source.recogniser
            recipe = recogniser.recipe
            with ft.use("numpy"):
                audio, _ = load_audio(one.path, sample_rate=recipe.sample_rate)
                targets = ft.asarray(recogniser.targets(one.words), ft.int64)
                x = recogniser.features(ft.mean(audio, axis=0)).astype(ft.dtype(recipe.dtype))
            self.kept[i] = (x, targets)
        return self.kept[i]


def training_batches(
    source: Source, utterances: Sequence[Any], communicator: Communicator, prefetch: int
) -> Dataset:
    """Batches (features, lengths, targets) in a new order in each epoch."""
    recipe = source.recogniser.recipe
    samples = Shuffle(Spoken(source, utterances), seed=mix(recipe.seed, _ORDER))
    found = _batched(samples, recipe.batch_size, communicator)
    return Prefetch(found, threads=1, depth=prefetch) if prefetch else found


def valid_batches(source: Source, utterances: Sequence[Any], communicator: Communicator) -> Dataset:
    """Batches of a list in its order."""
    size = source.recogniser.recipe.batch_size
    return _batched(Spoken(source, utterances), size, communicator)


def _batched(samples: Dataset, size: int, communicator: Communicator) -> Dataset:
    collate = pad_collate(fill={1: -1}, lengths=True)
    batches = Batch(
        samples,
        size,
        collate=collate,
        rank=communicator.rank,
        world_size=communicator.world_size,
    )
    return Transform(batches, _fields)


def _fields(batch: Any) -> Any:
    """(features, lengths, targets) on the current backend; the features are padded to few shapes,
    which compiled backends plan once."""
    features, targets, lengths, _ = (np.asarray(field) for field in batch)
    missing = -features.shape[1] % FRAMES
    features = np.pad(features, [(0, 0), (0, missing), (0, 0)])
    return ft.asarray(features), ft.asarray(lengths), ft.asarray(targets)


def statistics(recipe: Recipe, utterances: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Mean and deviation of each feature over a list of recordings."""
    frontend = Frontend(recipe.changed(normalise="none"))
    count, total, squares = 0, 0.0, 0.0
    for one in utterances:
        audio, _ = load_audio(one.path, sample_rate=recipe.sample_rate)
        x = np.asarray(frontend(audio), np.float64)
        count, total, squares = count + len(x), total + x.sum(0), squares + (x * x).sum(0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean * mean, 0)) + FLOOR
    return mean.tolist(), deviation.tolist()
