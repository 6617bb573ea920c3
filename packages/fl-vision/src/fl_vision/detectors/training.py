"""The training of a detector: from images with boxes to weights."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_dist import Communicator, local
from fl_tensor.annotations import checked
from fl_vision.datasets import DetectionDataset, box_statistics
from fl_vision.detectors.batches import training_batches
from fl_vision.detectors.detector import Detector, load_detector
from fl_vision.detectors.evaluation import DECIDES, Validate, check_classes
from fl_vision.detectors.network import load_published, make_criterion
from fl_vision.detectors.optimisation import make_optimizer, make_schedule
from fl_vision.detectors.recipe import DetectionRecipe
from fl_vision.errors import UsageError
from fl_vision.training.batches import Workers

METADATA = "fl_vision_detector"


@dataclass(frozen=True)
class DetectorRun:
    """What a run leaves behind in `folder` (None: nothing): checkpoint, log, detector.

    checkpoint_every  a checkpoint also every so many steps; 0: after epochs alone
    validate_every    measure after every so many epochs, and after the last one
    keep_best         checkpoints of so many epochs with the best AP on validation images
    weights           begin with published weights of a detector or a backbone in this file
    """

    folder: Path | None = None
    checkpoint_every: int = 0
    validate_every: int = 1
    keep_best: int = 0
    resume: bool = False
    overwrite: bool = False
    tensorboard: bool = False
    weights: Path | None = None


@dataclass(frozen=True)
class TrainedDetector:
    """The result of `train_detector`: the detector with the weights of the best average precision
    on validation images, or else the last; the records of the epochs; the best AP with its epoch
    (-inf and 0 without validation); and names of weights that --weights left out."""

    detector: Detector
    history: list[dict[str, Any]]
    best: tuple[float, int]
    left_out: tuple[str, ...] = ()


@checked
def train_detector(
    recipe: DetectionRecipe,
    train: DetectionDataset,
    valid: DetectionDataset | None = None,
    out: DetectorRun | None = None,
    *,
    communicator: Communicator | None = None,
    prefetch: int = 0,
    processes: int = 0,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> TrainedDetector:
    """Train a detector; the ranks of `communicator`, which all call this, share every batch.

    prefetch   batches made ahead by a thread
    processes  so many make batches ahead, in place of the thread
    notes      plain values to keep in the checkpoint

    The same recipe and data give the same numbers to the bit, interrupted and resumed or not. The
    default generator of the caller is left alone. SIGINT, SIGTERM and SIGHUP end it after a step
    and a checkpoint: `fl_nn.Interrupted`. Raises `UsageError` for data that do not fit, and
    `fl_nn.DivergenceError` for a loss that is not finite.
    """

    def run() -> TrainedDetector:
        ft.set_default_generator(ft.Generator(recipe.seed))
        return _run(
            recipe,
            train,
            valid,
            out or DetectorRun(),
            communicator or local(),
            Workers(prefetch, processes),
            progress,
            dict(notes or {}),
        )

    return contextvars.copy_context().run(run)


def _run(
    recipe: DetectionRecipe,
    train: DetectionDataset,
    valid: DetectionDataset | None,
    out: DetectorRun,
    communicator: Communicator,
    workers: Workers,
    progress: bool,
    notes: dict[str, Any],
) -> TrainedDetector:
    detector = Detector(recipe, train.classes)
    if valid is not None:
        check_classes(detector, valid)
    if out.keep_best and (out.folder is None or valid is None or out.validate_every > 1):
        raise UsageError(
            "[detect] the best checkpoints are those of a run in a folder that is measured on "
            "validation images after every epoch: give all three, or leave them out"
        )
    left_out: list[str] = []
    if out.weights is not None and not out.resume:
        left_out = load_published(out.weights, detector.network, recipe.network)
    if recipe.sync_norm:
        detector.network = nn.convert_sync_batchnorm(detector.network, communicator)
    batches = training_batches(detector, train, communicator, workers.prefetch, workers.processes)
    optimizer = make_optimizer(detector)
    steps = -(-len(batches) // recipe.accumulate)
    validate = Validate(detector, valid, out.validate_every)
    callbacks: list[nn.Callback] = [validate]
    if recipe.clip:
        callbacks.insert(0, nn.ClipGradNorm(recipe.clip))
    if out.keep_best:
        callbacks.append(nn.KeepBest(out.keep_best, DECIDES, mode="max"))
    if out.tensorboard:
        callbacks.append(nn.TensorBoard())
    trainer = nn.Trainer(
        detector,
        optimizer,
        make_criterion(recipe, len(detector.classes), communicator),
        callbacks=callbacks,
        communicator=communicator,
        out=out.folder,
        overwrite=out.overwrite,
        checkpoint_every=out.checkpoint_every or None,
        log_every=1,
        progress=progress,
        schedule=make_schedule(recipe, optimizer, steps),
        accumulate=recipe.accumulate,
        ema=nn.EMA(detector, recipe.ema, warm_up=True) if recipe.ema else None,
        precision="O1" if recipe.amp else None,
        scaler=nn.DynamicLossScaler() if recipe.amp else None,
        metadata={
            METADATA: {**notes, "recipe": recipe.values(), "classes": list(detector.classes)}
        },
    )
    if out.resume:
        trainer.resume()
    elif out.folder is not None and communicator.rank == 0:
        with nn.run_folder(out.folder):
            detector.describe(out.folder)
    trainer.fit(batches, epochs=recipe.epochs)
    if out.folder is not None:
        communicator.barrier()  # rank 0 has written it
        detector = load_detector(out.folder)
    elif trainer.ema is not None:
        trainer.ema.copy_to()
    return TrainedDetector(detector.eval(), trainer.history, validate.best, tuple(left_out))


def box_problems(recipe: DetectionRecipe, data: DetectionDataset) -> list[str]:
    """What is worth knowing before a training, in words: classes without boxes, and images with
    more boxes than a DETR has queries. Raises `UsageError` where no image has a box."""
    found = box_statistics(data)
    if not found.boxes:
        raise UsageError(
            f"[detect] none of {found.images} training images has a box: give images with boxes"
        )
    lines = []
    empty = [n for n, count in zip(found.classes, found.class_counts, strict=True) if not count]
    if empty:
        shown = ", ".join(empty[:10]) + (f" and {len(empty) - 10} more" if len(empty) > 10 else "")
        lines.append(f"{len(empty)} classes have no training boxes: {shown}")
    if recipe.network == "detr":
        full = sum(len(data.target(i)) > recipe.queries for i in range(len(data)))
        if full:
            lines.append(
                f"{full} training images have more than {recipe.queries} boxes, and some of them "
                "are not learnt: raise --queries"
            )
    return lines
