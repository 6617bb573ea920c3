"""Where progress is shown: a line that is redrawn, lines from time to time, a bar in a notebook."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from html import escape
from importlib import import_module
from typing import Any, Protocol, TextIO

__all__ = ["NotebookDisplay", "ProgressDisplay", "StreamDisplay", "TerminalDisplay", "display_for"]

#: The longest bar on a terminal and the shortest that says something, in characters.
_LONGEST, _SHORTEST = 24, 4
#: Columns of a terminal that does not say how many it has.
_COLUMNS = 120


class ProgressDisplay(Protocol):
    """Shows how far some work has come."""

    #: Seconds between two calls of `show`, at least.
    interval: float

    def show(self, title: str, done: int, total: int, notes: Sequence[str]) -> None:
        """`done` of `total` steps are behind us; the notes say more."""

    def clear(self) -> None:
        """The work is over."""


class StreamDisplay:
    """Adds a line every ten seconds, so that logs stay readable."""

    interval = 10.0

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, title: str, done: int, total: int, notes: Sequence[str]) -> None:
        self._stream.write("  ".join([title, f"{done}/{total}", *notes]) + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Lines stay."""


class TerminalDisplay:
    """Redraws one line, which fits the terminal: the bar shrinks first, then notes go."""

    interval = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0

    def show(self, title: str, done: int, total: int, notes: Sequence[str]) -> None:
        room = _columns(self._stream) - 1  # in the last column some terminals begin a line
        text, most = f"{done}/{total}", room - len(title) - 1
        whole = "  ".join([text, *notes])
        for note in notes:
            if len(text) + 2 + len(note) <= most:
                text += f"  {note}"
        width = min(_LONGEST, most - len(whole) - 3)
        if width >= _SHORTEST:
            filled = width * done // max(total, 1)
            text = f"[{'#' * filled}{'.' * (width - filled)}] {text}"
        self._draw(f"{title} {text}"[: max(room, 0)])

    def clear(self) -> None:
        if self._drawn:
            self._draw("")
            self._stream.write("\r")
            self._stream.flush()
            self._drawn = 0

    def _draw(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(text)


class NotebookDisplay:
    """One output of the cell in Jupyter, which is replaced."""

    interval = 0.25

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, title: str, done: int, total: int, notes: Sequence[str]) -> None:
        words = "  ".join([title, f"{done}/{total}", *notes])
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress> {escape(words)}'
        self._put({"text/html": bar, "text/plain": words})

    def clear(self) -> None:
        if self._handle is not None:
            self._put({"text/html": "", "text/plain": ""})

    def _put(self, bundle: dict[str, str]) -> None:
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def display_for(stream: TextIO) -> ProgressDisplay:
    """How progress is shown on `stream`: what a program prints in a Jupyter kernel goes to the
    notebook; a terminal is redrawn; everything else, a file or a pipe, gets lines."""
    if stream in (sys.stdout, sys.stderr) and _in_notebook():
        return NotebookDisplay()
    return TerminalDisplay(stream) if stream.isatty() else StreamDisplay(stream)


def _in_notebook() -> bool:
    # A program in a kernel has IPython loaded; in a terminal its shell has no kernel.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError):  # not a terminal of the system
        return shutil.get_terminal_size((_COLUMNS, 24)).columns
