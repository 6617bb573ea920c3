"""A Wasserstein GAN with gradient penalty on a ring of eight Gaussians (Gulrajani et al., 2017).

The figure is the mean distance of generated points from the nearest centre. It is infinite while
a centre has no point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 1000, 0.4
BATCH, LATENT, CRITIC_STEPS, PENALTY = 128, 4, 3, 1.0
ANGLES = ft.arange(8) * (2.0 * math.pi / 8)
CENTRES = ft.stack([ft.cos(ANGLES), ft.sin(ANGLES)], axis=1) * 2.0


def network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))
    )


def real(generator: ft.Generator, count: int) -> ft.Tensor:
    centres = ft.take(CENTRES, generator.integers(0, 8, count), axis=0)
    return centres + 0.05 * generator.normal((count, 2))


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of both networks, and the figure."""
    ft.seed(0)
    draw = ft.Generator(1)
    critic, generator = network(2, 1), network(LATENT, 2)
    critic_adam = nn.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    generator_adam = nn.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def critic_loss() -> Any:
        x = real(draw, BATCH)
        with ag.no_grad():
            fake = generator(draw.normal((BATCH, LATENT))).tensor
        share = draw.uniform((BATCH, 1))
        between = ag.Variable(share * x + (1.0 - share) * fake, requires_grad=True)
        slope = ag.grad(ft.sum(critic(between)), between, create_graph=True)
        excess = ft.sqrt(ft.sum(slope * slope, axis=1) + 1e-12) - 1.0
        difference = ft.mean(critic(fake)) - ft.mean(critic(x))
        return difference + PENALTY * ft.mean(excess * excess)

    def update(optimizer: nn.Optimizer, loss: Any) -> Any:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def step() -> Any:
        for _ in range(CRITIC_STEPS):
            update(critic_adam, critic_loss())
        return update(generator_adam, -ft.mean(critic(generator(draw.normal((BATCH, LATENT))))))

    def figure() -> float:
        with ag.no_grad():
            points = generator(ft.Generator(2).normal((1024, LATENT))).tensor
        distance = ft.norm(ft.expand_dims(points, 1) - CENTRES, axis=-1)
        found = len(set(ft.argmin(distance, axis=1).tolist()))
        return ft.mean(ft.min(distance, axis=1)).item() if found == 8 else math.inf

    return nn.compile(step), figure
