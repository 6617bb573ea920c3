"""Runs of commands such as `fl-text train --out FOLDER`: their options, and how they go on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fl_memory.subcommands import at_least
from fl_nn.checkpoint import load_checkpoint
from fl_nn.recipes.options import given_settings
from fl_nn.recipes.settings import RecipeSettings
from fl_nn.training import Interrupted
from fl_nn.training.run_folder import CHECKPOINT

R = TypeVar("R", bound=RecipeSettings)


def run_options(parser: argparse.ArgumentParser) -> Callable[..., Any]:
    """--resume or --overwrite, --ranks, --communicator, --quiet. Returns `add_argument` of their
    group, for more of them."""
    either = parser.add_mutually_exclusive_group().add_argument
    either("--resume", action="store_true", help="go on with the run in --out, to the same bits")
    either("--overwrite", action="store_true", help="begin anew in place of the run in --out")
    add = parser.add_argument_group("run").add_argument
    add("--ranks", type=at_least(1), metavar="N", help="train data-parallel (default 1)")
    add("--communicator", metavar="NAME", help="of the ranks (default processes)")
    add("--quiet", action="store_true", help="no progress")
    return add


def print_lines(command: str, lines: Callable[[], Iterable[str]]) -> int:
    """Print what a training returns; the status of the command. A signal that ends the training is
    reported on stderr, and the status is that of a shell."""
    try:
        for line in lines():
            print(line)
    except Interrupted as stopped:
        with suppress(OSError):  # the terminal is closed
            print(
                f"{command}: stopped after step {stopped.step}; --resume goes on", file=sys.stderr
            )
        return 128 + stopped.signal
    return 0


def refuse_second_run(given: argparse.Namespace, recipe: type[RecipeSettings]) -> None:
    """Raise the error of recipes where `--out` holds a run, unless it is to be replaced."""
    if (given.out / CHECKPOINT).is_file() and not given.overwrite:
        raise recipe.ERROR(
            f"{given.out} holds a run already: --resume goes on with it, --overwrite begins anew "
            "in its place, and another --out keeps both"
        )


def notes_of_run(
    out: Path, recipe: type[RecipeSettings], program: str, needed: Collection[str] = ()
) -> Mapping[str, Any]:
    """What the checkpoint in `out` has as metadata of a program, "recipe" among it. The error of
    recipes where there is none, or one of the files `needed` is missing."""
    path = out / CHECKPOINT
    if not path.is_file() or not all((out / name).is_file() for name in needed):
        raise recipe.ERROR(f"there is no run to resume in {out}: leave --resume out")
    notes = load_checkpoint(path).metadata.get(program)
    if not isinstance(notes, Mapping) or "recipe" not in notes:
        raise recipe.ERROR(f"{path} is of another program, or malformed: leave --resume out")
    return notes


def resumed_recipe(
    given: argparse.Namespace,
    recipe: type[R],
    notes: Mapping[str, Any],
    limits: Collection[str] = ("epochs",),
    fixed: Collection[str] = (),
) -> R:
    """The recipe of a run that goes on. The error of recipes for options that give it another
    setting than one of `limits`, another recipe, or one of the options `fixed`."""
    before, settings = recipe.of(notes["recipe"]), given_settings(given, recipe)
    changed = [
        f"--{name.replace('_', '-')} was {getattr(before, name)!r}, is {value!r}"
        for name, value in settings.items()
        if name not in limits and value != getattr(before, name)
    ]
    named = [name for name in (*fixed, "recipe") if getattr(given, name)]
    changed += [f"--{name.replace('_', '-')} is given" for name in named]
    if changed:
        raise recipe.ERROR(
            f"the run in {given.out} has its own settings: {'; '.join(changed)}; leave them out, "
            "or begin a new run with another --out"
        )
    return before.changed(**{name: settings[name] for name in limits if name in settings})
