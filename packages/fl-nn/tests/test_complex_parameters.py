"""Complex parameters: what is linear in them trains them, other optimizers say that they do not."""

from __future__ import annotations

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.testing import needs

pytestmark = [needs("complex64", "complex", "fft"), pytest.mark.defect("N20")]


class SpectralFilter(nn.Module):
    """Multiplies the spectrum of real signals (..., n) by a complex weight for each frequency."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(ft.ones((n // 2 + 1,), dtype="complex64"))

    def forward(self, x):
        return ft.fft.irfft(ft.fft.rfft(x) * self.weight, x.shape[-1])


def signals(n: int):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((8, n)).astype("float32")
    return ft.asarray(x), ft.asarray(np.roll(x, 2, -1))


@pytest.mark.parametrize(
    "make",
    [
        lambda params: nn.SGD(params, lr=0.1, momentum=0.5),
        lambda params: nn.NAG(params, lr=0.02, momentum=0.8),
    ],
)
def test_a_filter_learns_to_delay(make):
    x, target = signals(16)
    model = SpectralFilter(16)
    optimizer = make(model.parameters())
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = ((model(x) - target) ** 2).sum() * 0.02
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 100.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 1e-2 * losses[0]
    turn = np.exp(-2j * np.pi * np.arange(9) * 2 / 16)  # a delay by two samples
    assert np.allclose(model.weight.numpy()[1:-1], turn[1:-1], atol=0.05)


@pytest.mark.parametrize("optimizer", [nn.Adam, nn.RMSprop, nn.Adagrad])
def test_other_optimizers_refuse_complex_parameters(optimizer):
    with pytest.raises(nn.ModuleError, match=r"a parameter \(9,\) is complex64.*SGD or NAG"):
        optimizer(SpectralFilter(16).parameters(), lr=0.1)
