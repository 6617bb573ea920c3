"""Rows of the capability "fft"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fl_tensor.dtypes import DType
from fl_tensor.testing.builders import listed
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import (
    EMPTY,
    LONG,
    NON_CONTIGUOUS,
    PLAIN,
    OpCase,
    Reference,
    Sample,
    Samples,
    Tolerance,
)
from fl_tensor.testing.values import Shape, numbers, relaid

#: Errors are relative to the size of the signal, not to that of an element.
TRANSFORMED = Tolerance(16, scale=32.0)
TRANSFORMABLE = ("float32", "float64", "complex64", "complex128")

#: Lengths 1 and 2, odd, even, prime, a power of two; every axis; batches, none of them.
ONE_AXIS: tuple[tuple[str, Shape, int], ...] = (
    (PLAIN, (1,), 0),
    (PLAIN, (2,), 0),
    (PLAIN, (5,), 0),
    (PLAIN, (2, 6), 1),
    (PLAIN, (4, 3), 0),
    (PLAIN, (2, 3, 2), 1),
    (EMPTY, (0, 4), 1),
    (EMPTY, (3, 0), 0),
    (LONG, (37,), 0),
    (LONG, (2, 64), 1),
    (LONG, (60, 3), 0),
)
SEVERAL_AXES: tuple[tuple[str, Shape, Shape], ...] = (
    (PLAIN, (4,), (0,)),
    (PLAIN, (3, 4), (0, 1)),
    (PLAIN, (4, 3), (1, 0)),
    (PLAIN, (2, 3, 4), (0, 2)),
    (PLAIN, (2, 3, 4), (2, 0, 1)),
    (EMPTY, (0, 4, 3), (1, 2)),
    (LONG, (13, 8), (0, 1)),
)
LAYOUTS = ("permuted", "stepped", "reversed")


def _transforms(rows: Sequence[tuple[str, Shape, Any]], longer: bool = False) -> Samples:
    """``op(x, axis)`` for rows ``(label, shape, axis)``, or several axes. ``longer``: ``op(x, n,
    axis)``, once with the even n and once with the odd n that has so many elements in its half."""

    def samples(dtype: DType, rng: np.random.Generator) -> Iterator[Sample]:
        several = isinstance(rows[0][2], tuple)
        laid = [(NON_CONTIGUOUS, (4, 3), axis) for axis in ((0, 1) if not several else ((1, 0),))]
        for label, shape, axis in (*rows, *laid):
            x = numbers(dtype, rng, shape)
            half = shape[axis[-1] if several else axis]
            sizes = [n for n in (2 * half - 2, 2 * half - 1) if n > 0]
            for extra in [(n,) for n in sizes] if longer else [()]:
                for layout in LAYOUTS if label == NON_CONTIGUOUS else ("contiguous",):
                    yield Sample(label, (relaid(x, layout), *extra, axis))

    return listed(samples)


def _axis_last(function: Any) -> Reference:
    """A NumPy transform with ``n`` before ``axis``, called without."""
    return lambda x, axis: function(x, None, axis)


def _irfftn(x: HostArray, n: int, axes: Shape) -> HostArray:
    return np.fft.irfftn(x, [*(x.shape[a] for a in axes[:-1]), n], axes)


def _row(name: str, kind: str, samples: Samples, reference: Reference, result: str) -> OpCase:
    return OpCase(
        name,
        samples,
        reference,
        kind,
        result=result,
        tolerance=TRANSFORMED,
        capability="fft",
        grad=(PLAIN, NON_CONTIGUOUS),
        only=TRANSFORMABLE,
    )


CASES = (
    _row("fft", "c", _transforms(ONE_AXIS), _axis_last(np.fft.fft), "same"),
    _row("ifft", "c", _transforms(ONE_AXIS), _axis_last(np.fft.ifft), "same"),
    _row("rfft", "f", _transforms(ONE_AXIS), _axis_last(np.fft.rfft), "complex"),
    _row("ihfft", "f", _transforms(ONE_AXIS), _axis_last(np.fft.ihfft), "complex"),
    _row("irfft", "c", _transforms(ONE_AXIS, longer=True), np.fft.irfft, "real"),
    _row("hfft", "c", _transforms(ONE_AXIS, longer=True), np.fft.hfft, "real"),
    _row("fftn", "c", _transforms(SEVERAL_AXES), _axis_last(np.fft.fftn), "same"),
    _row("ifftn", "c", _transforms(SEVERAL_AXES), _axis_last(np.fft.ifftn), "same"),
    _row("rfftn", "f", _transforms(SEVERAL_AXES), _axis_last(np.fft.rfftn), "complex"),
    _row("irfftn", "c", _transforms(SEVERAL_AXES, longer=True), _irfftn, "real"),
)
