"""The command ``fl-dist``: one file per subcommand, imported when it is called.

Each has ``main(arguments) -> exit status``: 0 success, 1 an error of the library, 2 a usage error;
``run`` returns the status of the rank that failed first.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from fl_dist._version import __version__
from fl_memory.errors import FlError

COMMANDS = {
    "run": "start a script on N ranks, watch them, restart them",
    "bench": "latency and bandwidth of the collectives of a communicator",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-dist``; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    listed = "\n".join(f"  {name:<8}{words}" for name, words in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="fl-dist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{listed}\n\nfl-dist COMMAND --help says more",
    )
    parser.add_argument("--version", action="version", version=f"fl-dist {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    chosen = parser.parse_args(given[:1] or ["--help"]).command
    module = import_module(f"fl_dist.cli.{chosen}")
    try:
        status: int = module.main(given[1:])
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        sys.stderr.close()
        return 0
    except (FlError, OSError) as error:
        print(f"fl-dist {chosen}: {error}", file=sys.stderr)
        return 1
    return status
