"""Fifty steps of every optimizer against PyTorch or an independent formula: settings, groups and
rates are drawn at random."""

from __future__ import annotations

import pytest
import references
from torch_twins import BOUNDS, Draw, check_runs, close, torch, torch_of

import fl_nn as nn
import fl_tensor as ft

STEPS = 50
OPTIMIZERS = {}


def drawn(function):
    OPTIMIZERS[function.__name__] = function
    return function


def betas(draw: Draw) -> tuple[float, float]:
    return draw.uniform(0.5, 0.95), draw.uniform(0.8, 0.999)


def decay(draw: Draw) -> float:
    return draw.uniform(0.01, 0.2) if draw.maybe() else 0.0


@drawn
def sgd(draw):
    settings = {"momentum": draw.uniform(0.1, 0.95) if draw.maybe(0.7) else 0.0}
    settings["nesterov"] = bool(settings["momentum"]) and draw.maybe()
    settings["dampening"] = 0.0 if settings["nesterov"] else draw.choice([0.0, 0.3])
    return nn.SGD, torch.optim.SGD, settings


@drawn
def nag(draw):
    return nn.NAG, references.NAG, {"momentum": draw.uniform(0.1, 0.99)}


def adam_settings(draw):
    return {"betas": betas(draw), "eps": draw.choice([1e-8, 1e-4]), "amsgrad": draw.maybe()}


@drawn
def adam(draw):
    return nn.Adam, torch.optim.Adam, adam_settings(draw)


@drawn
def adam_decoupled(draw):
    settings = {**adam_settings(draw), "decoupled_weight_decay": draw.maybe()}
    return nn.Adam, torch.optim.Adam, settings


@drawn
def adamw(draw):
    return nn.AdamW, torch.optim.AdamW, adam_settings(draw)


@drawn
def amsgrad(draw):
    def twin(params, **settings):
        return torch.optim.Adam(params, amsgrad=True, **settings)

    return nn.AMSgrad, twin, {"betas": betas(draw)}


@drawn
def adagrad(draw):
    settings = {
        "lr_decay": draw.choice([0.0, 0.05]),
        "initial_accumulator_value": draw.choice([0.0, 0.5]),
        "eps": draw.choice([1e-10, 1e-3]),
    }
    return nn.Adagrad, torch.optim.Adagrad, settings


@drawn
def adadelta(draw):
    settings = {"rho": draw.uniform(0.5, 0.95), "eps": draw.choice([1e-6, 1e-3])}
    return nn.Adadelta, torch.optim.Adadelta, settings


@drawn
def rmsprop(draw):
    settings = {
        "alpha": draw.uniform(0.5, 0.99),
        "eps": draw.choice([1e-8, 1e-3]),
        "momentum": draw.choice([0.0, 0.5]),
        "centered": draw.maybe(),
    }
    return nn.RMSprop, torch.optim.RMSprop, settings


@drawn
def novograd(draw):
    settings = {"betas": betas(draw), "eps": 1e-8, "grad_averaging": draw.maybe()}
    return nn.Novograd, references.Novograd, settings


@drawn
def lamb(draw):
    return nn.LAMB, references.LAMB, {"betas": betas(draw), "eps": draw.choice([1e-6, 1e-3])}


@drawn
def lion(draw):
    return nn.Lion, references.Lion, {"betas": betas(draw)}


@drawn
def adafactor(draw):
    settings = {
        "beta2_decay": -draw.uniform(0.5, 1.0),
        "eps": (draw.choice([None, 1e-3]), draw.choice([1e-3, 0.1])),
        "d": draw.choice([1.0, 2.0]),
    }
    return nn.Adafactor, torch.optim.Adafactor, settings


def groups(draw: Draw, pairs):
    """The same one or two groups for both, with rates and decays of their own."""
    cut = draw.randint(0, len(pairs) - 1)
    mine, theirs = [], []
    for part in (pairs[:cut], pairs[cut:]):
        if part:
            settings = {"lr": draw.uniform(0.001, 0.05), "weight_decay": decay(draw)}
            mine.append({"params": [p for p, _ in part], **settings})
            theirs.append({"params": [p for _, p in part], **settings})
    return mine, theirs


def run(name: str, draw: Draw, dtype: str) -> None:
    make, make_twin, settings = OPTIMIZERS[name](draw)
    # In float32, a sign taken of a rounding error says nothing: Lion's gradients keep theirs.
    steady = name == "lion" and dtype == "float32"
    pairs = []
    for _ in range(draw.randint(1, 4)):
        value = draw.values(draw.sizes(draw.randint(0, 3), 1, 4), dtype)
        pairs.append((nn.Parameter(value), torch_of(value).requires_grad_()))
    pull = 0.0 if steady else draw.uniform(0.1, 1.0)
    if "weight_decay" not in settings:
        settings["weight_decay"] = decay(draw)
    mine, theirs = groups(draw, pairs)
    mine = make(mine, lr=0.01, **settings)
    theirs = make_twin(theirs, lr=0.01, **settings)
    signs = [ft.sign(draw.values(p.shape, dtype)) for p, _ in pairs]
    for _ in range(STEPS):
        mine.zero_grad()
        theirs.zero_grad()
        loss, loss_twin = nn.Parameter(ft.zeros((), dtype)), torch.zeros((), requires_grad=True)
        loss_twin = loss_twin.to(getattr(torch, dtype))
        for (p, p_twin), sign in zip(pairs, signs):
            noise = draw.values(p.shape, dtype)
            if steady:
                noise = (ft.absolute(noise) + 0.1) * sign
            if draw.maybe(0.9):  # otherwise this parameter has no gradient in this step
                loss = loss + ft.sum(p * noise) + pull * ft.sum(p * p)
                loss_twin = loss_twin + (p_twin * torch_of(noise)).sum()
                loss_twin = loss_twin + pull * p_twin.square().sum()
        if draw.maybe(0.1):
            for group, group_twin in zip(mine.param_groups, theirs.param_groups):
                group["lr"] = group_twin["lr"] = group["lr"] * draw.uniform(0.5, 1.5)
        loss.backward()
        loss_twin.backward()
        if any(p.grad is not None for p in mine.parameters):  # without any ours is refused
            mine.step()
        theirs.step()
    for number, (p, p_twin) in enumerate(pairs):
        close(p, p_twin, BOUNDS[dtype], f"parameter {number} of {mine!r}")


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fifty_steps(name, dtype):
    check_runs(name, dtype, lambda draw: run(name, draw, dtype))
