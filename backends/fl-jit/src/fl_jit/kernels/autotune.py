"""Autotuner: a choice among several kernels for one descriptor, by measurement.

A descriptor is measured once, at call ``PATIENCE``. The decision is cached and can be printed.

Decisions are kept in memory and in a JSON file in the cache directory (FL_CACHE_DIR). There is one
file per library version, processor and number of threads. An unreadable or foreign file counts as
empty. Errors in writing one are ignored.

Under ``ft.reproducible`` nothing is measured, and cached decisions are not used. The heuristic
decides, so that two runs cannot differ by a decision.
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
from fl_memory import free_after_fork
from fl_tensor.extend import cache_files, is_reproducible, threads

#: Returns a time in seconds; only differences are used.
Clock: TypeAlias = Callable[[], float]

#: Fewer floating-point operations are not measured: 20 us at 300 GFLOP/s.
LEAST_FLOPS = 6_000_000
#: The call at which a descriptor is measured. The calls before took about as long as measuring.
PATIENCE = 8
#: Time budget of a candidate beyond its first two calls, in seconds; and the maximum of rounds.
MOMENT = 0.02
_ROUNDS = 10
_FORMAT = 2
#: Another candidate replaces the heuristic's choice only if it is faster by more than this factor.
_NOISE = 1.05
#: A candidate slower than the best by this factor in its first timed call is dropped.
_HOPELESS = 2.0


#: Whether ``fl-jit tune`` is running.
_thorough: ContextVar[bool] = ContextVar("thorough", default=False)


@contextlib.contextmanager
def thoroughly() -> Iterator[None]:
    """Context manager: kernel libraries measure everything that can be measured.

    This includes choices that they otherwise leave to a heuristic or to a cached decision.
    """
    token = _thorough.set(True)
    try:
        yield
    finally:
        _thorough.reset(token)


def is_thorough() -> bool:
    """Whether kernel libraries should measure everything that can be measured."""
    return _thorough.get()


class Tuners:
    """One tuner per number of threads, created on first use.

    ``about`` returns the other properties that decisions depend on.
    """

    def __init__(self, about: Callable[[], Mapping[str, str]]) -> None:
        self._about = about
        self._made: dict[int, Tuner] = {}

    def current(self) -> Tuner:
        """The tuner for the current number of threads."""
        count = threads.get_num_threads()
        if count not in self._made:
            about = {**self._about(), "processor": processor(), "threads": str(count)}
            self._made[count] = Tuner(about, cache_files.folder())
        return self._made[count]


class Tuner:
    """Cached choices among kernels.

    about    properties that decisions depend on (library, processor, threads)
    folder   directory of the decision file; None: decisions are not saved
    clock    timer for the measurements, in seconds
    """

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
        """One of the kernels that ``makers`` create; the heuristic's choice comes first.

        This is the cached decision, else the first kernel that can be created. Without a cached
        decision, call ``PATIENCE`` replaces the kernel by the fastest of those with the same
        operands. It is not replaced below ``LEAST_FLOPS`` operations or if ``is_reproducible()``.
        Pass ``flops=0`` where a call cannot be repeated.

        Raises UnsupportedError, with the reasons, if none can be created.
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
        """Descriptor as text -> {"choice": name, "us": {name: microseconds per call}}."""
        with self._lock:
            return dict(self._decisions)

    def table(self) -> str:
        """The decisions as text, one per line."""
        lines = []
        for key, found in sorted(self.decisions().items()):
            times = ", ".join(f"{name} {us:g} us" for name, us in found["us"].items())
            lines.append(f"{key}: {found['choice']} ({times})")
        return "\n".join(lines)

    def _remember(self, key: str, decision: dict[str, Any]) -> None:
        self._decisions[key] = decision
        if self.path is None:
            return
        # Another process may have written decisions meanwhile. Conflicting ones are equally good.
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
    """A kernel that is replaced by the result of ``decide(addresses)`` at call ``PATIENCE``."""

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
    """The model name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def measure(
    kernels: Mapping[str, Kernel], addresses: Sequence[int], clock: Clock = time.perf_counter
) -> dict[str, float]:
    """Time per call of each kernel, in seconds of ``clock``.

    All kernels compute the same from the operands at these addresses. The result is the minimum
    over several rounds. The rounds are interleaved, so that a disturbance affects all kernels
    alike.
    """

    def timed(kernel: Kernel) -> float:
        start = clock()
        kernel(*addresses)
        return clock() - start

    for kernel in kernels.values():
        kernel(*addresses)  # warm-up: compiles, and touches memory
    best = {name: timed(kernel) for name, kernel in kernels.items()}
    fastest = min(best.values())
    hopeful = {n: kernel for n, kernel in kernels.items() if best[n] < _HOPELESS * fastest}
    if len(hopeful) > 1:
        for _ in range(min(_ROUNDS, max(1, int(MOMENT / max(fastest, 1e-7))))):
            for name, kernel in hopeful.items():
                best[name] = min(best[name], timed(kernel))
    return best
