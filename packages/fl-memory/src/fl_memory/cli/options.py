"""Options that several subcommands share, and the progress bar."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO, TypeVar

from fl_memory.errors import FlError
from fl_memory.selection import REGISTRY
from fl_memory.traces import MAX_ROWS, AddressMemory

__all__ = ["add_managers", "add_trace", "managers_of", "progress", "size", "table"]

T = TypeVar("T")

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20}
_UNITS |= {"G": 1 << 30, "GIB": 1 << 30}
_WIDTH = 30


def size(text: str) -> int:
    """Bytes: "4096", "24MiB", "1.5GiB". ValueError otherwise."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)", text)
    if found is None or found[2].upper() not in _UNITS:
        raise ValueError(f"{text!r} is no size such as 4096, 24MiB or 1.5GiB")
    unit = _UNITS[found[2].upper()]
    return int(float(found[1]) * unit) if "." in found[1] else int(found[1]) * unit


def size_argument(text: str) -> int:
    """``size`` for argparse, which shows what is wrong."""
    try:
        return size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def manager(text: str) -> Callable[..., Any]:
    """What makes the manager ``NAME[,KEY=VALUE...]``: its class, with arguments.

    NAME is a registered name or ``module:Class``. A value is a number, a size, ``true``, ``false``,
    ``none``, or else a string.
    """
    name, *settings = text.split(",")
    arguments = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise argparse.ArgumentTypeError(f"{text!r}: expected NAME[,KEY=VALUE...]")
        arguments[key] = _value(value)
    if "" not in sys.path:  # a console script does not look in the current folder
        sys.path.insert(0, "")
    try:
        made: Callable[..., Any] = REGISTRY.load(name)
    except FlError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    try:
        made(AddressMemory(), **arguments)
    except (FlError, TypeError, ValueError) as error:  # what constructors raise for arguments
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return partial(made, **arguments) if arguments else made


def add_trace(parser: argparse.ArgumentParser, many: bool = False) -> None:
    """The traces to read, and how much of them; a replay's hints."""
    parser.add_argument("traces" if many else "trace", type=Path, nargs="+" if many else None)
    parser.add_argument(
        "--max-rows", type=int, default=MAX_ROWS, help="refuse longer traces (%(default)s)"
    )
    parser.add_argument(
        "--no-hints", action="store_true", help="leave out the reservations that programs hint at"
    )


def add_managers(parser: argparse.ArgumentParser, default: Sequence[str]) -> None:
    """``--manager NAME...``."""
    parser.add_argument(
        "--manager",
        nargs="+",
        default=list(default),
        metavar="NAME[,KEY=VALUE...]",
        help="a registered manager or module:Class, with arguments of its constructor, as in "
        "caching,split_limit=24MiB (%(default)s)",
    )


def managers_of(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> dict[str, Callable[..., Any]]:
    """The managers of ``add_managers``; ends the program at one that does not exist."""
    try:
        return {text: manager(text) for text in given.manager}
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as aligned text: the first column to the left, figures to the right."""
    lines = [list(rows[0]), *([_text(cell) for cell in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def progress(items: Iterable[T], count: int, stream: TextIO) -> Iterator[T]:
    """The items, with a bar of how many are done, where ``stream`` is a terminal."""
    shown = stream.isatty()
    for done, item in enumerate(items):
        if shown:
            full = _WIDTH * done // max(count, 1)
            stream.write(
                f"\r[{'#' * full}{' ' * (_WIDTH - full)}] {done}/{count} {item!s:.40}\x1b[K"
            )
            stream.flush()
        yield item
    if shown:
        stream.write("\r\x1b[K")
        stream.flush()


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.lower() == "none":
        return None
    if re.fullmatch(r"\d*\.\d+", text):
        return float(text)
    try:
        return size(text)
    except ValueError:
        return text


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
