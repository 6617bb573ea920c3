"""``fl-vision train``: from images to a classifier in the folder of a run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import WorkerError
from fl_dist import Communicator
from fl_nn import load_checkpoint, run_folder
from fl_nn.extend import given_settings, recipe_options, runtime, runtime_options
from fl_nn.training import on_ranks
from fl_vision.classifier import checkpoint_path, description_of
from fl_vision.cli.data import (
    accuracy_line,
    data_lines,
    data_settings,
    find_dataset,
    load_data,
    unreadable,
    weights_line,
)
from fl_vision.cli.options import Parser, data_options, whole
from fl_vision.datasets import ImageData
from fl_vision.errors import DataFileError, UsageError
from fl_vision.html_report import REPORT, write_report
from fl_vision.recipe import Recipe, recipe_for
from fl_vision.report import draw_run
from fl_vision.training import Output, Trained, train_classifier
from fl_vision.training.augmentation import augmentation_text

#: Where the run of each data set is kept unless `--out` says where.
RUNS = Path("runs")
DEFAULT_DATASET = "digits"


def main(arguments: list[str]) -> None:
    """Train on the ranks of a launcher or of `--ranks`, and print what rank 0 reports."""
    given = _parser().parse_args(arguments)
    find_dataset(given, given.data)
    with runtime(given):
        for line in on_ranks(train, given, given.ranks, given.communicator):
            print(line)


def _parser() -> Parser:
    parser = Parser(
        "fl-vision train",
        "Train a network on images. The folder --out then holds the classifier, which the other "
        "commands read, its log, pictures, and report.html. What a recipe or a data set leaves "
        "open, options say.",
    )
    add = parser.add_argument
    add("data", nargs="?", metavar="DATA", help="folder of images, or the name of a data set")
    known = ", ".join(Recipe.recipe_names())
    add("--recipe", metavar="FILE", help=f"JSON of settings, or one of {known}")
    data_options(parser, DEFAULT_DATASET)
    run = parser.add_argument_group("run").add_argument
    run("-o", "--out", type=Path, metavar="RUN", help=f"folder (default: {RUNS}/ and the data set)")
    kept = parser.add_mutually_exclusive_group().add_argument
    kept("--resume", action="store_true", help="go on with the run in --out, to the same bits")
    kept("--overwrite", action="store_true", help="begin anew in place of the run in --out")
    run("--ranks", type=whole(1), metavar="N", help="train data-parallel (default 1)")
    run("--communicator", metavar="NAME", help="of the ranks (default processes)")
    run("--prefetch", type=whole(0), default=0, metavar="N", help="batches made ahead by a thread")
    run("--processes", type=whole(0), default=0, metavar="N", help="batches made ahead by so many")
    run("--checkpoint-every", type=whole(0), default=0, metavar="N", help="steps, also")
    run(
        "--keep-best",
        type=whole(0),
        default=0,
        metavar="N",
        help="checkpoints of so many epochs of best accuracy",
    )
    run("--tensorboard", action="store_true", help="curves in --out (needs tensorboardX)")
    run("--quiet", action="store_true", help="no progress")
    recipe_options(parser, Recipe)
    runtime_options(parser)
    return parser


def train(communicator: Communicator, arguments: argparse.Namespace) -> list[str]:
    """Train with the other ranks. Rank 0 writes checkpoint, log and pictures into `--out`, which is
    its own meanwhile. The lines to print, the test accuracy last; none on other ranks."""
    given = given_settings(arguments, Recipe)
    if "augment" in given:
        given["augment"] = augmentation_text(given["augment"])
    out = arguments.out or default_out(arguments)
    if arguments.resume:
        settings, recipe = _continued(arguments, given, out)
    else:
        if communicator.rank == 0 and not arguments.overwrite:
            _require_no_run(out)
        settings = data_settings(arguments, {"dataset": DEFAULT_DATASET})
        recipe = _chosen(arguments.recipe, str(settings["dataset"]), given)
    data = _loaded_by_one_first(communicator, settings, arguments)
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
                processes=arguments.processes,
                progress=not arguments.quiet,
                notes={"data": settings, "skipped_files": len(data.skipped)},
            )
        except (DataFileError, WorkerError):
            if len(bad := data.bad_files()) > 1:
                raise UsageError(unreadable("train", list(map(str, bad)))) from None
            raise
        return [] if communicator.rank else _reported(out, data, recipe, trained)


def _chosen(source: str | None, dataset: str, given: Mapping[str, Any]) -> Recipe:
    """The recipe of a file or of the data set, with the settings of options."""
    if source is None:
        return recipe_for(dataset, **given)
    recipe = Recipe.read(source, **given)
    # A path in a file is one beside it, or one from here.
    beside = Path(source).parent / recipe.augment
    named = str(beside) if beside.is_file() else recipe.augment
    return replace(recipe, augment=augmentation_text(named))


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
    write_report(out / REPORT, data, found, trained, recipe)
    written.append(REPORT)
    seconds = sum(float(record["seconds"]) for record in trained.history)
    lines.append(f"wrote {', '.join(written)}")
    lines.append(f"trained {len(trained.history)} epochs in {seconds:.1f} s")
    return [*lines, weights_line(trained.weights), accuracy_line(found.accuracy)]


def _loaded_by_one_first(
    communicator: Communicator, settings: Mapping[str, Any], arguments: argparse.Namespace
) -> ImageData:
    """The data set; what has to be downloaded is there when the other ranks look."""
    if communicator.rank == 0:
        data = load_data(settings, not arguments.no_download, cache=arguments.cache)
    communicator.barrier()
    if communicator.rank:
        data = load_data(settings, False, cache=arguments.cache)
    return data


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
    arguments: argparse.Namespace, given: Mapping[str, Any], out: Path
) -> tuple[dict[str, Any], Recipe]:
    """The settings of the run in `out`; only the number of epochs may be another."""
    path = _require_run(out)
    given_data = data_settings(arguments)
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
    changed += ["--recipe is given"] if arguments.recipe else []
    if changed:
        raise UsageError(
            f"[train] the run in {out} had other settings: {'; '.join(changed)}; "
            "leave them out, or begin a new run with another --out"
        )
    stored = {k: v for k, v in stored.items() if k in Recipe.names() and v is not None}
    epochs = {k: v for k, v in given.items() if k == "epochs"}
    return {name: stored_data.get(name) for name in given_data}, Recipe.of({**stored, **epochs})
