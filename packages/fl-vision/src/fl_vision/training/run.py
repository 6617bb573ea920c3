"""Training of an image classifier: data pipeline, optimizer and loop."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Dataset
from fl_dist import Communicator, local
from fl_nn import (
    EMA,
    Callback,
    ClipGradNorm,
    DynamicLossScaler,
    EarlyStop,
    KeepBest,
    Meter,
    TensorBoard,
    Trainer,
    convert_sync_batchnorm,
    load_checkpoint,
)
from fl_vision.classifier import METADATA, Classifier, best_of, restore_weights, weights_of
from fl_vision.datasets import ImageData
from fl_vision.recipe import Recipe
from fl_vision.training.batches import (
    Accuracy,
    TopK,
    Workers,
    divided,
    fitted,
    limited,
    measured_batches,
    normalisation,
    training_batches,
)
from fl_vision.training.optimisation import (
    build_loss,
    build_network,
    build_optimizer,
    build_schedule,
    check_images,
    network_options,
)
from fl_vision.transforms import Normalise

#: Of the training samples, for choices that may not see the test samples.
_VALIDATION = 0.1
#: What decides when to stop, which epochs are best, and which weights are reported.
_DECIDES = "valid_accuracy"
#: From so many classes on, epochs have the figure of the five best, too.
_MANY_CLASSES = 20


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
    processes: int = 0,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> Trained:
    """Train the network of `recipe` on `data.train`, measuring it after each epoch.

    That is on `data.valid` where the data set has it; where an early stop or best checkpoints are
    chosen by it, on samples of `data.train` that are held out; else on `data.test`.

    `out` is the folder for checkpoint and log, or an `Output`; the ranks of `communicator`, which
    all call this, share every batch; `prefetch` batches are made ahead by a thread, or by so many
    `processes`; `resume` goes on from the checkpoint in `out`, of any number of ranks; `overwrite`
    begins anew in the place of a run that is there, which is refused otherwise
    (`fl_nn.RunFolderError`); `notes` are plain values to keep in it. The default generator of the
    caller is left alone. The same recipe gives the same numbers to the bit, interrupted and resumed
    or not. SIGINT, SIGTERM and SIGHUP end it after a step and a checkpoint: `fl_nn.Interrupted`.
    """
    if not isinstance(out, Output):
        out = Output(None if out is None else Path(out))
    check_images(recipe, data.image_shape)
    if data.valid is not None:
        recipe = recipe.changed(validation=0.0)
    elif not recipe.validation and (recipe.patience or out.keep_best):
        recipe = recipe.changed(validation=_VALIDATION)
    train, held = divided(limited(data.train, recipe.limit), recipe.validation)
    normalise = normalisation(data, train, recipe)
    measured = data.test if held is None else fitted(data, held)
    if data.valid is not None:
        measured = data.valid
    plan = _Plan(
        replace(data, train=train),
        measured,
        "test" if measured is data.test else "validation",
        recipe,
        normalise,
        out,
        resume,
        overwrite,
        Workers(prefetch, processes),
    )

    def run() -> Trained:
        ft.set_default_generator(ft.Generator(recipe.seed))
        return plan.run(communicator or local(), progress, dict(notes or {}))

    return contextvars.copy_context().run(run)


@dataclass(frozen=True)
class _Plan:
    data: ImageData
    measured: Dataset
    measured_on: str
    recipe: Recipe
    normalise: Normalise
    out: Output
    resume: bool
    overwrite: bool
    workers: Workers

    def run(self, communicator: Communicator, progress: bool, notes: dict[str, Any]) -> Trained:
        data, recipe, out = self.data, self.recipe, self.out
        classes = len(data.classes)
        model = build_network(recipe, classes, data.image_shape, pretrained=not self.resume)
        if recipe.sync_norm:
            model = convert_sync_batchnorm(model, communicator)
        classifier = Classifier(
            model,
            data.classes,
            data.image_shape,
            data.peak,
            self.normalise,
            {"name": recipe.network, **network_options(recipe)},
        )
        batches = training_batches(data, recipe, self.normalise, communicator, self.workers)
        optimizer = build_optimizer(recipe, model)
        ema = EMA(model, recipe.ema, warm_up=True) if recipe.ema else None
        meters: dict[str, Meter] = {"accuracy": Accuracy()}
        if classes >= _MANY_CLASSES:
            meters["top5"] = TopK(5)
        trainer = Trainer(
            model,
            optimizer,
            build_loss(recipe, data.train, classes),
            callbacks=self._callbacks(),
            communicator=communicator,
            meters=meters,
            out=out.folder,
            overwrite=self.overwrite,
            checkpoint_every=out.checkpoint_every or None,
            log_every=1,
            progress=progress,
            schedule=build_schedule(recipe, optimizer, -(-len(batches) // recipe.accumulate)),
            accumulate=recipe.accumulate,
            ema=ema,
            compiled=recipe.compiled,
            precision="O1" if recipe.amp else None,
            scaler=DynamicLossScaler() if recipe.amp else None,
            metadata={METADATA: {**notes, **classifier.description(), "recipe": recipe.values()}},
        )
        if self.resume:
            trainer.resume()
        measured = measured_batches(self.measured, self.normalise, communicator, self.workers)
        trainer.fit(batches, measured, epochs=recipe.epochs)
        if ema is not None:
            ema.copy_to()
        return Trained(classifier, trainer.history, self.measured_on, self._best(trainer))

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
