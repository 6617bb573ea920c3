"""Options that several commands share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fl_nn.extend import SettingRule, ruled_argument
from fl_vision.datasets import dataset_names
from fl_vision.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Reports a bad argument as an error of ours, so that all errors look alike."""

    def __init__(self, prog: str, description: str = "", epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter
            if epilog
            else argparse.HelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def data_options(parser: argparse.ArgumentParser, dataset: str) -> None:
    """Which images; `dataset` says in words what is taken without them."""
    add = parser.add_argument_group("data").add_argument
    names = ", ".join(dataset_names())
    add("--dataset", metavar="NAME", help=f"one of {names} (default: {dataset})")
    add("--data-dir", type=Path, metavar="FOLDER", help="where the files are")
    add("--holdout", type=whole(1), metavar="N", help="mnist: test on the last N samples")
    add(
        "--image-size",
        type=image_size,
        metavar="HxW",
        help="folder, imagenet, blobs: of all images",
    )
    add("--grayscale", action="store_true", default=None, help="folder, blobs: one channel")
    add("--skip-bad", action="store_true", default=None, help="folder: leave out unreadable files")
    add("--split-seed", type=whole(0), metavar="N", help="digits, folder: seed of the 80/20 split")
    add("--no-download", action="store_true", help="never use the network")
    add("--cache", type=Path, metavar="FOLDER", help="folder, imagenet: keep decoded images there")


def whole(least: int) -> Callable[[str], int]:
    """A type for argparse: whole numbers from `least`."""
    read: Callable[[str], int] = ruled_argument(SettingRule("", "", least), int)
    return read


def image_size(text: str) -> tuple[int, int]:
    """A type for argparse: HEIGHTxWIDTH, or one number for both."""
    match = re.fullmatch(r"(\d{1,5})(?:x(\d{1,5}))?", text)
    if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not HEIGHTxWIDTH, like 32x32")
    return int(match[1]), int(match[2] or match[1])
