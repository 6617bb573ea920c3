"""Denoising diffusion with a small U-Net (Ho et al., 2020), on images of one soft disc.

The figure is the mean squared error of the noise that the averaged weights predict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 200, 0.1
SIDE, TIMES, WIDTH = 16, 100, 16
KEPT = ft.cumulative_prod(1.0 - ft.linspace(1e-3, 0.1, TIMES))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        self.first, self.second = (
            nn.Sequential(nn.GroupNorm(4, n), nn.Swish(), nn.Conv2D(n, outputs, 3, padding=1))
            for n in (inputs, outputs)
        )
        self.time, self.skip = nn.Linear(WIDTH, outputs), nn.Conv2D(inputs, outputs, 1)

    def forward(self, x: Any, time: Any) -> Any:
        shift = ft.reshape(self.time(time), (len(time), -1, 1, 1))
        return self.skip(x) + self.second(self.first(x) + shift)


class UNet(nn.Module):
    def __init__(self) -> None:
        self.time = nn.Sequential(nn.Embedding(TIMES, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Swish())
        self.enter, self.leave = nn.Conv2D(1, 16, 3, padding=1), nn.Conv2D(16, 1, 3, padding=1)
        self.down, self.middle = Block(16, 32), Block(32, 32)
        self.pool, self.up = nn.Pool2D(2, 2), nn.ConvTranspose2D(32, 16, 2, stride=2)
        self.join = Block(32, 16)

    def forward(self, x: Any, times: Any) -> Any:
        time, x = self.time(times), self.enter(x)
        low = self.middle(self.down(self.pool(x), time), time)
        return self.leave(self.join(ft.concatenate([x, self.up(low)], axis=1), time))


def discs(generator: ft.Generator, count: int) -> ft.Tensor:
    """Images (count, 1, SIDE, SIDE) between -1 and 1."""
    centre, at = generator.uniform((2, count, 1, 1, 1)) * 8.0 + 4.0, ft.arange(SIDE) * 1.0
    distance = ft.hypot(ft.reshape(at, (SIDE, 1)) - centre[0], at - centre[1])
    return ft.tanh(3.0 - distance)


def error(model: Any, generator: ft.Generator, count: int) -> Any:
    x, noise = discs(generator, count), generator.normal((count, 1, SIDE, SIDE))
    times = generator.integers(0, TIMES, count)
    kept = ft.reshape(ft.take(KEPT, times), (count, 1, 1, 1))
    return nn.mse(model(ft.sqrt(kept) * x + ft.sqrt(1.0 - kept) * noise, times), noise)


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of the training, and the figure."""
    ft.seed(0)
    generator, model = ft.Generator(1), UNet()
    optimizer, ema = nn.AdamW(model.parameters(), lr=2e-3), nn.EMA(model, decay=0.98)

    def step() -> Any:
        optimizer.zero_grad()
        loss = error(model, generator, 16)
        loss.backward()
        nn.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update()
        return loss

    def figure() -> float:
        with ema.applied(), ag.no_grad():
            return float(error(model, ft.Generator(2), 256).item())

    return nn.compile(step), figure
