"""``PeakMemory``: fail where a piece of a program needs more memory than it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fl_memory.events import Event
from fl_memory.selection import current

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PeakMemory"]


class PeakMemory:
    """``with PeakMemory(at_most=1 << 20) as peak:`` AssertionError if more bytes are live at once.

    Counted are requested bytes of blocks that the current manager makes within the block, on one
    device. ``peak.nbytes`` is the highest count so far. Results below ``small_bytes`` may come from
    elsewhere; they count if the manager has ``small_bytes=0``.
    """

    def __init__(self, at_most: int | None = None, *, device: str = "cpu") -> None:
        self.at_most = at_most
        self.device = device
        self.nbytes = 0
        self._live: dict[int, Event] = {}
        self._sum = 0
        self._at_peak: dict[str, int] = {}

    def __enter__(self) -> PeakMemory:
        self._stop = current().on_event(self._observe)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()
        if error is None and self.at_most is not None and self.nbytes > self.at_most:
            most = sorted(self._at_peak.items(), key=lambda entry: -entry[1])[:3]
            held = ", ".join(f"{tag} {nbytes} bytes" for tag, nbytes in most)
            raise AssertionError(
                f"{self.nbytes} bytes were live on {self.device} at the peak, {self.at_most} are "
                f"allowed; most was held as {held}"
            )

    def _observe(self, event: Event) -> None:
        if event.device != self.device:
            return
        if event.kind == "alloc":
            self._live[event.number] = event
            self._sum += event.nbytes
            if self._sum > self.nbytes:
                self.nbytes = self._sum
                if self.at_most is not None and self._sum > self.at_most:
                    self._at_peak = {}
                    for live in self._live.values():
                        held = self._at_peak.get(str(live.tag), 0)
                        self._at_peak[str(live.tag)] = held + live.nbytes
        elif event.kind == "free" and event.number in self._live:
            self._sum -= self._live.pop(event.number).nbytes
