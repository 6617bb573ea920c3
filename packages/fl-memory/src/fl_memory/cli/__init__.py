"""The command ``fl-memory``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library or of a file, 2 a
usage error.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from fl_memory._version import __version__
from fl_memory.errors import FlError

COMMANDS = {
    "record": "run a Python program and write the trace of its memory events",
    "summary": "what a trace holds",
    "replay": "a trace through one manager",
    "compare": "figures of several managers on traces",
    "min-capacity": "the least memory on which a trace runs",
    "plot": "pictures of a trace",
    "export": "a trace for Perfetto or Chrome's about:tracing",
    "generate": "a synthetic trace",
    "info": "the installed managers and device memories",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-memory``; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    listed = "\n".join(f"  {name:<14}{words}" for name, words in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="fl-memory",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{listed}\n\nfl-memory COMMAND --help says more",
    )
    parser.add_argument("--version", action="version", version=f"fl-memory {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    chosen = parser.parse_args(given[:1] or ["--help"]).command
    module = import_module(f"fl_memory.cli.{chosen.replace('-', '_')}")
    try:
        status: int = module.main(given[1:])
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        sys.stderr.close()
        return 0
    except (FlError, OSError) as error:
        print(f"fl-memory {chosen}: {error}", file=sys.stderr)
        return 1
    return status
