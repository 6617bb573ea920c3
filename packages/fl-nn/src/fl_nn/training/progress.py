"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_WIDTH = 24
_BAR_SECONDS = 0.1
_LINE_SECONDS = 10.0


class Progress:
    """Shows how far `total` steps of work named `title` have come, on `stream` (standard error).

    On a terminal one line is redrawn, at most ten times a second. Elsewhere (a file, a pipe) a line
    is added every ten seconds, so that logs stay readable.
    """

    def __init__(self, title: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._title, self._total, self._stream = title, total, stream or sys.stderr
        self._first = done
        self._start = self._shown = time.monotonic()
        self._terminal = self._stream.isatty()
        self._drawn = 0

    def update(self, done: int, note: str = "", samples: int | None = None) -> None:
        """`done` steps are behind us; `note` is what to say about the last one. The rate is that of
        steps, or of the `samples` since the beginning."""
        now = time.monotonic()
        if now - self._shown < (_BAR_SECONDS if self._terminal else _LINE_SECONDS):
            return
        self._shown = now
        seconds, steps = max(now - self._start, 1e-9), done - self._first
        rate = (
            f"{steps / seconds:.1f}/s" if samples is None else f"{samples / seconds:.4g} samples/s"
        )
        left = (self._total - done) * seconds / steps if steps > 0 else 0.0
        text = f"{done}/{self._total}  {note}  {rate}  ETA {_clock(left)}"
        if not self._terminal:
            self._stream.write(f"{self._title}  {text}\n")
        else:
            filled = _WIDTH * done // max(self._total, 1)
            bar = "#" * filled + "." * (_WIDTH - filled)
            self._draw(f"{self._title} [{bar}] {text}")
        self._stream.flush()

    def finish(self) -> None:
        """Remove the bar."""
        if self._drawn:
            self._draw("")
            self._stream.write("\r")
            self._stream.flush()
            self._drawn = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        self.finish()

    def _draw(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._drawn))
        self._drawn = len(text)


def _clock(seconds: float) -> str:
    """1:05 for 65 seconds, 2:00:00 for two hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
