"""Tests of random numbers: equal on every backend, in any order of drawing."""

from __future__ import annotations

import numpy as np
import pytest

from fl_memory.testing.kit import hide
from fl_tensor import dtypes
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.references.philox import random_bits
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide


class RandomTests(TensorSuite, official=True):
    """Philox words; single draws are cases of ``test_operation``."""

    def bits(self, harness: Harness, seed: int, offset: int, count: int) -> np.ndarray:
        x = harness.backend.random_bits(seed, offset, (count,), harness.device)
        return harness.get(x)

    def test_known_answer(self, harness: Harness) -> None:
        """The first vector that the authors of Philox publish: counter and key zero."""
        self.need_values(harness)
        want = np.array([0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], np.uint32)
        assert self.bits(harness, 0, 0, 4).view(np.uint32).tolist() == want.tolist()

    @pytest.mark.parametrize(("offset", "count"), [(0, 2_000), (3, 70_003), (2**33 + 1, 2_001)])
    def test_long_draws_equal_short_ones(self, harness: Harness, offset: int, count: int) -> None:
        """A draw that is longer than any internal block is its parts, and its ends are right."""
        self.need_values(harness)
        cut = count // 2 - 3
        whole = self.bits(harness, 99, offset, count)
        parts = [
            self.bits(harness, 99, offset, cut),
            self.bits(harness, 99, offset + cut, count - cut),
        ]
        assert np.array_equal(whole, np.concatenate(parts))
        for at in (0, cut - 5, count - 11):
            assert np.array_equal(whole[at : at + 11], random_bits(99, offset + at, (11,)))

    @pytest.mark.parametrize("kind", ["uniform", "normal"])
    def test_moments(self, harness: Harness, kind: str) -> None:
        """Mean and variance of 4,000 numbers within 6 standard errors; uniforms in [0, 1)."""
        self.need_values(harness)
        draw = getattr(harness.backend, kind)
        x = harness.get(draw(5, 0, (4000,), dtypes.float32, harness.device)).astype(np.float64)
        mean, variance = (0.5, 1 / 12) if kind == "uniform" else (0.0, 1.0)
        assert abs(x.mean() - mean) < 6 * np.sqrt(variance / x.size)
        assert abs(x.var() - variance) < 6 * variance * np.sqrt(2 / x.size)
        if kind == "uniform":
            assert x.min() >= 0.0
            assert x.max() < 1.0
