"""What must hold between what NumPy and ``jit`` make of a program."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: A result may be off by so many times what noise does to it.
FACTOR = 4.0
#: Where noise does so much to a result, in units of its largest element, it cannot be compared.
UNSTABLE, UNSTABLE_HALF = 1e-2, 0.3


class Verdict(NamedTuple):
    """``kind`` is "equal" (bit for bit, as they must be), "close", "unstable" (not compared) or
    "different"; ``text`` says what differs."""

    kind: str
    text: str = ""


def compare(found: Any, wanted: Any, noisy: list[Any]) -> Verdict:
    """``noisy`` are what NumPy makes of it under different noise."""
    if not isinstance(wanted, np.ndarray):  # the name of an error, or no gradient
        return Verdict("equal") if found == wanted else different(found, wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return different(f"{found.dtype}{found.shape}", f"{wanted.dtype}{wanted.shape}")
    allowed = tolerance(wanted, noisy)
    if allowed is None:
        return Verdict("unstable")
    if allowed == 0.0:
        same = same_bits(found, wanted, noisy)
        return Verdict("equal") if same.all() else difference(found, wanted, ~same, "bit for bit")
    a, b = wide(found), wide(wanted)
    with np.errstate(all="ignore"):
        off = ~((a == b) | (np.abs(a - b) <= allowed) | (np.isnan(a) & np.isnan(b)))
    if off.any():
        return difference(found, wanted, off, f"within {allowed:.3g}")
    return Verdict("close")


def is_exact(wanted: Any, noisy: list[Any]) -> bool:
    """Whether noise does nothing to a result, so that it has to be the same bit for bit."""
    return isinstance(wanted, np.ndarray) and tolerance(wanted, noisy) == 0.0


def tolerance(wanted: Any, noisy: list[Any]) -> float | None:
    """By how much a result may be off; None if that cannot be said."""
    if wanted.dtype.kind in "biu":
        return 0.0 if all(np.array_equal(n, wanted) for n in noisy) else None
    b = wide(wanted)
    finite = np.isfinite(b)
    largest = 0.0
    for each in noisy:
        n = wide(each)
        if not np.array_equal(np.isfinite(n), finite):
            return None
        if finite.any():
            with np.errstate(all="ignore"):
                largest = max(largest, float(np.max(np.abs(n - b), where=finite, initial=0.0)))
    if not largest:
        return 0.0
    scale = float(np.max(np.abs(b), where=finite, initial=0.0))
    most = UNSTABLE_HALF if wanted.dtype.itemsize == 2 else UNSTABLE
    return FACTOR * largest if largest <= most * scale else None


def same_bits(a: Any, b: Any, noisy: list[Any]) -> Any:
    """Where two arrays are equal; NaN is NaN, and 0.0 is not -0.0, unless under noise it is."""
    if a.dtype.kind in "biu":
        return a == b
    x, y = wide(a), wide(b)
    signs = np.signbit(x.real) == np.signbit(y.real)
    for each in noisy:
        signs = signs | (np.signbit(wide(each).real) != np.signbit(y.real))
    return (np.isnan(x) & np.isnan(y)) | ((x == y) & signs)


def wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def different(found: Any, wanted: Any) -> Verdict:
    return Verdict("different", f"jit: {found}\nnumpy: {wanted}")


def difference(found: Any, wanted: Any, off: Any, how: str) -> Verdict:
    places = np.argwhere(off)[:4].tolist()
    lines = [f"{off.sum()} of {off.size} elements of {wanted.dtype}{wanted.shape} differ ({how})"]
    lines += [f"  at {p}: jit {found[tuple(p)]!r}, numpy {wanted[tuple(p)]!r}" for p in places]
    return Verdict("different", "\n".join(lines))
