"""``fl-text classify``: classifiers of short texts, such as the languages of names."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_dist import Communicator
from fl_memory.subcommands import at_least
from fl_nn import ConfusionMeter, plot, run_folder
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
from fl_text.classification import (
    ClassifierRecipe,
    TextClassifier,
    load_text_classifier,
    read_labelled_texts,
    train_text_classifier,
)
from fl_text.classification.training import METADATA

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
    run_options(parser)
    recipe_options(parser, ClassifierRecipe)
    runtime_options(parser)
    parser.set_defaults(run=_train)


def _train(given: argparse.Namespace) -> int:
    return print_lines(
        "fl-text classify", lambda: on_ranks(train, given, given.ranks, given.communicator)
    )


def train(communicator: Communicator, given: argparse.Namespace) -> list[str]:
    """Train with the other ranks. The lines to print; none on other ranks."""
    if given.resume:
        notes = notes_of_run(given.out, ClassifierRecipe, METADATA)
        recipe = resumed_recipe(given, ClassifierRecipe, notes)
    else:
        refuse_second_run(given, ClassifierRecipe)
        settings = given_settings(given, ClassifierRecipe)
        if given.recipe:
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
