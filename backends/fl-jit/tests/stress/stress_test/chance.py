"""What is random of a problem: sizes, dtypes, layouts."""

from __future__ import annotations

import math

import numpy as np

from fl_jit.kernels import Layout
from fl_jit.kernels.layout import Shape, dense
from fl_tensor.dtypes import DType, bfloat16, float16, float32, float64

#: Activations of epilogues.
ACTIVATIONS = ("", "relu", "gelu", "gelu_tanh")


class Draw:
    """The random numbers of one problem."""

    def __init__(self, seed: int, number: int) -> None:
        self.rng = np.random.default_rng([seed, number])

    def chance(self, part: float) -> bool:
        """True in ``part`` of all cases."""
        return bool(self.rng.random() < part)

    def one_of(self, things: tuple) -> object:
        """Any."""
        return things[self.rng.integers(len(things))]

    def size(self, most: int, zero: float = 0.0) -> int:
        """Any size, small ones more often."""
        if self.chance(zero):
            return 0
        return int(math.exp(self.rng.uniform(0, math.log(most + 0.99))))

    def dtype(self) -> DType:
        """float32 mostly."""
        found = self.rng.choice(4, p=(0.76, 0.12, 0.06, 0.06))
        return (float32, float64, float16, bfloat16)[found]

    def layout(
        self, dtype: DType, shape: Shape, favourite: Shape = (), output: bool = False
    ) -> Layout:
        """Axes in their own order, in the favourite one, or in any; with gaps or without."""
        order = tuple(range(len(shape)))
        how = self.rng.random()
        if how < 0.3 and favourite:
            order = favourite
        elif how < 0.5:
            order = tuple(int(axis) for axis in self.rng.permutation(len(shape)))
        strides = dense(shape, order)
        if self.chance(0.25):
            strides, step = [0] * len(shape), 1 + int(self.rng.integers(3) * self.chance(0.2))
            for axis in reversed(order):
                strides[axis] = step
                step = step * max(shape[axis], 1) + int(self.rng.integers(0, 9))
        if self.chance(0.04):
            strides = [s if self.chance(0.6) else -s for s in strides]
        if not output and self.chance(0.03):
            strides = [s if self.chance(0.7) else 0 for s in strides]
        return Layout(dtype, shape, tuple(int(s) for s in strides))
