"""`fl-vision detect --train`: from images with boxes to a detector in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_dist import Communicator
from fl_nn import load_checkpoint, run_folder
from fl_nn.extend import given_settings
from fl_nn.training import on_ranks
from fl_vision.datasets import DetectionDataset
from fl_vision.detectors import DetectionRecipe, DetectorRun, TrainedDetector, train_detector
from fl_vision.detectors.evaluation import detected, evaluate_detector
from fl_vision.detectors.html_report import REPORT, write_detection_report
from fl_vision.detectors.pictures import CURVES, PREDICTIONS, draw_curves, draw_grid
from fl_vision.detectors.sources import SCENES, BoxSource, data_notes, held_out
from fl_vision.detectors.training import METADATA, box_problems
from fl_vision.errors import UsageError

CHECKPOINT = "checkpoint.safetensors"
_SHOWN = 16


def train_on_ranks(given: argparse.Namespace) -> list[str]:
    """Train on the ranks of a launcher or of `--ranks`; what rank 0 reports."""
    lines: list[str] = on_ranks(train, given, given.ranks, given.communicator)
    return lines


def train(communicator: Communicator, given: argparse.Namespace) -> list[str]:
    """Train with the other ranks. Rank 0 writes into `--out`. The lines to print; none on other
    ranks."""
    if given.out is None:
        raise UsageError("[detect] --train needs the folder of the run: give -o RUN")
    settings = given_settings(given, DetectionRecipe)
    if given.resume:
        recipe, data = _continued(given, settings)
    else:
        if communicator.rank == 0:
            _require_no_run(given)
        data = _described(given)
        recipe = (
            DetectionRecipe.read(given.recipe, **settings)
            if given.recipe
            else DetectionRecipe(**settings)
        )
    images, valid = _opened(data, given.cache)
    lines = []
    if communicator.rank == 0:
        lines = [f"{len(images)} training images, {len(images.classes)} classes"]
        lines += [*data_notes(images), *box_problems(recipe, images)]
        lines += [] if valid is None else data_notes(valid)
    with run_folder(given.out) if communicator.rank == 0 else nullcontext():
        trained = train_detector(
            recipe,
            images,
            valid,
            DetectorRun(
                given.out,
                given.checkpoint_every,
                given.validate_every,
                given.keep_best,
                given.resume,
                given.overwrite,
                given.tensorboard,
                given.weights,
            ),
            communicator=communicator,
            prefetch=given.prefetch,
            processes=given.processes,
            progress=not given.quiet,
            notes={"data": data},
        )
        if communicator.rank:
            return []
        return lines + _reported(given.out, trained, images, valid)


def _reported(
    out: Path, trained: TrainedDetector, train: DetectionDataset, valid: DetectionDataset | None
) -> list[str]:
    """Draw curves and predictions, and write the report; the lines to print."""
    lines = []
    shown = train if valid is None else valid
    if trained.left_out:
        lines.append(f"begun at random: {', '.join(trained.left_out[:5])}")
    seconds = sum(float(record["seconds"]) for record in trained.history)
    lines.append(f"trained {len(trained.history)} epochs in {seconds:.1f} s")
    chosen = range(min(len(shown), _SHOWN))
    found = [
        (shown.image(n), one, true) for n, one, true in detected(trained.detector, shown, chosen)
    ]
    images = [image for image, _, _ in found]
    try:
        draw_curves(trained.history, out / CURVES)
        boxes = [one for _, one, _ in found]
        draw_grid(images, boxes, trained.detector.classes, out / PREDICTIONS)
    except ft.MissingError as error:
        lines.append(f"no pictures: {error}")
    figures = None if valid is None else evaluate_detector(trained.detector, valid)
    about = [("training images", str(len(train)))]
    if valid is not None:
        about.append(("validation images", str(len(valid))))
    about += [("left out or changed", line) for line in data_notes(train)]
    write_detection_report(out / REPORT, trained, found, figures, about)
    lines.append(f"wrote {out / REPORT}")
    best, epoch = trained.best
    if epoch:
        record = next(record for record in trained.history if record["epoch"] == epoch)
        lines.append(f"AP {best:.4f}, AP50 {record['valid_ap50']:.4f} in epoch {epoch}, the best")
    return lines


def _described(given: argparse.Namespace) -> dict[str, Any]:
    """The data of the options, as plain values for the checkpoint."""
    if given.valid is not None and given.holdout is not None:
        raise UsageError("[detect] --valid and --holdout: give one of them")

    def resolved(name: str | None) -> str | None:
        if name is None or name.split(":")[0] == SCENES:
            return name
        folder, colon, split = name.rpartition(":")
        if not Path(name).exists() and folder and Path(folder).is_dir():  # a split of VOC
            return f"{Path(folder).resolve()}{colon}{split}"
        return str(Path(name).resolve())

    places: list[Any] = [resolved(given.image_dir), resolved(given.classes), given.skip_bad]
    train = BoxSource(str(resolved(given.train)), *places)
    valid = None if given.valid is None else replace(train, name=str(resolved(given.valid)))
    return {
        "train": asdict(train),
        "valid": None if valid is None else asdict(valid),
        "holdout": given.holdout,
    }


def _opened(
    data: Mapping[str, Any], cache: Path | None
) -> tuple[DetectionDataset, DetectionDataset | None]:
    images = BoxSource(**data["train"]).open(cache)
    if data["holdout"] is not None:
        return held_out(images, data["holdout"])
    return images, None if data["valid"] is None else BoxSource(**data["valid"]).open(cache)


def _require_no_run(given: argparse.Namespace) -> None:
    if (given.out / CHECKPOINT).is_file() and not given.overwrite:
        raise UsageError(
            f"[detect] {given.out} holds a run already: --resume goes on with it, --overwrite "
            "begins anew in its place, and another --out keeps both"
        )


def _continued(
    given: argparse.Namespace, settings: Mapping[str, Any]
) -> tuple[DetectionRecipe, dict[str, Any]]:
    """Recipe and data of the run in `--out`; only the number of epochs may be another."""
    path = given.out / CHECKPOINT
    if given.overwrite:
        raise UsageError("[detect] --resume and --overwrite: give one of them")
    if not path.is_file():
        raise UsageError(f"[detect] there is no run to resume in {given.out}: leave --resume out")
    notes = load_checkpoint(path).metadata.get(METADATA)
    data = notes.get("data") if isinstance(notes, Mapping) else None
    if not isinstance(data, Mapping) or set(data) != {"train", "valid", "holdout"}:
        raise UsageError(f"[detect] {path} is of another program: leave --resume out")
    assert isinstance(notes, Mapping)
    recipe = DetectionRecipe.of(notes.get("recipe"))
    before = recipe.values()
    changed = [
        f"--{name.replace('_', '-')} was {before[name]!r}, is {value!r}"
        for name, value in settings.items()
        if name != "epochs" and value != before[name]
    ]
    told = _described(given)
    others = [told["train"]["name"] != data["train"]["name"]]
    others += [told[name] not in (None, data[name]) for name in ("valid", "holdout")]
    names = ("train", "valid", "holdout")
    changed += [f"--{name} is another" for name, other in zip(names, others) if other]
    changed += ["--recipe is given"] if given.recipe else []
    changed += ["--weights is given"] if given.weights else []
    if changed:
        raise UsageError(
            f"[detect] the run in {given.out} has its own settings: {'; '.join(changed)}; leave "
            "them out, or begin a new run with another --out"
        )
    if given.epochs is not None:
        recipe = recipe.changed(epochs=given.epochs)
    return recipe, dict(data)
