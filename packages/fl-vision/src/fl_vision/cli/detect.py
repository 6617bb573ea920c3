"""The command `fl-vision detect`: train, evaluate and apply detectors."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from fl_nn.extend import recipe_options, runtime, runtime_options
from fl_vision.cli.options import Parser, whole
from fl_vision.detectors.recipe import DetectionRecipe
from fl_vision.errors import UsageError


def main(arguments: list[str]) -> None:
    """Do what the options say, and print what was reached."""
    given = parser().parse_intermixed_args(arguments)  # RUN --least 0 IMAGE ...
    modes = [given.train is not None, given.eval is not None, bool(given.images)]
    if sum(modes) != 1:
        raise UsageError(
            "[detect] give one of: --train DATA -o RUN; RUN --eval DATA; RUN IMAGE ..."
        )
    if given.train is None and given.run is None:
        raise UsageError("[detect] give the folder of a run before --eval or images")
    lines: Iterable[str]
    with runtime(given):
        if given.train is not None:
            from fl_vision.cli.detect_train import train_on_ranks

            lines = train_on_ranks(given)
        else:
            from fl_vision.cli.detect_apply import evaluate, predict

            lines = evaluate(given) if given.eval is not None else predict(given)
        for line in lines:
            print(line, flush=True)


def parser() -> argparse.ArgumentParser:
    """The options of all three uses."""
    made = Parser(
        prog="fl-vision detect",
        description="Train a detector on images with boxes (--train DATA -o RUN), measure it (RUN "
        "--eval DATA), or find boxes in images (RUN IMAGE ...). DATA is a folder with "
        "instances.json and images, an instances file of COCO, a list of lines `path<TAB>x1 y1 x2 "
        "y2 class<TAB>...`, a folder of VOC or FOLDER:SPLIT, or scenes:COUNT:SEED.",
    )
    add = made.add_argument
    add("run", type=Path, nargs="?", metavar="RUN", help="folder of a run")
    add(
        "images",
        type=Path,
        nargs="*",
        metavar="IMAGE",
        help="files, folders, or - for standard input",
    )
    add("--train", metavar="DATA", help="train on these")
    add("--eval", metavar="DATA", help="measure on these: COCO's average precision")
    _data_options(made)
    _train_options(made)
    result = made.add_argument_group("results").add_argument
    result("--voc", choices=("2007", "2010"), help="--eval: also VOC's average precision of a year")
    result("--json", type=Path, metavar="FILE", help="boxes, or figures of --eval, as JSON")
    result("--csv", type=Path, metavar="FILE", help="boxes as CSV (default: printed)")
    result("--pictures", type=Path, metavar="FOLDER", help="pictures with boxes drawn")
    result("--attention", action="store_true", help="also pictures of where a detr looks")
    result("--least", type=float, default=0.5, metavar="X", help="lowest score of a box (0.5)")
    result("--threads", type=whole(1), default=2, metavar="N", help="that decode images (2)")
    result("--times", action="store_true", help="images per second, on standard error")
    recipe_options(made, DetectionRecipe)
    runtime_options(made)
    return made


def _data_options(made: argparse.ArgumentParser) -> None:
    data = made.add_argument_group("data").add_argument
    data("--valid", metavar="DATA", help="train: measure on these after each epoch")
    data("--holdout", type=float, metavar="SHARE", help="train: measure on a share of --train")
    data("--image-dir", metavar="FOLDER", help="of a COCO file or list (default: beside it)")
    data("--classes", metavar="FILE", help="of a list or VOC: a name a line")
    data("--cache", type=Path, metavar="FOLDER", help="train: keep decoded images there")
    data("--skip-bad", action="store_true", help="leave out entries that cannot be read")


def _train_options(made: argparse.ArgumentParser) -> None:
    train = made.add_argument_group("training").add_argument
    train("-o", "--out", type=Path, metavar="RUN", help="folder of the run")
    names = ", ".join(DetectionRecipe.recipe_names())
    train("--recipe", metavar="FILE", help=f"JSON of settings, or one of {names}")
    train("--weights", type=Path, metavar="FILE", help="published weights to begin with")
    train("--resume", action="store_true", help="go on with the run in --out, to the same bits")
    train("--overwrite", action="store_true", help="begin anew in place of the run in --out")
    train("--ranks", type=whole(1), metavar="N", help="train data-parallel (default 1)")
    train("--communicator", metavar="NAME", help="of the ranks (default processes)")
    train("--prefetch", type=whole(0), default=2, metavar="N", help="batches made ahead (2)")
    train("--processes", type=whole(0), default=0, metavar="N", help="that make batches (a thread)")
    train("--checkpoint-every", type=whole(0), default=0, metavar="N", help="also, in steps")
    train("--validate-every", type=whole(1), default=1, metavar="N", help="in epochs (1)")
    train("--keep-best", type=whole(0), default=0, metavar="N", help="checkpoints of best AP")
    train("--tensorboard", action="store_true", help="curves in --out (needs tensorboardX)")
    train("--quiet", action="store_true", help="no progress")
