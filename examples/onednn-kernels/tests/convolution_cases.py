"""A convolution by its numbers, for the tests of everybody who computes one."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A convolution: ``size`` is that of the images."""

    batch: int
    channels: int
    features: int
    size: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = (1, 1)
    padding: tuple[tuple[int, int], ...] = ((0, 0), (0, 0))
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1

    @property
    def out(self):
        parts = zip(self.size, self.kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple((n + sum(p) - (k - 1) * d - 1) // s + 1 for n, k, s, p, d in parts)

    @property
    def options(self):
        return self.stride, self.padding, self.dilation, self.groups

    @property
    def shapes(self):
        """Of images, weights and the result."""
        return (
            (self.batch, self.channels, *self.size),
            (self.features, self.channels // self.groups, *self.kernel),
            (self.batch, self.features, *self.out),
        )
