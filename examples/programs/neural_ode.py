"""A neural ordinary differential equation that learns a spiral (Chen et al., 2018).

Gradients go through the steps of the Runge-Kutta method of order 4. The figure is the root mean
squared distance from the spiral, eight steps after each of its points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 300, 0.1
POINTS, LENGTH = 100, 8
STEP = 10.0 / POINTS
Field = Callable[[Any], Any]


def after(field: Field, y: Any) -> Any:
    """One step of the classical Runge-Kutta method."""
    a = field(y)
    b = field(y + 0.5 * STEP * a)
    c = field(y + 0.5 * STEP * b)
    return y + STEP / 6.0 * (a + 2.0 * b + 2.0 * c + field(y + STEP * c))


def path(field: Field, y: Any, steps: int) -> Any:
    """States (steps, ...) after 1, 2, ... steps."""
    found = []
    for _ in range(steps):
        y = after(field, y)
        found.append(y)
    return ft.stack(found)


class Velocity(nn.Module):
    def __init__(self) -> None:
        self.layers = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, y: Any) -> Any:
        return self.layers(y * y * y)


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of the training, and the figure."""
    ft.seed(0)
    draw = ft.Generator(1)
    matrix, start = ft.asarray([[-0.1, 2.0], [-2.0, -0.1]]), ft.asarray([[2.0, 0.0]])
    truth = ft.concatenate([start, path(lambda y: y**3 @ matrix, start, POINTS)[:, 0]])
    model = Velocity()
    optimizer = nn.Adam(model.parameters(), lr=1e-2)
    schedule = nn.CosineAnnealingLR(optimizer, T_max=STEPS)

    @nn.compile
    def update() -> Any:
        first = draw.integers(0, POINTS - LENGTH, 32)
        wanted = ft.take(truth, ft.reshape(ft.arange(1, LENGTH + 1), (-1, 1)) + first, axis=0)
        optimizer.zero_grad()
        loss = ft.mean((path(model, ft.take(truth, first, axis=0), LENGTH) - wanted) ** 2)
        loss.backward()
        optimizer.step()
        return loss

    def step() -> Any:
        loss = update()
        schedule.step()
        return loss

    def figure() -> float:
        found = path(model, truth[:-LENGTH], LENGTH)[-1]
        return ft.sqrt(ft.mean((found - truth[LENGTH:]) ** 2)).item()

    return step, figure
