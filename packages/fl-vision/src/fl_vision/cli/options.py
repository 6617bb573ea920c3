"""Options that several commands share, and those of settings."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import fl_memory
import fl_tensor as ft
from fl_vision.datasets import dataset_names
from fl_vision.errors import UsageError
from fl_vision.settings import Rule, Settings, kind_of, rule_of


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


def settings_options(parser: argparse.ArgumentParser, kind: type[Settings]) -> None:
    """An option for each setting; None where it is not given."""
    groups: dict[str, Any] = {}
    for field in fields(kind):
        rule, type_ = rule_of(field), kind_of(field)
        if rule.group not in groups:
            groups[rule.group] = parser.add_argument_group(rule.group)
        name = "--" + field.name.replace("_", "-")
        words = f"{rule.help} ({field.default!r})".replace("%", "%%")
        if type_ is bool:
            action = argparse.BooleanOptionalAction
            groups[rule.group].add_argument(name, action=action, default=None, help=words)
        else:
            groups[rule.group].add_argument(
                name,
                type=_ruled(rule, type_),
                choices=rule.choices or None,
                metavar=None if rule.choices else {int: "N", float: "X", str: "TEXT"}[type_],
                help=words,
            )


def given_settings(given: argparse.Namespace, kind: type[Settings]) -> dict[str, Any]:
    """The settings that options gave."""
    found = {name: getattr(given, name) for name in kind.names()}
    return {name: value for name, value in found.items() if value is not None}


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


def runtime_options(parser: argparse.ArgumentParser) -> None:
    """Where tensors are computed and kept."""
    add = parser.add_argument_group("implementation").add_argument
    add("--backend", metavar="NAME", help="tensor backend; or FL_TENSOR_BACKEND, or the fastest")
    add("--memory", metavar="NAME", help="memory manager; or FL_MEMORY_MANAGER, or caching")


@contextlib.contextmanager
def runtime(given: argparse.Namespace) -> Iterator[None]:
    """Inside the block, the backend and the memory manager that options name."""
    with contextlib.ExitStack() as stack:
        if given.memory is not None:
            stack.enter_context(fl_memory.use(given.memory))
        if given.backend is not None:
            stack.enter_context(ft.use(given.backend))
        yield


def whole(least: int) -> Callable[[str], int]:
    """A type for argparse: whole numbers from `least`."""
    read: Callable[[str], int] = _ruled(Rule("", "", least), int)
    return read


def image_size(text: str) -> tuple[int, int]:
    """A type for argparse: HEIGHTxWIDTH, or one number for both."""
    match = re.fullmatch(r"(\d{1,5})(?:x(\d{1,5}))?", text)
    if match is None or int(match[1]) < 1 or int(match[2] or match[1]) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not HEIGHTxWIDTH, like 32x32")
    return int(match[1]), int(match[2] or match[1])


def _ruled(rule: Rule, kind: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = text
        problem = None if rule.choices else rule.problem(value, kind)
        if problem is not None:
            raise argparse.ArgumentTypeError(f"{text!r}: {problem}")
        return value

    return read
