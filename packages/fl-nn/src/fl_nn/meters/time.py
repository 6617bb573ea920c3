"""TimeMeter: a stopwatch."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from fl_nn.errors import ModuleError
from fl_nn.meters.exact_sum import ExactSum
from fl_nn.meters.meter import Meter


class TimeMeter(Meter):
    """Seconds between `resume` and `stop`, added up; with `unit`, seconds per unit of work, NaN
    before the first unit. It stands still at first.

        watch = nn.TimeMeter(unit=True)
        for batch in batches:
            watch.resume()
            train(batch)
            watch.stop_and_add_units(len(batch))
        print(watch.value)                      # seconds per sample

    Meters that merge add their seconds and their units, exactly and in any order. Merged over
    ranks that work side by side these are the seconds of all of them: seconds per unit stay what
    a unit costs one rank, and `seconds / communicator.world_size` is the mean of the ranks.

    clock   gives seconds since some moment
    """

    def __init__(self, unit: bool = False, *, clock: Callable[[], float] = time.perf_counter):
        self.unit = unit
        self._clock = clock
        super().__init__()

    def reset(self) -> None:
        self._seconds = ExactSum()
        self._units = 0
        self._since: float | None = None

    def add(self, seconds: float, units: int = 0) -> None:
        """Add time that was taken elsewhere, and units."""
        if not (math.isfinite(seconds) and seconds >= 0.0):
            raise ModuleError(f"[TimeMeter] {seconds} seconds: give a finite number >= 0")
        self.add_units(units)
        self._seconds.add(float(seconds))

    def set(self, seconds: float, units: int = 1) -> None:
        """Forget what was, and stand still at these."""
        fresh = self.fresh()
        fresh.add(seconds, units)  # nothing is forgotten when this fails
        self.load_state(fresh.state())

    def resume(self) -> None:
        """Let it run, or run on."""
        if self._since is None:
            self._since = self._clock()

    def stop(self) -> None:
        """Let it stand still."""
        if self._since is not None:
            self._seconds.add(max(self._clock() - self._since, 0.0))
            self._since = None

    def add_units(self, units: int = 1) -> None:
        """Count work that is done."""
        if units < 0:
            raise ModuleError(f"[TimeMeter] {units} units: give at least 0")
        self._units += int(units)

    def stop_and_add_units(self, units: int = 1) -> None:
        """`stop` and `add_units`."""
        self.stop()
        self.add_units(units)

    @property
    def running(self) -> bool:
        return self._since is not None

    @property
    def seconds(self) -> float:
        """Up to now."""
        now = 0.0 if self._since is None else max(self._clock() - self._since, 0.0)
        return float(self._seconds) + now

    @property
    def units(self) -> int:
        return self._units

    @property
    def value(self) -> float:
        if not self.unit:
            return self.seconds
        return self.seconds / self._units if self._units else math.nan

    def state(self) -> dict[str, Any]:
        """A running meter's time up to now is in it; the meter that loads it stands still."""
        whole = ExactSum(self._seconds.parts)
        if self._since is not None:
            whole.add(max(self._clock() - self._since, 0.0))
        return {"seconds": whole.parts, "units": self._units}

    def merge(self, state: Mapping[str, Any]) -> None:
        self._seconds.update(state["seconds"])
        self._units += int(state["units"])
