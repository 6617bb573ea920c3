"""``fl-speech train``: from lists of recordings to a recogniser in a folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_dist import Communicator
from fl_memory.subcommands import at_least
from fl_nn import run_folder
from fl_nn.extend import (
    given_settings,
    notes_of_run,
    print_lines,
    recipe_options,
    refuse_second_run,
    resumed_recipe,
    run_options,
    runtime,
    runtime_options,
)
from fl_nn.training import on_ranks
from fl_speech.cli.options import list_options
from fl_speech.datasets import ListFile, named_lists
from fl_speech.errors import RecipeError
from fl_speech.pictures import draw_curves
from fl_speech.recipe import Recipe, recipe_names
from fl_speech.recogniser import load_recogniser
from fl_speech.training import Lists, Output, Trained, train_recogniser
from fl_speech.training.run import METADATA
from fl_text import Dictionary, load_words

CURVES = "learning_curve.png"
#: Options that say on what is trained, kept in the checkpoint.
DATA = ("train", "unlabelled", "valid", "tokens", "lexicon", "data_dir", "skip_bad")


def main(arguments: list[str]) -> int:
    """Train, and print what was reached."""
    given = _parser().parse_args(arguments)
    with runtime(given):
        return print_lines(
            "fl-speech train", lambda: on_ranks(train, given, given.ranks, given.communicator)
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fl-speech train",
        description="Train a recogniser on list files, lines `id path duration_ms word word ...`. "
        "The folder --out then holds the recogniser of the lowest word error rate on the first "
        "validation list, which the other commands read.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FOLDER", help="of the run")
    add("--recipe", metavar="FILE", help=f"JSON of settings, or one of {', '.join(recipe_names())}")
    data = parser.add_argument_group("data").add_argument
    data("--train", type=Path, nargs="+", metavar="LIST", help="training lists")
    data("--unlabelled", type=Path, nargs="+", metavar="LIST", help="for --relabel-epochs")
    data("--valid", metavar="NAME:LIST,...", help="validation lists; the first one chooses weights")
    data("--tokens", type=Path, metavar="FILE", help="a token a line")
    data("--lexicon", type=Path, metavar="FILE", help="lines `word token token ...`")
    list_options(parser)
    run = run_options(parser)
    run("--from", dest="begin", type=Path, metavar="FOLDER", help="begin with weights of a run")
    run("--prefetch", type=at_least(0), default=0, metavar="N", help="batches made ahead")
    run("--checkpoint-every", type=at_least(0), default=0, metavar="N", help="also, in steps")
    run("--tensorboard", action="store_true", help="curves in --out (needs tensorboardX)")
    recipe_options(parser, Recipe)
    runtime_options(parser)
    return parser


def train(communicator: Communicator, given: argparse.Namespace) -> list[str]:
    """Train with the other ranks. Rank 0 writes into `--out`. The lines to print; none on other
    ranks."""
    if given.resume:
        recipe, data, arch = _continued(given)
    else:
        refuse_second_run(given, Recipe)
        settings = given_settings(given, Recipe)
        recipe = Recipe.read(given.recipe, **settings) if given.recipe else Recipe(**settings)
        data, arch = _data(given), _arch_text(recipe)
    lists = _lists(data)
    with run_folder(given.out) if communicator.rank == 0 else nullcontext():
        trained = train_recogniser(
            recipe,
            lists,
            Output(
                given.out,
                given.checkpoint_every,
                given.tensorboard,
                given.resume,
                given.overwrite,
            ),
            arch=arch,
            begin=None if given.begin is None else load_recogniser(given.begin),
            communicator=communicator,
            prefetch=given.prefetch,
            progress=not given.quiet,
            notes={"data": data, "arch": arch},
        )
        return [] if communicator.rank else _reported(given.out, lists, trained)


def _reported(out: Path, lists: Lists, trained: Trained) -> list[str]:
    """Draw the learning curves; the lines to print."""
    seconds = sum(float(record["seconds"]) for record in trained.history)
    lines = [f"trained {len(trained.history)} epochs in {seconds:.1f} s"]
    if trained.skipped:
        lines.append(f"left out {trained.skipped} recordings that could not be used")
    for record in trained.history:
        if "pseudo_labels" in record:
            lines.append(
                f"labelled {record['pseudo_labels']} recordings after epoch {record['epoch']}, "
                f"left out {record['pseudo_labels_left_out']}"
            )
    try:
        draw_curves(trained.history, list(lists.valid), out / CURVES)
    except ft.MissingError as error:
        lines.append(f"no curves: {error}")
    for name, (rate, epoch) in trained.best.items():
        lines.append(f"{name}: WER {rate:.2f} % in epoch {epoch}, the lowest")
    return lines


def _data(given: argparse.Namespace) -> dict[str, Any]:
    missing = [f"--{name}" for name in ("train", "tokens") if getattr(given, name) is None]
    if missing:
        raise RecipeError(f"give {' and '.join(missing)}; `fl-speech prepare` writes such files")
    return {
        "train": [str(path.resolve()) for path in given.train],
        "unlabelled": [str(path.resolve()) for path in given.unlabelled or ()],
        "valid": {n: str(Path(p).resolve()) for n, p in named_lists(given.valid or "").items()}
        if given.valid
        else {},
        "tokens": str(given.tokens.resolve()),
        "lexicon": None if given.lexicon is None else str(given.lexicon.resolve()),
        "data_dir": None if given.data_dir is None else str(given.data_dir.resolve()),
        "skip_bad": given.skip_bad,
    }


def _lists(data: Mapping[str, Any]) -> Lists:
    on_error = "skip" if data["skip_bad"] else "raise"

    def read(*paths: str) -> ListFile:
        return ListFile(*paths, root=data["data_dir"], on_error=on_error)  # type: ignore[arg-type]

    def unlabelled(*paths: str) -> ListFile:
        return ListFile(
            *paths,
            root=data["data_dir"],
            on_error=on_error,  # type: ignore[arg-type]
            transcripts="optional",
        )

    return Lists(
        read(*data["train"]),
        Dictionary(data["tokens"]),
        None if data["lexicon"] is None else load_words(data["lexicon"]),
        {name: read(path) for name, path in data["valid"].items()},
        data["skip_bad"],
        unlabelled(*data["unlabelled"]) if data["unlabelled"] else (),
    )


def _arch_text(recipe: Recipe) -> str:
    """What the file says that a recipe names as its architecture."""
    path = Path(recipe.arch)
    return path.read_text() if path.is_file() else ""


def _continued(given: argparse.Namespace) -> tuple[Recipe, dict[str, Any], str]:
    """Recipe, data and architecture of the run in `--out`; only the epochs may be others."""
    notes = notes_of_run(given.out, Recipe, METADATA)
    data = notes.get("data")
    if not isinstance(data, Mapping) or set(data) != set(DATA):
        raise RecipeError(
            f"the run in {given.out} does not say on what it was trained: leave --resume out"
        )
    fixed = ("train", "unlabelled", "valid", "tokens", "lexicon")
    recipe = resumed_recipe(given, Recipe, notes, fixed=fixed)
    return recipe, dict(data), str(notes.get("arch", ""))
