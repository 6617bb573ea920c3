"""The command ``fl-jit``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library, 2 a usage error.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from fl_jit._version import __version__
from fl_tensor import FlError

COMMANDS = {
    "info": "the processor, the kernel libraries in use, and where files are kept",
    "tune": "measure the kernels of the operations that programs ran",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-jit``; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    listed = "\n".join(f"  {name:<8}{words}" for name, words in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="fl-jit",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{listed}\n\nfl-jit COMMAND --help says more",
    )
    parser.add_argument("--version", action="version", version=f"fl-jit {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    chosen = parser.parse_args(given[:1] or ["--help"]).command
    try:
        status: int = import_module(f"fl_jit.cli.{chosen}").main(given[1:])
    except FlError as error:
        print(f"fl-jit {chosen}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        sys.stderr.close()
        return 0
    return status
