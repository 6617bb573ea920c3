"""The command `fl-vision`."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import fl_memory
import fl_tensor as ft
from fl_data import WorkerError
from fl_dist import ProgramError
from fl_nn import Interrupted
from fl_vision.cli.arguments import build_parser
from fl_vision.cli.commands import evaluate, predict
from fl_vision.cli.ranks import train_on_ranks

__all__ = ["main"]

USAGE_STATUS = 2
INTERRUPTED_STATUS = 130
_COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "train": train_on_ranks,
    "eval": evaluate,
    "predict": predict,
}
#: Commands with options of their own: modules with `main(arguments) -> exit status`.
COMMANDS = {
    "detect": "train, evaluate and apply detectors of objects",
    "prepare": "write data sets to try the other commands with",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 2 with one line on standard error. Stopped by
    SIGINT, SIGTERM or SIGHUP, it is 130, 143 or 129."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names under an ASCII locale
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        if given and given[0] in COMMANDS:
            module = import_module(f"{__name__}.{given[0]}")
            status: int = module.main(given[1:])
            return status
        arguments = build_parser(COMMANDS).parse_args(given)
        with contextlib.ExitStack() as stack:
            if arguments.memory is not None:
                stack.enter_context(fl_memory.use(arguments.memory))
            if arguments.backend is not None:
                stack.enter_context(ft.use(arguments.backend))
            _COMMANDS[arguments.command](arguments)
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


def _first_cause(error: BaseException) -> BaseException:
    """What went wrong in a worker or on a rank, without what their threads wrapped around it."""
    while isinstance(error, ProgramError | WorkerError) and error.__cause__ is not None:
        error = error.__cause__
    return error
