"""The options of `fl-vision train | eval | predict`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from fl_memory.subcommands import at_least
from fl_vision._version import __version__
from fl_vision.datasets import dataset_names
from fl_vision.errors import UsageError

#: Where the run of each data set is kept unless `--out` says where.
RUNS = Path("runs")
DTYPES = ("float32", "float64")


class Parser(argparse.ArgumentParser):
    """Reports a bad argument as an error of ours, so that all errors look alike."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def build_parser(others: Mapping[str, str] | None = None) -> Parser:
    """The parser; the chosen command is in `.command`. `others` are commands with parsers of their
    own, and what they do."""
    parser = Parser(
        prog="fl-vision",
        description="Train, evaluate and apply image classifiers.",
        epilog="; ".join(f"fl-vision {name}: {words}" for name, words in (others or {}).items()),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"fl-vision {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    train = commands.add_parser(
        "train",
        help="train a network; writes checkpoint, log, curves and predictions",
        allow_abbrev=False,
    )
    evaluate = commands.add_parser("eval", help="test accuracy of a checkpoint", allow_abbrev=False)
    predict = commands.add_parser(
        "predict", help="classify image files with a checkpoint", allow_abbrev=False
    )
    _train_options(train)
    _eval_options(evaluate)
    _predict_options(predict)
    for command in (train, evaluate, predict):
        _runtime_options(command)
    return parser


def _train_options(parser: argparse.ArgumentParser) -> None:
    """Settings of the recipe default to None: not given. The data set, or the run that is resumed,
    then says what they are."""
    _data_options(parser, "digits")
    recipe = parser.add_argument_group("recipe (defaults depend on the data set)").add_argument
    recipe("--epochs", type=at_least(1), help="passes over the training set")
    recipe("--batch-size", type=at_least(1), help="samples per step, over all ranks together")
    recipe("--lr", type=_positive, help="peak learning rate of Adam")
    recipe("--lr-decay", type=_positive, help="factor of the learning rate per epoch")
    recipe("--dropout", type=_fraction, help="probability; 0 switches it off (default 0.5)")
    recipe("--shift", type=at_least(0), help="random shifts of up to so many pixels (default 0)")
    recipe("--dtype", choices=DTYPES, help="of weights and activations (default float32)")
    recipe("--seed", type=at_least(0), help="weights, order of samples, dropout (default 0)")
    recipe("--limit", type=at_least(1), help="use only so many training samples, evenly spread")
    recipe("--compiled", action="store_true", default=None, help="run steps as graphs")
    recipe("--amp", action="store_true", default=None, help="float16 where safe, loss scaling")
    recipe("--ema", type=_fraction, help="decay of averaged weights; 0: none (default 0)")
    recipe("--clip", type=_positive, help="longest norm of the gradients (default: any)")
    recipe("--accumulate", type=at_least(1), help="batches per step (default 1)")
    recipe("--patience", type=at_least(1), help="stop after so many epochs of no better accuracy")
    recipe("--validation", type=_fraction, help="share held out for that (default 0.1 if needed)")
    run = parser.add_argument_group("run").add_argument
    run("--out", type=Path, help=f"folder to write to (default: {RUNS}/ and the data set's name)")
    kept = parser.add_mutually_exclusive_group().add_argument
    kept("--resume", action="store_true", help="go on with the run in --out, to the same bits")
    kept("--overwrite", action="store_true", help="begin anew in place of the run in --out")
    run("--ranks", type=at_least(1), metavar="N", help="train data-parallel (default 1)")
    run("--communicator", metavar="NAME", help="of the ranks (default processes)")
    run("--prefetch", type=at_least(0), default=0, help="batches made ahead by a thread")
    run("--checkpoint-every", type=at_least(0), default=0, help="steps (default: each epoch)")
    run(
        "--keep-best",
        type=at_least(0),
        default=0,
        help="checkpoints of so many epochs of best accuracy",
    )
    run("--tensorboard", action="store_true", help="curves in --out (needs tensorboardX)")
    run("--quiet", action="store_true", help="no progress")


def _eval_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="checkpoint file, or the folder of the run")
    _data_options(parser, "that of the checkpoint")
    parser.add_argument("--batch-size", type=at_least(1), default=256, help="samples per step")


def _predict_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", type=Path, help="checkpoint file, or the folder of the run")
    parser.add_argument("images", type=Path, nargs="+", help="image files")
    parser.add_argument(
        "--invert", action="store_true", help="dark strokes on light paper, trained on the reverse"
    )
    parser.add_argument("--top", type=at_least(1), default=1, help="print so many best classes")
    parser.add_argument("--out", type=Path, help="also draw the predictions into this file")
    parser.add_argument("--skip-bad", action="store_true", help="leave out unreadable files")


def _data_options(parser: argparse.ArgumentParser, dataset: str) -> None:
    add = parser.add_argument_group("data").add_argument
    names = ", ".join(dataset_names())
    add("--dataset", metavar="NAME", help=f"one of {names} (default: {dataset})")
    add("--data-dir", type=Path, help="mnist, folder: where the files are")
    add("--holdout", type=at_least(1), metavar="N", help="mnist: test on the last N samples")
    add("--image-size", type=_image_size, metavar="HxW", help="folder: resize all images")
    add("--grayscale", action="store_true", default=None, help="folder: one channel")
    add("--skip-bad", action="store_true", default=None, help="folder: leave out unreadable files")
    add("--split-seed", type=at_least(0), help="digits, folder: seed of the 80/20 split")
    add("--no-download", action="store_true", help="mnist: never use the network")


def _runtime_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("implementation").add_argument
    add("--backend", metavar="NAME", help="tensor backend; or FL_TENSOR_BACKEND, or the fastest")
    add("--memory", metavar="NAME", help="memory manager; default: FL_MEMORY_MANAGER, or caching")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not in [0, 1)")
    return value


def _image_size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})(?:x(\d{1,5}))?", text)
    if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not HEIGHTxWIDTH, like 32x32")
    return int(match[1]), int(match[2] or match[1])
