"""Regression by a Gaussian process in float64: Rasmussen & Williams, 2006, algorithm 2.1.

Length, scale and noise maximise the marginal likelihood. The figure is the root mean squared error
of the mean at new points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 150, 0.05
COUNT = 80


def truth(x: ft.Tensor) -> ft.Tensor:
    return ft.sin(3.0 * x) + 0.3 * x


class GaussianProcess(nn.Module):
    def __init__(self) -> None:
        self.logs = nn.Parameter(ft.asarray([0.0, 0.0, -1.0], dtype=ft.float64))

    def kernel(self, x: ft.Tensor, y: ft.Tensor) -> Any:
        distance = (ft.expand_dims(x, 1) - y) / ft.exp(self.logs[0])
        return ft.exp(2.0 * self.logs[1] - 0.5 * distance**2)

    def factor(self, x: ft.Tensor) -> Any:
        noise = ft.exp(2.0 * self.logs[2]) * ft.eye(len(x), dtype=ft.float64)
        return ft.linalg.cholesky(self.kernel(x, x) + noise)

    def forward(self, x: ft.Tensor, y: ft.Tensor) -> Any:
        """The negative logarithm of the marginal likelihood, per point."""
        factor = self.factor(x)
        white = ft.linalg.solve(factor, ft.expand_dims(y, 1))
        fit = 0.5 * ft.sum(white**2) + ft.sum(ft.log(ft.diagonal(factor)))
        return fit / len(x) + 0.5 * math.log(2.0 * math.pi)

    def mean(self, x: ft.Tensor, y: ft.Tensor, new: ft.Tensor) -> Any:
        factor = self.factor(x)
        white = ft.linalg.solve(factor, ft.expand_dims(y, 1))
        return (self.kernel(new, x) @ ft.linalg.solve(factor.T, white))[:, 0]


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of the training, and the figure."""
    draw = ft.Generator(1)
    x = draw.uniform((COUNT,)).astype(ft.float64) * 4.0 - 2.0
    y = truth(x) + 0.1 * draw.normal((COUNT,)).astype(ft.float64)
    model = GaussianProcess()
    optimizer = nn.Adam(model.parameters(), lr=0.05)

    def step() -> Any:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        return loss

    def figure() -> float:
        new = ft.linspace(-1.8, 1.8, 50, dtype=ft.float64)
        return ft.sqrt(ft.mean((model.mean(x, y, new) - truth(new)) ** 2)).item()

    return nn.compile(step), figure
