"""Batches of images for training and for measuring."""

from __future__ import annotations

from dataclasses import dataclass

import fl_tensor as ft
from fl_data import (
    Batch,
    Dataset,
    Prefetch,
    RandomTransform,
    Repeated,
    Shuffle,
    Subset,
    Transform,
    mix,
)
from fl_dist import Communicator
from fl_nn import FrameErrorMeter, TopKMeter
from fl_vision.datasets import ImageData
from fl_vision.errors import UsageError
from fl_vision.recipe import Recipe
from fl_vision.training.augmentation import augmentation
from fl_vision.training.optimisation import is_mixed
from fl_vision.transforms import (
    Compose,
    MixedBatches,
    Mixing,
    Normalise,
    RandomShift,
    channel_statistics,
)

TEST_BATCH = 256
# Streams of random numbers that must not be one another's.
_ORDER, _SHIFT, _CHANGES, _MIXING = 1, 2, 3, 4
_IMAGENET = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class Workers:
    """Who makes batches ahead: `processes`, or else a thread that is `prefetch` batches ahead. The
    numbers do not depend on it."""

    prefetch: int = 0
    processes: int = 0

    def around(self, batches: Dataset) -> Dataset:
        """The same batches, made ahead."""
        if self.processes:
            return Prefetch(batches, processes=self.processes, depth=self.prefetch or None)
        return Prefetch(batches, threads=1, depth=self.prefetch) if self.prefetch else batches


class Accuracy(FrameErrorMeter):
    """The percentage of predictions that agree; of a distribution, with its largest class."""

    def __init__(self) -> None:
        super().__init__(accuracy=True)

    def add(self, predictions: ft.Array, targets: ft.Array) -> None:
        super().add(predictions, _classes(targets))


class TopK(TopKMeter):
    """The percentage of targets among the `k` best; of a distribution, its largest class."""

    def add(self, scores: ft.Array, targets: ft.Array) -> None:
        super().add(scores, _classes(targets))


def _classes(targets: ft.Array) -> ft.Array:
    return ft.argmax(targets, axis=1) if targets.dtype.is_floating else targets


def fitted(data: ImageData, samples: Dataset) -> Dataset:
    """Samples of pictures of any size, at the size of the network."""
    return samples if data.fit is None else Transform(samples, fields={0: data.fit})


def normalisation(data: ImageData, samples: Dataset, recipe: Recipe) -> Normalise:
    """The normalisation of a recipe."""
    mean, std = _IMAGENET
    if recipe.normalise == "data":
        mean, std = channel_statistics(fitted(data, samples))  # type: ignore[assignment]
    return Normalise(mean, std, ft.dtype(recipe.dtype))


def training_batches(
    data: ImageData,
    recipe: Recipe,
    normalise: Normalise,
    communicator: Communicator,
    workers: Workers,
) -> Dataset:
    """Batches `(images, labels)` of this rank; labels are distributions where they are mixed."""
    rank, size = communicator.rank, communicator.world_size
    order = mix(recipe.seed, _ORDER)
    samples: Dataset = Shuffle(data.train, seed=order)
    if recipe.repeats > 1:
        samples = Repeated(data.train, recipe.repeats, seed=order)
    chain = augmentation(recipe.augment, data.image_shape[1:], recipe.erase)
    if data.fit is not None and recipe.augment == "none":
        chain = Compose((data.fit, *chain))
    if len(chain):
        samples = RandomTransform(samples, chain.on(0), mix(recipe.seed, _CHANGES))
    plain = Batch(samples, recipe.batch_size, rank=rank, world_size=size)
    batches: Dataset = plain
    if recipe.shift:
        seed = mix(recipe.seed, _SHIFT)
        batches = RandomShift(plain, recipe.shift, seed, rank=rank, world_size=size)
    batches = Transform(batches, fields={0: normalise})
    if is_mixed(recipe):
        mixing = Mixing(
            len(data.classes),
            recipe.mixup,
            recipe.cutmix,
            recipe.mix_switch,
            recipe.label_smoothing,
        )
        batches = MixedBatches(batches, mixing, mix(recipe.seed, _MIXING), rank=rank)
    return workers.around(batches)


def measured_batches(
    samples: Dataset, normalise: Normalise, communicator: Communicator, workers: Workers
) -> Dataset:
    """Batches of samples in their order, this rank's share of each."""
    batches = Batch(
        samples, TEST_BATCH, rank=communicator.rank, world_size=communicator.world_size
    )
    made = Transform(batches, fields={0: normalise})
    return workers.around(made) if workers.processes else made


def limited(samples: Dataset, limit: int) -> Dataset:
    """So many samples of all, spread evenly: the first ones of a folder are all of one class."""
    count = len(samples)
    if not 0 < limit < count:
        return samples
    return Subset(samples, [index * count // limit for index in range(limit)])


def divided(samples: Dataset, share: float) -> tuple[Dataset, Dataset | None]:
    """The samples to train on, and a share of them, spread evenly, to measure on instead."""
    if not share:
        return samples, None
    held = [int((i + 1) * share) > int(i * share) for i in range(len(samples))]
    parts = [[i for i, is_held in enumerate(held) if is_held is which] for which in (False, True)]
    if not all(parts):
        raise UsageError(
            f"[train] {share:g} of {len(samples)} samples leaves {len(parts[0])} to train on and "
            f"{len(parts[1])} to measure on: give another share as validation"
        )
    return Subset(samples, parts[0]), Subset(samples, parts[1])
