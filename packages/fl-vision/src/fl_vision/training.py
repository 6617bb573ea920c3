"""Training of an image classifier: data pipeline, optimizer and loop."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Batch, Dataset, Prefetch, Shuffle, Subset, Transform, mix
from fl_dist import Communicator, local
from fl_nn import (
    EMA,
    Adam,
    Callback,
    ClipGradNorm,
    DynamicLossScaler,
    EarlyStop,
    FrameErrorMeter,
    KeepBest,
    LambdaLR,
    TensorBoard,
    Trainer,
    cross_entropy,
    load_checkpoint,
)
from fl_vision.classifier import METADATA, Classifier, best_of, restore_weights, weights_of
from fl_vision.datasets import ImageData
from fl_vision.errors import UsageError
from fl_vision.models import cnn
from fl_vision.recipe import Recipe, learning_rate
from fl_vision.transforms import Normalise, RandomShift, channel_statistics

_TEST_BATCH = 256
#: Of the training samples, for choices that may not see the test samples.
_VALIDATION = 0.1
#: What decides when to stop, which epochs are best, and which weights are reported.
_DECIDES = "valid_accuracy"
# Streams of random numbers that must not be one another's.
_ORDER, _SHIFT = 1, 2


@dataclass(frozen=True)
class Trained:
    """The result of `train_classifier`.

    classifier   what to predict with: of the best epoch where the run keeps any, else of the last
    history      a record for every epoch
    measured_on  the samples that its `valid_` figures are of: "test" or "validation"
    weights      which weights the classifier has, in words
    """

    classifier: Classifier
    history: list[dict[str, Any]]
    measured_on: str = "test"
    weights: str = ""


@dataclass(frozen=True)
class Output:
    """What a run leaves behind, in `folder` (None: nothing), besides checkpoint and log.

    checkpoint_every  a checkpoint also every so many steps; 0: after epochs alone
    keep_best         checkpoints of so many epochs with the best accuracy on held-out samples; one
                      at least where the recipe has a patience
    tensorboard       curves for TensorBoard (the extra `fl-nn[tensorboard]`)
    """

    folder: Path | None = None
    checkpoint_every: int = 0
    keep_best: int = 0
    tensorboard: bool = False


def train_classifier(
    data: ImageData,
    recipe: Recipe,
    *,
    out: str | Path | Output | None = None,
    communicator: Communicator | None = None,
    resume: bool = False,
    overwrite: bool = False,
    prefetch: int = 0,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> Trained:
    """Train the network of Listing 8 on `data.train`, measuring it after each epoch.

    That is on `data.test`, or, where an early stop or best checkpoints are chosen by it, on samples
    of `data.train` that are held out.

    `out` is the folder for checkpoint and log, or an `Output`; the ranks of `communicator`, which
    all call this, share every batch; `prefetch` batches are made ahead by a thread; `resume` goes
    on from the checkpoint in `out`, of any number of ranks; `overwrite` begins anew in the place of
    a run that is there, which is refused otherwise (`fl_nn.RunFolderError`); `notes` are
    plain values to keep in it. The default generator of the caller is left alone. The same recipe
    gives the same numbers to the bit, interrupted and resumed or not. SIGINT, SIGTERM and SIGHUP
    end it after a step and a checkpoint: `fl_nn.Interrupted`.
    """
    if not isinstance(out, Output):
        out = Output(None if out is None else Path(out))
    if not recipe.validation and (recipe.patience or out.keep_best):
        recipe = replace(recipe, validation=_VALIDATION)
    train, valid = _divided(_training_samples(data, recipe), recipe.validation)
    mean, std = channel_statistics(train)
    normalise = Normalise(mean, std, ft.dtype(recipe.dtype))
    data = replace(data, train=train)
    plan = _Plan(data, valid or data.test, recipe, normalise, out, resume, overwrite, prefetch)

    def run() -> Trained:
        ft.set_default_generator(ft.Generator(recipe.seed))
        return plan.run(communicator or local(), progress, dict(notes or {}))

    return contextvars.copy_context().run(run)


@dataclass(frozen=True)
class _Plan:
    data: ImageData
    measured: Dataset
    recipe: Recipe
    normalise: Normalise
    out: Output
    resume: bool
    overwrite: bool
    prefetch: int

    def run(self, communicator: Communicator, progress: bool, notes: dict[str, Any]) -> Trained:
        data, recipe, out = self.data, self.recipe, self.out
        model = cnn(data.image_shape, len(data.classes), dropout=recipe.dropout)
        model.to(ft.dtype(recipe.dtype))
        classifier = Classifier(model, data.classes, data.image_shape, data.peak, self.normalise)
        batches = self._training_batches(communicator)
        optimizer = Adam(model.parameters(), lr=recipe.lr)
        steps, unit = -(-len(batches) // recipe.accumulate), replace(recipe, lr=1.0)
        ema = EMA(model, recipe.ema, warm_up=True) if recipe.ema else None
        trainer = Trainer(
            model,
            optimizer,
            cross_entropy,
            callbacks=self._callbacks(),
            communicator=communicator,
            meters={"accuracy": FrameErrorMeter(accuracy=True)},
            out=out.folder,
            overwrite=self.overwrite,
            checkpoint_every=out.checkpoint_every or None,
            log_every=1,
            progress=progress,
            schedule=LambdaLR(optimizer, lambda step: learning_rate(unit, step, steps)),
            accumulate=recipe.accumulate,
            ema=ema,
            compiled=recipe.compiled,
            precision="O1" if recipe.amp else None,
            scaler=DynamicLossScaler() if recipe.amp else None,
            metadata={METADATA: {**notes, **classifier.description(), "recipe": asdict(recipe)}},
        )
        if self.resume:
            trainer.resume()
        trainer.fit(batches, self._measured_batches(communicator), epochs=recipe.epochs)
        if ema is not None:
            ema.copy_to()
        measured_on = "validation" if recipe.validation else "test"
        return Trained(classifier, trainer.history, measured_on, self._best(trainer))

    def _best(self, trainer: Trainer) -> str:
        """Give the model the weights of the best epoch, if one is kept; which it has, in words."""
        best, folder = best_of(trainer.history), self.out.folder
        if best is None or folder is None:
            return f"epoch {trainer.epoch}, the last"
        trainer.communicator.barrier()  # rank 0 has written it
        checkpoint = load_checkpoint(folder / best)
        restore_weights(checkpoint, trainer.model, folder / best)
        return weights_of(checkpoint, best)

    def _callbacks(self) -> list[Callback]:
        recipe, out = self.recipe, self.out
        found: list[Callback] = []
        if recipe.clip:
            found.append(ClipGradNorm(recipe.clip))
        if recipe.patience:
            found.append(EarlyStop(_DECIDES, recipe.patience, mode="max"))
        if out.keep_best or (recipe.patience and out.folder is not None):
            found.append(KeepBest(out.keep_best or 1, _DECIDES, mode="max"))
        if out.tensorboard:
            found.append(TensorBoard())
        return found

    def _training_batches(self, communicator: Communicator) -> Dataset:
        recipe = self.recipe
        rank, size = communicator.rank, communicator.world_size
        samples = Shuffle(self.data.train, seed=mix(recipe.seed, _ORDER))
        plain = Batch(samples, recipe.batch_size, rank=rank, world_size=size)
        batches: Dataset = plain
        if recipe.shift:
            seed = mix(recipe.seed, _SHIFT)
            batches = RandomShift(plain, recipe.shift, seed, rank=rank, world_size=size)
        batches = Transform(batches, fields={0: self.normalise})
        return Prefetch(batches, threads=1, depth=self.prefetch) if self.prefetch else batches

    def _measured_batches(self, communicator: Communicator) -> Dataset:
        batches = Batch(
            self.measured,
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


def _divided(samples: Dataset, share: float) -> tuple[Dataset, Dataset | None]:
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
