"""``fl-text train``: from text files to a language model in a folder."""

from __future__ import annotations

import argparse
import math
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
from fl_text.errors import RecipeError
from fl_text.language_model_folder import (
    DESCRIPTION,
    TOKENIZER,
    LanguageModelFolder,
    load_language_model,
)
from fl_text.pictures import draw_curves
from fl_text.recipe import Recipe, recipe_names
from fl_text.tokenizer import Tokenizer
from fl_text.training import Output, Trained, train_language_model
from fl_text.training.data import make_tokenizer, open_texts
from fl_text.training.run import METADATA

CURVES = "learning_curve.png"
#: What --resume may change: how long it goes on.
LIMITS = ("epochs", "updates", "minutes")


def main(arguments: list[str]) -> int:
    """Train, and print what was reached."""
    given = _parser().parse_args(arguments)
    with runtime(given):
        return print_lines(
            "fl-text train", lambda: on_ranks(train, given, given.ranks, given.communicator)
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fl-text train",
        description="Train a language model on text. The folder --out then holds the model of the "
        "lowest validation loss, which the other commands read.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-o", "--out", type=Path, required=True, metavar="FOLDER", help="of the run")
    add("--recipe", metavar="FILE", help=f"JSON of settings, or one of {', '.join(recipe_names())}")
    data = parser.add_argument_group("data").add_argument
    what = "UTF-8 text, plain or gzip, or one token file"
    data("--train", type=Path, nargs="+", metavar="FILE", help=what)
    data("--valid", type=Path, nargs="+", metavar="FILE", help="the same; chooses the weights")
    data("--tokenizer-file", type=Path, metavar="FILE", help="a tokenizer.json; trained otherwise")
    run = run_options(parser)
    run("--init", type=Path, metavar="FOLDER", help="begin with a run, or a folder of Hugging Face")
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
        recipe, data = _continued(given)
    else:
        if communicator.rank == 0:
            refuse_second_run(given, Recipe)
        settings = given_settings(given, Recipe)
        recipe = Recipe.read(given.recipe, **settings) if given.recipe else Recipe(**settings)
        data = _data(given)
    with run_folder(given.out) if communicator.rank == 0 else nullcontext():
        begin = _begin(given, data)
        tokenizer = begin.tokenizer if begin else _tokenizer(communicator, given, recipe, data)
        trained = train_language_model(
            recipe,
            open_texts(data["train"], tokenizer),
            open_texts(data["valid"], tokenizer) if data["valid"] else None,
            tokenizer,
            Output(
                given.out,
                given.checkpoint_every,
                given.tensorboard,
                given.resume,
                given.overwrite,
            ),
            begin=begin,
            communicator=communicator,
            prefetch=given.prefetch,
            progress=not given.quiet,
            notes={"data": data},
        )
        return [] if communicator.rank else _reported(given.out, trained)


def _begin(given: argparse.Namespace, data: Mapping[str, Any]) -> LanguageModelFolder | None:
    """The model that a run begins with, or of which a resumed one has the structure."""
    if data["init"] is None:
        return None
    return load_language_model(given.out if given.resume else data["init"])


def _tokenizer(
    communicator: Communicator, given: argparse.Namespace, recipe: Recipe, data: Mapping[str, Any]
) -> Tokenizer:
    """That of the run, of a file, or one that rank 0 trains for all."""
    if given.resume:
        return Tokenizer.load(given.out / TOKENIZER)
    if data["tokenizer"] is not None:
        return Tokenizer.load(data["tokenizer"])
    if communicator.rank == 0:
        found = make_tokenizer(recipe, open_texts(data["train"], None))
        if communicator.world_size == 1:
            return found
        given.out.mkdir(parents=True, exist_ok=True)
        found.save(given.out / TOKENIZER)
    communicator.barrier()
    return Tokenizer.load(given.out / TOKENIZER)


def _reported(out: Path, trained: Trained) -> list[str]:
    """Draw the learning curves; the lines to print."""
    seconds = sum(float(record["seconds"]) for record in trained.history)
    parameters = sum(p.size for p in trained.model.network.parameters())
    lines = [f"trained {parameters:,} parameters, {trained.steps} updates"]
    if trained.history:
        lines[0] += f"; {len(trained.history)} whole epochs in {seconds:.1f} s"
    try:
        draw_curves(out / "log.jsonl", trained.points, out / CURVES)
    except ft.MissingError as error:
        lines.append(f"no curves: {error}")
    if math.isfinite(trained.best):
        lines.append(
            f"validation loss {trained.best:.4f} nats a token, perplexity "
            f"{math.exp(min(trained.best, 700)):.3f}, after update {trained.best_step}, the lowest"
        )
    return lines


def _data(given: argparse.Namespace) -> dict[str, Any]:
    if given.train is None:
        raise RecipeError("give --train, the text files to learn from")
    if given.init is not None and given.tokenizer_file is not None:
        raise RecipeError("--init has its own tokenizer: leave --tokenizer-file out")
    return {
        "train": [str(path.resolve()) for path in given.train],
        "valid": [str(path.resolve()) for path in given.valid or ()],
        "tokenizer": None if given.tokenizer_file is None else str(given.tokenizer_file.resolve()),
        "init": None if given.init is None else str(given.init.resolve()),
    }


def _continued(given: argparse.Namespace) -> tuple[Recipe, dict[str, Any]]:
    """Recipe and data of the run in `--out`; only its limits may be others."""
    notes = notes_of_run(given.out, Recipe, METADATA, (DESCRIPTION,))
    data = notes.get("data")
    if not isinstance(data, Mapping) or set(data) != {"train", "valid", "tokenizer", "init"}:
        raise RecipeError(
            f"the run in {given.out} does not say on what it was trained: leave --resume out"
        )
    fixed = ("train", "valid", "tokenizer_file", "init")
    return resumed_recipe(given, Recipe, notes, LIMITS, fixed), dict(data)
