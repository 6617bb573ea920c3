"""Tests of invalid arguments of optional operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import fl_tensor as ft
from fl_memory.testing.kit import hide
from fl_tensor.errors import FlError, LinAlgError, ShapeError
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide


class Refusal(NamedTuple):
    """A call on ``t(nested lists)``, the error it must raise, and a word of its message."""

    capability: str
    act: Callable[[Callable[[Any], Any]], Any]
    error: type[FlError]
    words: str


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]
REFUSALS: dict[str, Refusal] = {
    "cholesky-indefinite": Refusal(
        "linalg", lambda t: ft.linalg.cholesky(t([[1.0, 2.0], [2.0, 1.0]])), LinAlgError, "cholesky"
    ),
    "cholesky-not-square": Refusal(
        "linalg", lambda t: ft.linalg.cholesky(t([[1.0, 2.0]])), ShapeError, "[cholesky]"
    ),
    "solve-singular": Refusal(
        "linalg", lambda t: ft.linalg.solve(t(SINGULAR), t([[1.0], [0.0]])), LinAlgError, "solve"
    ),
    "solve-one-singular": Refusal(
        "linalg",
        lambda t: ft.linalg.solve(t([[[1.0, 0.0], [0.0, 1.0]], SINGULAR]), t([1.0, 0.0])),
        LinAlgError,
        "solve",
    ),
    "solve-rows": Refusal(
        "linalg", lambda t: ft.linalg.solve(t(SINGULAR), t([[1.0]])), ShapeError, "[solve]"
    ),
    "inv-singular": Refusal("linalg", lambda t: ft.linalg.inv(t(SINGULAR)), LinAlgError, ""),
    "eigh-vector": Refusal("linalg", lambda t: ft.linalg.eigh(t([1.0])), ShapeError, "[eigh]"),
    "svd-vector": Refusal("linalg", lambda t: ft.linalg.svd(t([1.0])), ShapeError, "[svd]"),
    "rfft-nothing": Refusal("fft", lambda t: ft.fft.rfft(t([])), ShapeError, "[rfft]"),
    "irfft-of-one": Refusal("fft", lambda t: ft.fft.irfft(t([1.0])), ShapeError, "[irfft]"),
}


class RefusalTests(TensorSuite, official=True):
    """Matrices without the factorisation asked for, shapes that do not fit."""

    @pytest.mark.parametrize("mistake", sorted(REFUSALS))
    def test_refused(self, harness: Harness, mistake: str) -> None:
        """The error says what is wrong: no infinities, no error of another library."""
        capability, act, error, words = REFUSALS[mistake]
        if capability not in harness.backend.capabilities:
            pytest.skip(f"capability {capability!r} is not declared")
        if error is LinAlgError:
            self.need_values(harness)
        with pytest.raises(error) as caught:
            act(lambda values: ft.asarray(values, "float32", backend=harness.backend))
        assert words in str(caught.value)
