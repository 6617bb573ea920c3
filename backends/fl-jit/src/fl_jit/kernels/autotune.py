"""Autotuner: a choice among several kernels for one descriptor, by measurement.

``fl-jit tune`` measures. Programs take the recorded choices, and the heuristic's elsewhere. No
program waits for a measurement.

Decisions are kept in memory and in a JSON file in the cache directory (FL_CACHE_DIR). There is one
file per library version, processor and number of threads. An unreadable or foreign file counts as
empty. Errors in writing one are ignored.

Under ``ft.reproducible`` recorded decisions are not used. The heuristic decides, so that two runs
cannot differ by a decision.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import json
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fl_jit.kernels.layout import Layout, Placement
from fl_jit.kernels.library import Kernel, UnsupportedError
from fl_memory import current, free_after_fork
from fl_memory.tags import SCRATCH
from fl_tensor.extend import cache_files, is_reproducible, threads

#: Returns a time in seconds; only differences are used.
Clock: TypeAlias = Callable[[], float]
#: Candidate kernels by name, created on demand; the heuristic's choice comes first.
Candidates: TypeAlias = Mapping[str, Callable[[], Kernel]]

#: Time budget of a candidate beyond its first two calls, in seconds; and the maximum of rounds.
MOMENT = 0.02
_ROUNDS = 10
_FORMAT = 2
#: Another candidate replaces the heuristic's choice only if it is faster by more than this factor.
_NOISE = 1.05
#: A candidate slower than the best by this factor in its first timed call is dropped.
_HOPELESS = 2.0


def tuner(about: Mapping[str, str]) -> Tuner:
    """The tuner of a library, for the current number of threads.

    ``about`` holds the properties of the library that decisions depend on, such as its version.
    """
    known = {**about, "processor": processor(), "threads": str(threads.get_num_threads())}
    return _tuner(tuple(known.items()), cache_files.folder())


@functools.lru_cache(maxsize=64)
def _tuner(about: tuple[tuple[str, str], ...], folder: Path | None) -> Tuner:
    return Tuner(dict(about), folder)


class Tuner:
    """Recorded choices among kernels.

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

    def choose(self, key: str, candidates: Candidates) -> Kernel:
        """The recorded choice for ``key``, else the first kernel that can be created.

        Raises UnsupportedError, with the reasons, if none can be created.
        """
        decided = "" if is_reproducible() else self._choice(key)
        names = sorted(candidates, key=lambda name: name != decided)  # stable: the choice first
        reasons = {}
        for name in names:
            try:
                return candidates[name]()
            except UnsupportedError as error:
                reasons[name] = str(error)
        if len(set(reasons.values())) == 1:
            raise UnsupportedError(next(iter(reasons.values())))
        raise UnsupportedError("; ".join(f"{name}: {why}" for name, why in reasons.items()))

    def tune(self, key: str, candidates: Candidates) -> str:
        """Measure the candidates on operands of zeros, and record the fastest.

        Returns its name. Only candidates with the operands of the first one take part. Without a
        second candidate nothing is measured, and the result is "".
        """
        made: dict[str, Kernel] = {}
        for name, make in candidates.items():
            with contextlib.suppress(UnsupportedError):
                kernel = make()
                if not made or kernel.operands == next(iter(made.values())).operands:
                    made[name] = kernel
        if len(made) < 2:
            return ""
        first = next(iter(made))
        with self._lock, _zeros(made[first].operands) as addresses:
            seconds = measure(made, addresses, self._clock)
            choice = min(seconds, key=lambda name: seconds[name])
            if seconds[first] <= _NOISE * seconds[choice]:
                choice = first
            us = {name: round(1e6 * s, 1) for name, s in seconds.items()}
            self._record(key, {"choice": choice, "us": us})
        return choice

    def _choice(self, key: str) -> str:
        with self._lock:
            return str(self._decisions.get(key, {}).get("choice", ""))

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

    def _record(self, key: str, decision: dict[str, Any]) -> None:
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


@contextlib.contextmanager
def _zeros(operands: Sequence[Placement]) -> Iterator[list[int]]:
    # The addresses of zeroed operands, from the memory manager.
    blocks, addresses = [], []
    try:
        for placement in operands:
            before, nbytes = span(placement)
            blocks.append(current().alloc(nbytes, tag=SCRATCH))
            ctypes.memset(blocks[-1].address, 0, nbytes)
            addresses.append(blocks[-1].address + before)
        yield addresses
    finally:
        for block in blocks:
            block.free()


def span(placement: Placement) -> tuple[int, int]:
    """The bytes in front of the first element, for negative strides, and those of all elements."""
    if not isinstance(placement, Layout) or placement.strides is None:
        return 0, placement.nbytes
    steps = [(n - 1) * s for n, s in zip(placement.shape, placement.strides, strict=True)]
    before, after = -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
    size = placement.dtype.itemsize
    return before * size, (before + 1 + after) * size


@functools.cache
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
