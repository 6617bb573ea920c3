"""A variational autoencoder of images with one bright rectangle (Kingma & Welling, 2014).

The figure is the negative evidence lower bound of new images, in nats per image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 200, 32.0
SIDE, LATENT = 14, 8


class VAE(nn.Module):
    def __init__(self) -> None:
        pixels = SIDE * SIDE
        self.encoder = nn.Sequential(nn.Linear(pixels, 128), nn.ReLU(), nn.Linear(128, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, 128), nn.ReLU(), nn.Linear(128, pixels))

    def forward(self, x: Any) -> tuple[Any, Any, Any]:
        mean, log_variance = ft.split(self.encoder(x), [LATENT, LATENT], axis=-1)
        z = mean + ft.exp(0.5 * log_variance) * ft.randn(mean.shape)
        return self.decoder(z), mean, log_variance


def images(generator: ft.Generator, count: int) -> ft.Tensor:
    """Rectangles (count, SIDE * SIDE) of ones, their corners drawn uniformly."""
    corner = generator.integers(0, SIDE - 6, (4, count, 1))
    at = ft.arange(SIDE)
    rows = (at >= corner[0]) & (at < corner[0] + 3 + corner[2] // 2)
    columns = (at >= corner[1]) & (at < corner[1] + 3 + corner[3] // 2)
    both = ft.expand_dims(rows, 2) & ft.expand_dims(columns, 1)
    return ft.reshape(both, (count, -1)).astype(ft.float32)


def negative_elbo(model: VAE, x: ft.Tensor) -> Any:
    logits, mean, log_variance = model(x)
    likelihood = nn.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = 0.5 * ft.sum(ft.exp(log_variance) + mean * mean - 1.0 - log_variance)
    return (likelihood + divergence) / len(x)


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of the training, and the figure."""
    ft.seed(0)
    generator = ft.Generator(1)
    model = VAE()
    optimizer = nn.Adam(model.parameters(), lr=2e-3)

    def step() -> Any:
        optimizer.zero_grad()
        loss = negative_elbo(model, images(generator, 128))
        loss.backward()
        optimizer.step()
        return loss

    return nn.compile(step), lambda: negative_elbo(model, images(ft.Generator(2), 512)).item()
