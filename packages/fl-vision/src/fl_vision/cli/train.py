"""The command `fl-vision train`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import WorkerError
from fl_dist import Communicator
from fl_nn import load_checkpoint, run_folder
from fl_vision.classifier import checkpoint_path, description_of
from fl_vision.cli.arguments import RUNS
from fl_vision.cli.commands import (
    accuracy_line,
    data_lines,
    data_settings,
    load_data,
    unreadable,
    weights_line,
)
from fl_vision.datasets import ImageData
from fl_vision.errors import DataFileError, UsageError
from fl_vision.recipe import Recipe, recipe_for
from fl_vision.report import draw_run
from fl_vision.training import Output, Trained, train_classifier

DEFAULT_DATASET = "digits"


def train(communicator: Communicator, arguments: argparse.Namespace) -> list[str]:
    """Train with the other ranks. Rank 0 writes checkpoint, log and pictures into `--out`, which is
    its own meanwhile. The lines to print, the test accuracy last; none on other ranks."""
    given = {name: getattr(arguments, name) for name in Recipe.names()}
    out = arguments.out or default_out(arguments)
    if arguments.resume:
        settings, recipe = _continued(data_settings(arguments), given, out)
    else:
        if communicator.rank == 0 and not arguments.overwrite:
            _require_no_run(out)
        settings = data_settings(arguments, {"dataset": DEFAULT_DATASET})
        recipe = recipe_for(settings["dataset"], **given)
    data = _loaded_by_one_first(communicator, settings, not arguments.no_download)
    with run_folder(out) if communicator.rank == 0 else nullcontext():
        try:
            trained = train_classifier(
                data,
                recipe,
                out=Output(
                    out, arguments.checkpoint_every, arguments.keep_best, arguments.tensorboard
                ),
                communicator=communicator,
                resume=arguments.resume,
                overwrite=arguments.overwrite,
                prefetch=arguments.prefetch,
                progress=not arguments.quiet,
                notes={"data": settings, "skipped_files": len(data.skipped)},
            )
        except (DataFileError, WorkerError):
            if len(bad := data.bad_files()) > 1:
                raise UsageError(unreadable("train", list(map(str, bad)))) from None
            raise
        return [] if communicator.rank else _reported(out, data, recipe, trained)


def default_out(arguments: argparse.Namespace) -> Path:
    """The folder of a run where none was given: each data set has its own."""
    dataset = arguments.dataset or DEFAULT_DATASET
    folder = "" if arguments.data_dir is None else arguments.data_dir.resolve().name
    return RUNS / (f"{dataset}-{folder}" if dataset == "folder" and folder else dataset)


def _reported(out: Path, data: ImageData, recipe: Recipe, trained: Trained) -> list[str]:
    """Draw the pictures of a run; the lines to print."""
    found = trained.classifier.classify(data.test)
    about = f"seed {recipe.seed}, {len(trained.history)} epochs"
    written = [str(checkpoint_path(out)), "log.jsonl"]
    lines = data_lines(data)
    try:
        written += draw_run(out, data, found, trained.history, trained.measured_on, about)
    except ft.MissingError as error:
        lines.append(f"no pictures: {error}")
    seconds = sum(float(record["seconds"]) for record in trained.history)
    lines.append(f"wrote {', '.join(written)}")
    lines.append(f"trained {len(trained.history)} epochs in {seconds:.1f} s")
    return [*lines, weights_line(trained.weights), accuracy_line(found.accuracy)]


def _loaded_by_one_first(
    communicator: Communicator, settings: Mapping[str, Any], download: bool
) -> ImageData:
    """The data set; what has to be downloaded is there when the other ranks look."""
    if communicator.rank == 0:
        data = load_data(settings, download)
    communicator.barrier()
    return data if communicator.rank == 0 else load_data(settings, download)


def _require_no_run(out: Path) -> None:
    if (out / "checkpoint.safetensors").is_file():
        raise UsageError(
            f"[train] {out} holds a run already: --resume goes on with it, --overwrite begins anew "
            "in its place, and another --out keeps both"
        )


def _require_run(out: Path) -> Path:
    path = out / "checkpoint.safetensors"
    if not path.is_file():
        raise UsageError(
            f"[train] there is no run to resume in {out}; leave --resume out, or say with --out or "
            "--dataset which run it is"
        )
    return path


def _continued(
    given_data: Mapping[str, Any], given: Mapping[str, Any], out: Path
) -> tuple[dict[str, Any], Recipe]:
    """The settings of the run in `out`; only the number of epochs may be another."""
    path = _require_run(out)
    notes = description_of(load_checkpoint(path), path)
    stored, stored_data = notes.get("recipe"), notes.get("data")
    if not isinstance(stored, dict) or not isinstance(stored_data, dict):
        raise UsageError(f"[train] {path} does not say how it was trained; leave --resume out")
    changed = [
        f"--{name.replace('_', '-')} was {before}, is {now}"
        for name, now, before in [
            *((name, now, stored.get(name)) for name, now in given.items() if name != "epochs"),
            *((name, now, stored_data.get(name)) for name, now in given_data.items()),
        ]
        if now is not None and now != before
    ]
    if changed:
        raise UsageError(
            f"[train] the run in {out} had other settings: {'; '.join(changed)}; "
            "leave them out, or begin a new run with another --out"
        )
    chosen = {name: stored[name] for name in Recipe.names() if name in stored}
    if given["epochs"] is not None:
        chosen["epochs"] = given["epochs"]
    return {name: stored_data.get(name) for name in given_data}, Recipe(**chosen)
