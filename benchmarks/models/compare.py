"""One step of a model and of its twin in PyTorch: the same weights, the same batch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

import fl_nn as nn
import fl_tensor as ft
from models import Model

State = Mapping[str, ft.Tensor]
Batch = tuple[ft.Tensor, ...]

#: How far the twins may be apart.
BOUNDS = {"float64": 1e-8, "float32": 1e-3}
#: The least scale of a gradient, as a part of the largest element of all gradients.
LEAST = 1e-4


@dataclass(frozen=True)
class Step:
    """What one forward and backward gives: the loss, the gradient of every parameter, and the
    buffers after it."""

    loss: torch.Tensor
    gradients: dict[str, torch.Tensor]
    buffers: dict[str, torch.Tensor]


@dataclass(frozen=True)
class Difference:
    """Errors by name: the largest difference of two elements, divided by the largest element of the
    second step (by 1 where it has none but zero, and of gradients by at least LEAST of the largest
    of all)."""

    loss: float
    gradients: dict[str, float]
    buffers: dict[str, float]

    def worst(self) -> tuple[float, str]:
        """The largest error, and the name of what it is in."""
        every = {"loss": self.loss, **self.gradients, **self.buffers}
        return max((error, name) for name, error in every.items())

    def median(self) -> float:
        """The error that half of the gradients stay below."""
        return statistics.median(self.gradients.values())


def compare(
    model: Model, settings: Mapping[str, Any], size: int, seed: int = 0
) -> dict[str, Difference]:
    """Differences of ours from PyTorch's in one batch of `size` samples, nothing dropped out:

    float64, float32  both in that dtype
    ours, theirs      the float32 step of each from PyTorch's in float64: what rounding does

    A twin whose parameters or buffers have other names or shapes is an error of `load_state_dict`.
    """
    ft.seed(seed)
    settings = {**settings, **model.still}
    first = model.build(**settings)
    stir(first)
    weights, batch = first.state_dict(), first.batch(size)
    del first

    # One after the other: a network of 263 million parameters fills 2 GB in float64.
    exact = their_step(model.twin(**settings), weights, batch, "float64")
    found = {
        "float64": difference(our_step(model.build(**settings), weights, batch, "float64"), exact)
    }
    theirs = their_step(model.twin(**settings), weights, batch, "float32")
    ours = our_step(model.build(**settings), weights, batch, "float32")
    found["float32"] = difference(ours, theirs)
    found["ours"], found["theirs"] = difference(ours, exact), difference(theirs, exact)
    return found


def stir(model: nn.Module) -> None:
    """Move biases and scales off zero and one, where mistakes in what they multiply do not show."""
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.tensor = parameter.tensor + ft.randn(parameter.shape) * 0.1


def our_step(model: nn.Module, weights: State, batch: Batch, dtype: str) -> Step:
    """A step of `model` in `dtype`, with these float32 weights and inputs."""
    model.load_state_dict(weights)
    model.to(dtype)
    loss = model.loss(tuple(x.astype(dtype) if x.dtype.is_floating else x for x in batch))
    loss.backward()
    gradients = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            raise AssertionError(f"{name} has no gradient")
        gradients[name] = torch_of(parameter.grad)
        parameter.zero_grad()
    return Step(torch_of(loss), gradients, {n: torch_of(x) for n, x in model.named_buffers()})


def their_step(model: torch.nn.Module, weights: State, batch: Batch, dtype: str) -> Step:
    """A step of a twin in `dtype`, with these float32 weights and inputs."""
    to = getattr(torch, dtype)
    model.load_state_dict({name: torch_of(x) for name, x in weights.items()})
    model.to(to)
    loss = model.loss([x.to(to) if x.is_floating_point() else x for x in map(torch_of, batch)])
    loss.backward()
    return Step(
        loss.detach(),
        {name: parameter.grad for name, parameter in model.named_parameters()},
        {name: buffer.clone() for name, buffer in model.named_buffers()},
    )


def difference(mine: Step, theirs: Step) -> Difference:
    """The errors of `mine`, as parts of `theirs`."""
    # A gradient that is zero but for rounding, as in the first self-attention of DETR, whose values
    # are zeros, has no scale of its own.
    least = LEAST * max(x.abs().max().item() for x in theirs.gradients.values())
    x, y = mine.gradients, theirs.gradients
    return Difference(
        error(mine.loss, theirs.loss),
        {name: error(x[name], y[name], least) for name in x.keys() | y.keys()},
        {name: error(mine.buffers[name], value) for name, value in theirs.buffers.items()},
    )


def error(mine: torch.Tensor, theirs: torch.Tensor, least: float = 0.0) -> float:
    if mine.shape != theirs.shape:
        raise AssertionError(f"shapes {tuple(mine.shape)} and {tuple(theirs.shape)}")
    scale = max(theirs.abs().max().item(), least)
    return (mine - theirs).abs().max().item() / (scale or 1.0)


def torch_of(x: ft.Array) -> torch.Tensor:
    """The values of `x` as a tensor of PyTorch of its own."""
    return torch.tensor(x.numpy())
