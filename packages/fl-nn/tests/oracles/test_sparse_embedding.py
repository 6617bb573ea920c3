"""Fifty steps on tables with gradients of rows against torch.nn.Embedding(sparse=True): settings,
sizes, padding rows and indices are drawn at random."""

from __future__ import annotations

import pytest
from torch_twins import BOUNDS, Draw, check_runs, close, torch, torch_of

import fl_nn as nn
import fl_tensor as ft
from fl_autograd import SparseGradient

pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")

STEPS = 50


def sgd(draw):
    momentum = draw.choice([0.0, 0.0, 0.9])
    settings = {
        "momentum": momentum,
        "nesterov": bool(momentum) and draw.maybe(),
    }
    if momentum and not settings["nesterov"]:
        settings["dampening"] = draw.choice([0.0, 0.3])
    return nn.SGD, torch.optim.SGD, settings


def adagrad(draw):
    settings = {
        "lr_decay": draw.choice([0.0, 0.05]),
        "initial_accumulator_value": draw.choice([0.0, 0.5]),
        "eps": draw.choice([1e-10, 1e-3]),
    }
    return nn.Adagrad, torch.optim.Adagrad, settings


def sparse_adam(draw):
    betas = draw.uniform(0.5, 0.95), draw.uniform(0.8, 0.999)
    settings = {"betas": betas, "eps": draw.choice([1e-8, 1e-3])}
    return nn.SparseAdam, torch.optim.SparseAdam, settings


def run(draw_settings, draw: Draw, dtype: str) -> None:
    make, make_twin, settings = draw_settings(draw)
    count, size = draw.randint(2, 12), draw.size()
    padding = draw.randint(0, count - 1) if draw.maybe(0.3) else None
    mine = nn.Embedding(count, size, padding, sparse=True, dtype=ft.dtype(dtype))
    theirs = torch.nn.Embedding(count, size, padding, sparse=True)
    theirs.weight = torch.nn.Parameter(torch_of(mine.weight.tensor).clone())
    lr = draw.uniform(0.001, 0.1)
    optimizer = make(mine.parameters(), lr=lr, **settings)
    twin = make_twin(theirs.parameters(), lr=lr, **settings)
    for _ in range(STEPS):
        optimizer.zero_grad()
        twin.zero_grad()
        for _ in range(draw.choice([1, 1, 2])):  # lookups, which add up
            indices = draw.integers(0, count, draw.sizes(draw.randint(1, 2), 1, 4))
            noise = draw.values((*indices.shape, size), dtype)
            x, x_twin = mine(indices), theirs(torch_of(indices))
            (ft.sum(x * noise) + 0.3 * ft.sum(x * x)).backward()
            ((x_twin * torch_of(noise)).sum() + 0.3 * x_twin.square().sum()).backward()
        assert isinstance(mine.weight.grad, SparseGradient) and theirs.weight.grad.is_sparse
        dense = theirs.weight.grad.to_dense()
        close(mine.weight.grad.to_dense(), dense, BOUNDS[dtype], "the gradient")
        optimizer.step()
        twin.step()
    close(mine.weight, theirs.weight, BOUNDS[dtype], f"the table of {optimizer!r}")


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("draw_settings", [sgd, adagrad, sparse_adam])
def test_fifty_steps_from_rows(draw_settings, dtype):
    name = f"rows {draw_settings.__name__}"
    check_runs(name, dtype, lambda draw: run(draw_settings, draw, dtype))
