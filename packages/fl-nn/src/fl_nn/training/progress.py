"""Progress of long work: a bar on a terminal and in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from fl_nn.training.progress_display import display_for


class Progress:
    """Shows how far `total` steps of work named `title` have come, on `stream` (standard error).

    On a terminal one line is redrawn, at most ten times a second. In Jupyter one output of the cell
    is replaced. Elsewhere (a file, a pipe) a line is added every ten seconds.
    """

    def __init__(self, title: str, total: int, done: int = 0, stream: TextIO | None = None) -> None:
        self._display = display_for(stream or sys.stderr)
        self.restart(title, total, done)

    def restart(self, title: str, total: int, done: int = 0) -> None:
        """Go on to another work, at the same place."""
        self._title, self._total, self._first = title, total, done
        self._start = self._shown = time.monotonic()

    def update(self, done: int, note: str = "", samples: int | None = None) -> None:
        """`done` steps are behind us; `note` is what to say about the last one. The rate is that of
        steps, or of the `samples` since the beginning."""
        now = time.monotonic()
        if now - self._shown < self._display.interval:
            return
        self._shown = now
        seconds, steps = max(now - self._start, 1e-9), done - self._first
        rate = (
            f"{steps / seconds:.1f}/s" if samples is None else f"{samples / seconds:.4g} samples/s"
        )
        left = (self._total - done) * seconds / steps if steps > 0 else 0.0
        self._display.show(self._title, done, self._total, [note, rate, f"ETA {_clock(left)}"])

    def finish(self) -> None:
        """Remove the bar."""
        self._display.clear()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *raised: object) -> None:
        self.finish()


def _clock(seconds: float) -> str:
    """1:05 for 65 seconds, 2:00:00 for two hours."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
