"""Clipping and averages against PyTorch, in random configurations."""

from __future__ import annotations

import math

import pytest
from torch_twins import BOUNDS, SEED, Draw, close, torch, torch_of

import fl_nn as nn


def pairs(draw: Draw, dtype: str):
    made = []
    for _ in range(draw.randint(1, 4)):
        value = draw.values(draw.sizes(draw.randint(0, 3), 1, 4), dtype)
        mine, theirs = nn.Parameter(value), torch.nn.Parameter(torch_of(value))
        if not made or draw.maybe(0.8):  # PyTorch's fails where there is no gradient at all
            mine.grad = draw.values(value.shape, dtype)
            theirs.grad = torch_of(mine.grad)
        made.append((mine, theirs))
    return made


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("number", range(20))
def test_clipping(number, dtype):
    draw = Draw(f"{SEED} clipping {number}")
    made = pairs(draw, dtype)
    mine, theirs = zip(*made)
    if draw.maybe(0.7):
        bound, kind = draw.uniform(0.1, 5.0), draw.choice([1.0, 2.0, 3.0, math.inf])
        total = nn.clip_grad_norm_(mine, bound, kind)
        twin = torch.nn.utils.clip_grad_norm_(theirs, bound, kind)
        assert total.item() == pytest.approx(twin.item(), rel=BOUNDS[dtype]), f"seed {SEED}"
    else:
        bound = draw.uniform(0.0, 2.0)
        nn.clip_grad_value_(mine, bound)
        torch.nn.utils.clip_grad_value_(theirs, bound)
    for one, twin in made:
        assert (one.grad is None) == (twin.grad is None)
        if one.grad is not None:
            close(one.grad, twin.grad, BOUNDS[dtype], f"seed {SEED}")


@pytest.mark.parametrize("dtype", BOUNDS)
def test_averages(dtype):
    draw = Draw(f"{SEED} averages {dtype}")
    decay = draw.uniform(0.5, 0.99)
    mine, theirs = nn.Linear(3, 2), torch.nn.Linear(3, 2)
    mine.to(dtype)
    theirs.to(getattr(torch, dtype))
    theirs.load_state_dict({k: torch_of(v) for k, v in mine.state_dict().items()})
    ema = nn.EMA(mine, decay)
    average = torch.optim.swa_utils.get_ema_multi_avg_fn(decay)
    twin = torch.optim.swa_utils.AveragedModel(theirs, multi_avg_fn=average)
    twin.update_parameters(theirs)  # PyTorch's averages begin with their first update
    for _ in range(50):
        for name, parameter in mine.named_parameters():
            parameter.tensor = draw.values(parameter.shape, dtype)
            theirs.get_parameter(name).data = torch_of(parameter)
        ema.update()
        twin.update_parameters(theirs)
    for name, value in ema.averages.items():
        close(value, twin.module.get_parameter(name), BOUNDS[dtype], f"{name}, seed {SEED}")
