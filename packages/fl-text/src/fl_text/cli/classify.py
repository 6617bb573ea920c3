"""``fl-text classify``: classifiers of short texts, such as the languages of names."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_dist import Communicator
from fl_memory.subcommands import at_least
from fl_nn import ConfusionMeter, Interrupted, load_checkpoint, plot, run_folder
from fl_nn.extend import given_settings, recipe_options, runtime, runtime_options
from fl_nn.training import on_ranks
from fl_text.classification import (
    ClassifierRecipe,
    TextClassifier,
    load_text_classifier,
    read_labelled_texts,
    train_text_classifier,
)
from fl_text.classification.training import METADATA
from fl_text.errors import RecipeError

CHECKPOINT = "checkpoint.safetensors"
#: Confusions that are listed.
_MOST = 10
_DATA = "a folder with a file CLASS.txt for each class, or a file of lines text<TAB>class"


def main(arguments: list[str]) -> int:
    """Run one of train, eval and predict."""
    parser = argparse.ArgumentParser(
        prog="fl-text classify",
        description="Classifiers of short texts by their characters.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_train(commands.add_parser("train", help="train a classifier", allow_abbrev=False))
    what = "accuracy, figures of each class, confusions"
    _add_eval(commands.add_parser("eval", help=what, allow_abbrev=False))
    what = "the classes of texts, given or line by line"
    _add_predict(commands.add_parser("predict", help=what, allow_abbrev=False))
    given = parser.parse_args(arguments)
    with runtime(given):
        status: int = given.run(given)
    return status


def _add_train(parser: argparse.ArgumentParser) -> None:
    add, names = parser.add_argument, ", ".join(ClassifierRecipe.recipe_names())
    add("data", type=Path, metavar="DATA", help=_DATA)
    add("-o", "--out", type=Path, required=True, metavar="FOLDER", help="of the run")
    add("--recipe", metavar="FILE", help=f"JSON of settings, or {names}")
    add("--valid", type=Path, metavar="DATA", help="chooses the weights; --valid-share otherwise")
    kept = parser.add_mutually_exclusive_group().add_argument
    kept("--resume", action="store_true", help="go on with the run in --out, to the same bits")
    kept("--overwrite", action="store_true", help="begin anew in place of the run in --out")
    add("--ranks", type=at_least(1), metavar="N", help="train data-parallel (default 1)")
    add("--communicator", metavar="NAME", help="of the ranks (default processes)")
    add("--quiet", action="store_true", help="no progress")
    recipe_options(parser, ClassifierRecipe)
    runtime_options(parser)
    parser.set_defaults(run=_train)


def _train(given: argparse.Namespace) -> int:
    try:
        lines = on_ranks(train, given, given.ranks, given.communicator)
    except Interrupted as stopped:
        with suppress(OSError):  # the terminal is closed
            print(
                f"fl-text classify: stopped after step {stopped.step}; --resume goes on",
                file=sys.stderr,
            )
        return 128 + stopped.signal
    for line in lines:
        print(line)
    return 0


def train(communicator: Communicator, given: argparse.Namespace) -> list[str]:
    """Train with the other ranks. The lines to print; none on other ranks."""
    settings = given_settings(given, ClassifierRecipe)
    if given.resume:
        recipe = _continued(given, settings)
    elif (given.out / CHECKPOINT).is_file() and not given.overwrite:
        raise RecipeError(
            f"{given.out} holds a run already: --resume goes on with it, --overwrite begins anew "
            "in its place, and another --out keeps both"
        )
    elif given.recipe:
        recipe = ClassifierRecipe.read(given.recipe, **settings)
    else:
        recipe = ClassifierRecipe(**settings)
    data = read_labelled_texts(given.data)
    valid = None if given.valid is None else read_labelled_texts(given.valid, data.classes)
    with run_folder(given.out) if communicator.rank == 0 else nullcontext():
        trained = train_text_classifier(
            recipe,
            data,
            valid,
            given.out,
            resume=given.resume,
            overwrite=given.overwrite,
            communicator=communicator,
            progress=not given.quiet,
        )
    lines = [f"{len(data)} texts of {len(data.classes)} classes"]
    if accuracies := [r["valid_accuracy"] for r in trained.history if "valid_accuracy" in r]:
        best = min(trained.history, key=lambda record: record["valid_loss"])
        lines.append(
            f"validation accuracy {best['valid_accuracy']:.2f} % after epoch {best['epoch']}, of "
            f"the lowest loss; the highest is {max(accuracies):.2f} %"
        )
    return [] if communicator.rank else lines


def _continued(given: argparse.Namespace, settings: dict[str, Any]) -> ClassifierRecipe:
    """The recipe of the run in `--out`; only its epochs may be others."""
    if not (given.out / CHECKPOINT).is_file():
        raise RecipeError(f"there is no run to resume in {given.out}: leave --resume out")
    notes = load_checkpoint(given.out / CHECKPOINT).metadata.get(METADATA)
    if not isinstance(notes, dict) or "recipe" not in notes:
        raise RecipeError(f"{given.out} holds a run of another program: leave --resume out")
    recipe = ClassifierRecipe.of(notes["recipe"])
    changed = [
        f"--{name.replace('_', '-')} was {getattr(recipe, name)!r}, is {value!r}"
        for name, value in settings.items()
        if name != "epochs" and value != getattr(recipe, name)
    ]
    if changed or given.recipe:
        changed += ["--recipe is given"] if given.recipe else []
        raise RecipeError(
            f"the run in {given.out} has its own settings: {'; '.join(changed)}; leave them out, "
            "or begin a new run with another --out"
        )
    return recipe.changed(**{k: v for k, v in settings.items() if k == "epochs"})


def _add_eval(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="RUN", help="folder of fl-text classify train")
    add("data", type=Path, metavar="DATA", help=_DATA)
    add("--confusion", type=Path, metavar="FILE", help="picture of the confusion matrix")
    add("--batch-size", type=at_least(1), default=64, metavar="N", help="texts (%(default)s)")
    add("--json", action="store_true", help="all figures as one JSON object")
    runtime_options(parser)
    parser.set_defaults(run=_eval)


def _eval(given: argparse.Namespace) -> int:
    model = load_text_classifier(given.model)
    data = read_labelled_texts(given.data, model.classes)
    counts = ConfusionMeter(len(model.classes))
    scores = model.log_probs(data.texts, given.batch_size)
    counts.add(scores, ft.asarray(data.labels, ft.int64, scores.device, scores.backend))
    if given.confusion is not None:
        plot.confusion(counts, classes=list(model.classes), path=given.confusion)
    if given.json:
        print(json.dumps(_values(model, counts), ensure_ascii=False))
        return 0
    width = max(5, *map(len, model.classes))
    print(f"{'class':<{width}}  precision  recall      f1  texts")
    for name, each in zip(model.classes, counts.per_class):
        print(
            f"{name:<{width}}  {each.precision:9.4f}  {each.recall:6.4f}  {each.f1:6.4f}"
            f"  {each.support:5d}"
        )
    for count, true, taken in _confusions(model, counts)[:_MOST]:
        print(f"{count} of {true} taken for {taken}")
    print(f"accuracy {counts.result():.2f} % of {len(data)} texts")
    return 0


def _confusions(model: TextClassifier, counts: ConfusionMeter) -> list[tuple[int, str, str]]:
    """How often texts of a class were taken for another one, the most frequent first."""
    found = [
        (count, model.classes[true], model.classes[taken])
        for true, row in enumerate(counts.value)
        for taken, count in enumerate(row)
        if count and true != taken
    ]
    return sorted(found, key=lambda each: (-each[0], each[1:]))


def _values(model: TextClassifier, counts: ConfusionMeter) -> dict[str, Any]:
    per_class = {name: each._asdict() for name, each in zip(model.classes, counts.per_class)}
    return {"accuracy": counts.result(), "classes": per_class, "confusion": counts.value}


def _add_predict(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", type=Path, metavar="RUN", help="folder of fl-text classify train")
    add("texts", nargs="*", metavar="TEXT", help="without any: the lines of standard input")
    add("--top", type=at_least(1), default=1, metavar="N", help="classes of each (%(default)s)")
    add("--json", action="store_true", help="a JSON object for each text")
    runtime_options(parser)
    parser.set_defaults(run=_predict)


def _predict(given: argparse.Namespace) -> int:
    model = load_text_classifier(given.model)
    for text in given.texts or _lines():
        (best,) = model.best([text], given.top)
        if given.json:
            classes = [{"class": name, "probability": p} for name, p in best]
            print(json.dumps({"text": text, "best": classes}, ensure_ascii=False), flush=True)
        else:
            print(f"{text}: {', '.join(f'{n} ({p:.4f})' for n, p in best)}", flush=True)
    return 0


def _lines() -> Iterator[str]:
    """Lines as they come, blank ones left out."""
    yield from (line.strip() for line in sys.stdin if line.strip())
