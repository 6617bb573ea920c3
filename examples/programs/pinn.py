"""A physics-informed network for the heat equation (Raissi et al., 2019).

u_t = u_xx / 10 with u(x, 0) = sin(pi x) and u = 0 at both ends. The solution is
exp(-pi^2 t / 10) sin(pi x). The figure is the largest error on a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 1000, 0.04


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of the training, and the figure."""
    ft.seed(0)
    draw = ft.Generator(1)
    model = nn.Sequential(
        *(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    )
    optimizer = nn.Adam(model.parameters(), lr=3e-3)
    schedule = nn.CosineAnnealingLR(optimizer, T_max=STEPS)

    def u(x: Any, t: Any) -> Any:
        return model(ft.concatenate([x, t], axis=1))

    def residual(count: int) -> Any:
        x, t = (ag.Variable(draw.uniform((count, 1)), requires_grad=True) for _ in range(2))
        by_x, by_t = ag.grad(ft.sum(u(x, t)), [x, t], create_graph=True)
        by_xx = ag.grad(ft.sum(by_x), x, create_graph=True)
        return by_t - 0.1 * by_xx

    @nn.compile
    def update() -> Any:
        x, t = draw.uniform((64, 1)), draw.uniform((64, 1))
        zero = ft.zeros((64, 1))
        inside = ft.mean(residual(128) ** 2)
        begin = ft.mean((u(x, zero) - ft.sin(math.pi * x)) ** 2)
        ends = ft.mean(u(zero, t) ** 2) + ft.mean(u(zero + 1.0, t) ** 2)
        optimizer.zero_grad()
        loss = inside + 10.0 * (begin + ends)
        loss.backward()
        optimizer.step()
        return loss

    def step() -> Any:
        loss = update()
        schedule.step()
        return loss

    def figure() -> float:
        line = ft.linspace(0.0, 1.0, 21)
        x, t = (ft.reshape(part, (-1, 1)) for part in ft.meshgrid(line, line))
        exact = ft.exp(-0.1 * math.pi**2 * t) * ft.sin(math.pi * x)
        with ag.no_grad():
            return ft.max(ft.absolute(u(x, t) - exact)).item()

    return step, figure
