"""The comparison itself: float32 is judged by PyTorch's own error, and faults are still found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from torch_twins import Case, Draw, compare, torch

import fl_nn as nn
import fl_tensor as ft


class BiasBeforeNorm(torch.nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4, eps=eps)

    def forward(self, x):
        return self.norm(self.linear(x))


class Ours(nn.Module):
    def __init__(self, eps: float) -> None:
        self.linear, self.norm = nn.Linear(3, 4), nn.BatchNorm(4, eps=eps)

    def forward(self, x):
        return self.norm(self.linear(x))


class Scaled(Ours):
    """One per mille too much, in float32 alone."""

    def forward(self, x):
        y = super().forward(x)
        return y * 1.001 if x.dtype is ft.float32 else y


class WrongBias(Ours):
    """The gradient of the first bias, which is zero, is not."""

    def forward(self, x):
        return super().forward(x) + 1e-2 * (self.linear.bias - self.linear.bias.tensor)


class WrongEps(Ours):
    def __init__(self, eps: float) -> None:
        super().__init__(2.0 * eps)


class Widened(Ours):
    def forward(self, x):
        return super().forward(x).astype("float64")


def case(mine, number, eps=0.1, mean=0.0, spread=1.0):
    x = Draw(f"{mine.__name__} {number}").values((16, 3)) * spread + mean
    return Case(mine(eps), BiasBeforeNorm(eps), (x,))


@pytest.mark.parametrize("number", range(20))
def test_digits_that_nobody_has_are_not_asked_for(number):
    """Beside a mean of 100 a spread of 0.05 has lost three digits, and the gradient of a bias in
    front of the norm all of them."""
    hard, strict = (case(Ours, number, 1e-5, 100.0, 0.05) for _ in range(2))
    compare(hard, "float32", Draw(str(number)))
    with pytest.raises(AssertionError, match="differ by"):
        compare(replace(strict, excuses=False), "float32", Draw(str(number)))


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("fault", [WrongBias, WrongEps])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_faults_are_found(fault, dtype, number):
    compare(case(Ours, number), dtype, Draw(str(number)))  # nothing else is wrong
    with pytest.raises(AssertionError, match="differ by"):
        compare(case(fault, number), dtype, Draw(str(number)))


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize(
    ("fault", "words"), [(Scaled, "result 0.*differ by"), (Widened, "float64 but torch.float32")]
)
def test_faults_of_float32_are_found(fault, words, number):
    """Also where much is excused."""
    for settings in ({}, {"eps": 1e-5, "mean": 50.0, "spread": 5.0}):
        with pytest.raises(AssertionError, match=words):
            compare(case(fault, number, **settings), "float32", Draw(str(number)))
