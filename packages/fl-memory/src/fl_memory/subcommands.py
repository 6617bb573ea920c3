"""Commands of several subcommands, each a module of its own that is imported when it is called.

The commands ``fl-memory``, ``fl-tensor``, ``fl-dist`` and ``fl-text`` are made of it. A module of a
subcommand has ``main(arguments) -> exit status``: 0 success, 1 an error, 2 a usage error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from fl_memory.errors import FlError

__all__ = ["at_least", "dispatch"]


def dispatch(
    name: str,
    version: str,
    package: str,
    commands: Mapping[str, str],
    arguments: list[str] | None = None,
) -> int:
    """Run the subcommand that ``arguments`` (default: those of the process) begin with.

    name      of the command, for messages: ``"fl-memory"``
    version   of its distribution
    package   of the modules: ``"min-capacity"`` is ``PACKAGE.min_capacity``
    commands  what each subcommand does, by its name

    Returns the exit status. An FlError or OSError is printed, and is status 1. The end of a pipe,
    such as ``| head``, is success. Usage errors raise SystemExit, as argparse does.
    """
    given = sys.argv[1:] if arguments is None else arguments
    width = 2 + max(map(len, commands))
    listed = "\n".join(f"  {command:<{width}}{words}" for command, words in commands.items())
    parser = argparse.ArgumentParser(
        prog=name,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{listed}\n\n{name} COMMAND --help says more",
    )
    parser.add_argument("--version", action="version", version=f"{name} {version}")
    parser.add_argument("command", choices=commands, metavar="COMMAND")
    # Options of the subcommand are its own to read.
    chosen = parser.parse_args(given[:1] or ["--help"]).command
    module = import_module(f"{package}.{chosen.replace('-', '_')}")
    try:
        status: int = module.main(given[1:])
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        sys.stderr.close()
        return 0
    except (FlError, OSError) as error:
        print(f"{name} {chosen}: {error}", file=sys.stderr)
        return 1
    return status


def at_least(least: int) -> Callable[[str], int]:
    """A type for argparse: integers from ``least``."""

    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small, at least {least} is needed")
        return value

    return integer
