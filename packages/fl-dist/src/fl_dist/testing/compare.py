"""Comparison of results with expectations."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

from fl_tensor import Tensor

# Relative to the sum of the operands' absolute values, which bounds every order of summation.
_TOLERANCE = {"float64": 1e-13, "complex128": 1e-13, "float16": 1e-2, "bfloat16": 1e-1}


def digest(x: Tensor) -> str:
    """Sixteen digits over dtype, shape and bytes."""
    state = hashlib.sha256(f"{x.dtype} {x.shape} ".encode())
    state.update(x.tobytes())
    return state.hexdigest()[:16]


def handles(values: Any) -> list[int]:
    """The identities of the Tensors in a result."""
    some = values if isinstance(values, (list, tuple)) else [values]
    return [id(x) for x in some if isinstance(x, Tensor)]


def difference(got: Any, want: Any, operands: Sequence[Tensor], exact: bool) -> str:
    """What is wrong with ``got``, in words; empty when nothing is.

    ``operands`` of all ranks give the scale for rounding where the result need not be ``exact``.
    """
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            count = len(got) if isinstance(got, list) else type(got).__name__
            return f"expected a list of {len(want)} tensors, got {count}"
        found = (difference(g, w, operands, exact) for g, w in zip(got, want))
        return next((f"result {i}: {text}" for i, text in enumerate(found) if text), "")
    if not isinstance(want, Tensor) or not isinstance(got, Tensor):
        return "" if got is None and want is None else f"expected {want!r}, got {got!r}"
    for what in ("dtype", "shape", "backend", "device"):
        a, b = getattr(got, what), getattr(want, what)
        if a != b:
            return f"{what} {_name(a)}, should be {_name(b)}"
    if digest(got) == digest(want):
        return ""
    if exact or want.dtype.kind not in "fc":
        return "wrong values" + _where(got, want)
    sizes = [abs(v) for x in operands for v in _flat(x) if math.isfinite(abs(v))]
    slack = _TOLERANCE.get(str(want.dtype), 1e-5) * max(1.0, *_scale(sizes, want))
    for a, b in zip(_flat(got), _flat(want)):
        same = a == b or (a != a and b != b)
        if not same and not abs(a - b) <= slack:
            return "wrong values" + _where(got, want)
    return ""


def _scale(sizes: list[float], want: Tensor) -> list[float]:
    results = [abs(v) for v in _flat(want) if math.isfinite(abs(v))]
    return [0.0, 8 * max(sizes, default=0.0), max(results, default=0.0)]


def _flat(x: Tensor) -> list[Any]:
    return list(x.flatten().tolist())


def _name(value: object) -> str:
    return repr(getattr(value, "name", value)) if not isinstance(value, tuple) else str(value)


def _where(got: Tensor, want: Tensor) -> str:
    for i, (a, b) in enumerate(zip(_flat(got), _flat(want))):
        if not (a == b or (a != a and b != b)):
            return f": element {i} is {a!r}, should be {b!r}"
    return ": the bits differ in the sign of a zero or in a NaN"
