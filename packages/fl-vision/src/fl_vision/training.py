"""Train a classifier on images: data pipeline, optimizer and loop put together."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Batch, Dataset, Prefetch, Shuffle, Subset, Transform, mix
from fl_dist import Communicator, local, threads
from fl_nn import Adam, FrameErrorMeter, Trainer, cross_entropy
from fl_vision.classifier import METADATA, Classifier
from fl_vision.datasets import ImageData
from fl_vision.models import cnn
from fl_vision.recipe import Recipe, learning_rate
from fl_vision.transforms import Normalise, RandomShift, channel_statistics

_TEST_BATCH = 256
# Streams of random numbers that must not be one another's.
_ORDER, _SHIFT = 1, 2


@dataclass(frozen=True)
class Trained:
    """The result of `train_classifier`: what to predict with, and a record for every epoch."""

    classifier: Classifier
    history: list[dict[str, Any]]


def train_classifier(
    data: ImageData,
    recipe: Recipe,
    *,
    out: str | Path | None = None,
    ranks: int = 1,
    resume: bool = False,
    prefetch: int = 0,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> Trained:
    """Train the network of Listing 8 on `data.train`, measuring it on `data.test` after each epoch.

    `out` is the folder for checkpoint and log; `ranks` threads share every batch; `prefetch`
    batches are made ahead by a thread; `resume` goes on from the checkpoint in `out`; `notes` are
    plain values to keep in it. The default generator of the caller is left alone. The same recipe
    gives the same numbers to the bit, interrupted and resumed or not.
    """
    mean, std = channel_statistics(_training_samples(data, recipe))
    normalise = Normalise(mean, std, ft.dtype(recipe.dtype))
    plan = _Plan(data, recipe, normalise, None if out is None else Path(out), resume, prefetch)

    def rank(communicator: Communicator) -> Trained:
        ft.set_default_generator(ft.Generator(recipe.seed))
        return plan.run(communicator, progress, dict(notes or {}))

    if ranks == 1:
        return contextvars.copy_context().run(rank, local())
    trained: Trained = threads.run(ranks, rank)[0]
    return trained


@dataclass(frozen=True)
class _Plan:
    data: ImageData
    recipe: Recipe
    normalise: Normalise
    out: Path | None
    resume: bool
    prefetch: int

    def run(self, communicator: Communicator, progress: bool, notes: dict[str, Any]) -> Trained:
        data, recipe = self.data, self.recipe
        model = cnn(data.image_shape, len(data.classes), dropout=recipe.dropout)
        model.to(ft.dtype(recipe.dtype))
        classifier = Classifier(model, data.classes, data.image_shape, data.peak, self.normalise)
        batches = self._training_batches(communicator)
        steps = len(batches)
        optimizer = Adam(model.parameters(), lr=learning_rate(recipe, 0, steps))

        def set_rate(trainer: Trainer) -> None:
            optimizer.lr = learning_rate(recipe, trainer.step, steps)

        trainer = Trainer(
            model,
            optimizer,
            cross_entropy,
            communicator=communicator,
            meters={"accuracy": FrameErrorMeter(accuracy=True)},
            out=self.out,
            log_every=1,
            progress=progress,
            on_step=set_rate,
            metadata={METADATA: {**notes, **classifier.description(), "recipe": asdict(recipe)}},
        )
        if self.resume:
            trainer.resume()
        trainer.fit(batches, self._test_batches(communicator), epochs=recipe.epochs)
        return Trained(classifier, trainer.history)

    def _training_batches(self, communicator: Communicator) -> Dataset:
        recipe = self.recipe
        rank, size = communicator.rank, communicator.world_size
        samples = Shuffle(_training_samples(self.data, recipe), seed=mix(recipe.seed, _ORDER))
        plain = Batch(samples, recipe.batch_size, rank=rank, world_size=size)
        batches: Dataset = plain
        if recipe.shift:
            seed = mix(recipe.seed, _SHIFT)
            batches = RandomShift(plain, recipe.shift, seed, rank=rank, world_size=size)
        batches = Transform(batches, fields={0: self.normalise})
        return Prefetch(batches, threads=1, depth=self.prefetch) if self.prefetch else batches

    def _test_batches(self, communicator: Communicator) -> Dataset:
        batches = Batch(
            self.data.test,
            _TEST_BATCH,
            rank=communicator.rank,
            world_size=communicator.world_size,
        )
        return Transform(batches, fields={0: self.normalise})


def _training_samples(data: ImageData, recipe: Recipe) -> Dataset:
    limit, count = recipe.limit, len(data.train)
    if limit is None or limit >= count:
        return data.train
    # Spread over all samples: the first ones of a folder are all of one class.
    return Subset(data.train, [index * count // limit for index in range(limit)])
