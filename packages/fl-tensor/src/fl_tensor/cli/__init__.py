"""The command ``fl-tensor``: one file per subcommand, imported on demand.

Each has ``main(arguments) -> exit status``: 0 done, 1 something does not fit, 2 a wrong call.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from fl_tensor._version import __version__
from fl_tensor.errors import FlError

COMMANDS = {
    "new-backend": "write a package with a backend that passes the kit, to be made your own",
    "backends": "the installed backends: what they offer, or why they cannot be loaded",
    "info": "the size of the contract and of the code",
    "conformance": "run the conformance kit on a backend",
    "contract": "print, compare and check the pinned contract",
}


def main(arguments: list[str] | None = None) -> int:
    """Run ``fl-tensor``; the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    listed = "\n".join(f"  {name:<14}{words}" for name, words in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="fl-tensor",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"commands:\n{listed}\n\nfl-tensor COMMAND --help says more",
    )
    parser.add_argument("--version", action="version", version=f"fl-tensor {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    # Options of the command are not ours to read.
    chosen = parser.parse_args(given[:1] or ["--help"]).command
    module = import_module(f"fl_tensor.cli.{chosen.replace('-', '_')}")
    try:
        status: int = module.main(given[1:])
    except FlError as error:
        print(f"fl-tensor {chosen}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0
    return status
