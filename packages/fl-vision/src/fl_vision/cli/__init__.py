"""The command ``fl-vision``: one file per subcommand, imported when it is called.

Each has ``main(arguments)``, which raises errors of the library and of files: they are printed as
one line, with status 2. A training that SIGINT, SIGTERM or SIGHUP stops has status 130, 143 or 129.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from importlib import import_module

import fl_tensor as ft
from fl_data import WorkerError
from fl_dist import ProgramError
from fl_nn import Interrupted
from fl_vision._version import __version__
from fl_vision.cli.options import Parser

__all__ = ["main"]

USAGE_STATUS = 2
INTERRUPTED_STATUS = 130
COMMANDS = {
    "train": "train a classifier; writes checkpoint, log, curves and a report",
    "eval": "accuracy of a classifier, figures of each class, confusion matrix",
    "predict": "classes of image files, as text, CSV or JSON",
    "detect": "train, evaluate and apply detectors of objects",
    "prepare": "write data sets to try the other commands with",
    "augment": "a picture of what random changes make of an image",
    "info": "network, parameters and operations of a run; or a data set",
    "bench": "how fast networks compute and learn, by phases of a step",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 2 with one line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names under an ASCII locale
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        chosen = _parser().parse_args(given[:1]).command
        import_module(f"{__name__}.{chosen}").main(given[1:])
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        sys.stderr.close()
    except (ft.FlError, OSError) as error:
        reported = _first_cause(error)
        if not isinstance(reported, ft.FlError | OSError):
            raise  # a fault of the program: the traceback is what helps
        print(f"fl-vision: error: {' '.join(str(reported).split())}", file=sys.stderr)
        return USAGE_STATUS
    except Interrupted as stopped:
        with contextlib.suppress(OSError):  # the terminal is closed
            print(
                f"fl-vision: stopped after step {stopped.step}; --resume goes on", file=sys.stderr
            )
        return 128 + stopped.signal
    except KeyboardInterrupt:
        print("fl-vision: interrupted; --resume goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED_STATUS
    return 0


def _parser() -> Parser:
    width = 2 + max(map(len, COMMANDS))
    listed = "\n".join(f"  {command:<{width}}{words}" for command, words in COMMANDS.items())
    parser = Parser(
        "fl-vision", epilog=f"commands:\n{listed}\n\nfl-vision COMMAND --help says more"
    )
    parser.add_argument("--version", action="version", version=f"fl-vision {__version__}")
    parser.add_argument("command", choices=COMMANDS, metavar="command")
    return parser


def _first_cause(error: BaseException) -> BaseException:
    """What went wrong in a worker or on a rank, without what their threads wrapped around it."""
    while isinstance(error, ProgramError | WorkerError) and error.__cause__ is not None:
        error = error.__cause__
    return error
