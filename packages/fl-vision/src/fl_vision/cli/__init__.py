"""The command `fl-vision`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import fl_memory
import fl_tensor as ft
from fl_vision.cli.arguments import build_parser

__all__ = ["main"]

USAGE_STATUS = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0, or 2 with one line on standard error."""
    try:
        arguments = build_parser().parse_args(argv)
        with contextlib.ExitStack() as stack:
            if arguments.memory is not None:
                stack.enter_context(fl_memory.use(arguments.memory))
            if arguments.backend is not None:
                stack.enter_context(ft.use(arguments.backend))
            _run(arguments)
    except ft.FlError as error:
        print(f"fl-vision: error: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE_STATUS
    except KeyboardInterrupt:
        print("fl-vision: stopped; continue with --resume", file=sys.stderr)
        return 130
    return 0
