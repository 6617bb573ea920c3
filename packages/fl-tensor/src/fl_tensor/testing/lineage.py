"""Dependencies between failures: a wrong ``add`` fails in everything composed of it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from fl_tensor.contract import DERIVED
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.testing.cases import CASES
from fl_tensor.testing.harness import Harness

_COMPOSED = frozenset(op.name for op in DERIVED)


class _Recorder:
    """Passes on every operation that a composition asks for, and notes its name."""

    def __init__(self, ops: Any) -> None:
        self.ops = ops
        self.names: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.names.add(name)
        return getattr(self.ops, name)


@functools.cache
def pieces(name: str) -> frozenset[str]:
    """The operations that the composition of a derived one calls itself, in its plain samples."""
    from fl_tensor.dispatch.registry import get_backend

    harness, case = Harness(get_backend("numpy")), CASES[name]
    dtype = next(d for d in sorted(harness.backend.dtypes, key=str) if case.accepts(d))
    recorder = _Recorder(harness.backend)
    for sample in case.draw(dtype, "plain"):
        placed = harness.placed(sample)
        getattr(DerivedOps, name)(recorder, *placed.args, **placed.kwargs)
    return frozenset(recorder.names & CASES.keys())


def ancestors(name: str, own: Collection[str] = ()) -> set[str]:
    """All operations below a derived one; those in ``own`` are no compositions here."""
    found: set[str] = set()
    todo = [name]
    while todo:
        for piece in pieces(todo.pop()) - found:
            found.add(piece)
            if piece in _COMPOSED and piece not in own:
                todo.append(piece)
    return found


def advice(failed: Iterable[str], own: Collection[str]) -> str:
    """Where to begin, or "": of the failed cases of ``test_operation`` ("add-float32-plain"), those
    of compositions of something that fails itself. ``own``: what the backend overrides."""
    counts = Counter(case.partition("-")[0] for case in failed)
    composed = {name for name in counts if name in _COMPOSED and name not in own}
    roots: Counter[str] = Counter()
    following = 0
    for name in composed:
        below = ancestors(name, own) & (counts.keys() - composed)
        roots.update(dict.fromkeys(below, counts[name]))
        following += counts[name] if below else 0
    if not following:
        return ""
    first = ", ".join(name for name, _ in roots.most_common())
    return (
        f"{following} of {counts.total()} failures of test_operation are in compositions of what "
        f"fails itself; begin with: {first}"
    )
