"""Discrete Fourier transforms, by numpy.fft (pocketfft, in the precision of the operand)."""

from __future__ import annotations

from typing import Any

import numpy as np

from fl_tensor import capability_rules as rules
from fl_tensor.backends.numpy import memory
from fl_tensor.backends.numpy.adapter import NumpyAdapter as Value
from fl_tensor.rules import Spec


def _out(spec: Spec) -> np.ndarray[Any, Any]:
    return memory.empty(spec.shape, np.dtype(spec.dtype.name))


class Fft:
    """The capability ``fft``: mixed into the backend."""

    def fft(self, x: Value, axis: int) -> Value:
        spec = rules.fft(x, axis)
        return Value(np.fft.fft(x.array, axis=axis, out=_out(spec)), spec.dtype)

    def ifft(self, x: Value, axis: int) -> Value:
        spec = rules.ifft(x, axis)
        return Value(np.fft.ifft(x.array, axis=axis, out=_out(spec)), spec.dtype)

    def rfft(self, x: Value, axis: int) -> Value:
        spec = rules.rfft(x, axis)
        return Value(np.fft.rfft(x.array, axis=axis, out=_out(spec)), spec.dtype)

    def irfft(self, x: Value, n: int, axis: int) -> Value:
        spec = rules.irfft(x, n, axis)
        return Value(np.fft.irfft(x.array, n, axis=axis, out=_out(spec)), spec.dtype)
