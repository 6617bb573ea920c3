"""Which of several kernels for one problem is the fastest: measured once, when it has come up a few
times, remembered, printable.

Decisions are kept in memory and in a JSON file in the cache directory (FL_CACHE_DIR), one file per
library version, processor and number of threads. A file that cannot be read, or is not one of ours,
counts as empty; one that cannot be written is left alone. Under ``ft.reproducible`` nothing is
measured, and nothing remembered counts: the rule of thumb decides, so that two runs cannot differ
by a decision.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeAlias

from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_memory.forks import free_after_fork
from fl_tensor import cache_files, threads
from fl_tensor.reproducible import is_reproducible

#: Gives a time in seconds, of which differences count.
Clock: TypeAlias = Callable[[], float]

#: Work below this is not measured: 20 us at 300 GFLOP/s.
LEAST_FLOPS = 6_000_000
#: At which call of a problem it is measured: by then as much time was spent on it as that takes.
PATIENCE = 8
#: Seconds that measuring a candidate should take beyond its first two calls, and calls at most.
MOMENT = 0.02
_ROUNDS = 10
_FORMAT = 2
#: The rule of thumb stands unless another candidate is faster by more than this.
_NOISE = 1.05
#: A candidate this much slower than the best in its first call is not measured further.
_HOPELESS = 2.0


#: Whether ``fl-jit tune`` is at work.
_thorough: ContextVar[bool] = ContextVar("thorough", default=False)


@contextlib.contextmanager
def thoroughly() -> Iterator[None]:
    """Meanwhile providers measure what they leave to a rule, or to a remembered choice, while a
    program waits."""
    token = _thorough.set(True)
    try:
        yield
    finally:
        _thorough.reset(token)


def is_thorough() -> bool:
    """Whether there is time to measure whatever can be measured."""
    return _thorough.get()


class Tuners:
    """A tuner for each number of threads, made when it is first asked for; ``about`` says what else
    choices depend on."""

    def __init__(self, about: Callable[[], Mapping[str, str]]) -> None:
        self._about = about
        self._made: dict[int, Tuner] = {}

    def current(self) -> Tuner:
        """The choices for the present number of threads."""
        count = threads.get_num_threads()
        if count not in self._made:
            about = {**self._about(), "processor": processor(), "threads": str(count)}
            self._made[count] = Tuner(about, cache_files.folder())
        return self._made[count]


class Tuner:
    """Choices among kernels. ``about`` says what they depend on (library, processor, threads);
    ``folder`` is where they are kept between processes, None for nowhere; ``clock`` gives the
    seconds by which kernels are measured."""

    def __init__(
        self, about: Mapping[str, str], folder: Path | None, clock: Clock = time.perf_counter
    ) -> None:
        self._about = dict(about)
        self._clock = clock
        self._lock = free_after_fork(threading.RLock())
        self._decisions: dict[str, dict[str, Any]] = {}
        self.path: Path | None = None
        if folder is not None:
            digest = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode()).hexdigest()
            self.path = folder / f"choices-{digest[:16]}.json"
            self._decisions = self._read()

    def choose(self, key: str, makers: Mapping[str, Callable[[], Kernel]], flops: int) -> Kernel:
        """One of the kernels that ``makers`` make (the rule of thumb's first): the remembered
        choice, else the first that can be made. From call ``PATIENCE`` on that kernel is the
        fastest of those with its operands, unless there is little work (give no ``flops`` where a
        call cannot be repeated), or ``is_reproducible()``.

        Raises UnsupportedError, with the reasons, when none can be made.
        """
        with self._lock:
            by_rule = is_reproducible()
            decided = self._decisions.get(key, {}).get("choice", "")
            if decided in makers and not by_rule:
                with contextlib.suppress(UnsupportedError):
                    return makers[decided]()
            left, reasons = dict(makers), {}
            while left:
                name = next(iter(left))
                try:
                    kernel = left.pop(name)()
                except UnsupportedError as error:
                    reasons[name] = str(error)
                    continue
                if not left or by_rule or flops < LEAST_FLOPS:
                    return kernel
                return Undecided(kernel, functools.partial(self._decide, key, name, kernel, left))
            if len(set(reasons.values())) == 1 < len(reasons):
                raise UnsupportedError(next(iter(reasons.values())))
            raise UnsupportedError("; ".join(f"{name}: {why}" for name, why in reasons.items()))

    def _decide(
        self,
        key: str,
        first: str,
        kernel: Kernel,
        others: Mapping[str, Callable[[], Kernel]],
        addresses: Sequence[int],
    ) -> Kernel:
        made = {first: kernel}
        for name, make in others.items():
            with contextlib.suppress(UnsupportedError):
                made[name] = make()
        made = {n: k for n, k in made.items() if k.operands == kernel.operands}
        if len(made) == 1:
            return kernel
        with self._lock:
            seconds = measure(made, addresses, self._clock)
            choice = min(seconds, key=lambda name: seconds[name])
            if seconds[first] <= _NOISE * seconds[choice]:
                choice = first
            us = {name: round(1e6 * s, 1) for name, s in seconds.items()}
            self._remember(key, {"choice": choice, "us": us})
        return made[choice]

    def decisions(self) -> dict[str, dict[str, Any]]:
        """Problem in words -> {"choice": name, "us": {name: microseconds of a call}}."""
        with self._lock:
            return dict(self._decisions)

    def table(self) -> str:
        """The decisions as text, one a line."""
        lines = []
        for key, found in sorted(self.decisions().items()):
            times = ", ".join(f"{name} {us:g} us" for name, us in found["us"].items())
            lines.append(f"{key}: {found['choice']} ({times})")
        return "\n".join(lines)

    def _remember(self, key: str, decision: dict[str, Any]) -> None:
        self._decisions[key] = decision
        if self.path is None:
            return
        # Others may have decided meanwhile; what both decided is equally good.
        content = {
            "format": _FORMAT,
            "about": self._about,
            "decisions": {**self._read(), **self._decisions},
        }
        with contextlib.suppress(OSError):
            text = json.dumps(content, indent=1, sort_keys=True)
            cache_files.write(self.path, text.encode())

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            content = json.loads(cache_files.read(self.path) or b"{}") if self.path else {}
            known = content["format"] == _FORMAT and content["about"] == self._about
            found = content["decisions"].items() if known else ()
            return {
                str(key): {
                    "choice": str(value["choice"]),
                    "us": {str(name): float(us) for name, us in value["us"].items()},
                }
                for key, value in found
            }
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return {}


class Undecided:
    """A kernel that becomes what ``decide(addresses)`` gives at call ``PATIENCE``."""

    def __init__(self, kernel: Kernel, decide: Callable[[Sequence[int]], Kernel]) -> None:
        self.operands, self.workspace, self.about = kernel.operands, kernel.workspace, kernel.about
        self._kernel, self._decide = kernel, decide
        self._left = PATIENCE

    def __call__(self, *addresses: int) -> None:
        if self._left > 0:
            self._left -= 1
            if self._left == 0:
                self._kernel = self._decide(addresses)
                self.about = self._kernel.about
        self._kernel(*addresses)


def processor() -> str:
    """The processor's model."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def measure(
    kernels: Mapping[str, Kernel], addresses: Sequence[int], clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Seconds of ``clock`` per call of each kernel, which all compute the same from the operands at
    these addresses: the best of several rounds, in which they take turns, so that what disturbs one
    disturbs all."""

    def timed(kernel: Kernel) -> float:
        start = clock()
        kernel(*addresses)
        return clock() - start

    for kernel in kernels.values():
        kernel(*addresses)  # compiles, touches, warms up
    best = {name: timed(kernel) for name, kernel in kernels.items()}
    fastest = min(best.values())
    hopeful = {n: kernel for n, kernel in kernels.items() if best[n] < _HOPELESS * fastest}
    if len(hopeful) > 1:
        for _ in range(min(_ROUNDS, max(1, int(MOMENT / max(fastest, 1e-7))))):
            for name, kernel in hopeful.items():
                best[name] = min(best[name], timed(kernel))
    return best
