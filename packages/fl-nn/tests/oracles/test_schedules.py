"""Learning-rate schedules in random configurations against PyTorch: the rates, and the weights that
fifty steps along them give."""

from __future__ import annotations

import pytest
from torch_twins import BOUNDS, Draw, check_runs, close, torch, torch_of

import fl_nn as nn

lr = torch.optim.lr_scheduler  # PyTorch's schedules
STEPS = 50
SCHEDULES = {}


def drawn(function):
    SCHEDULES[function.__name__] = function
    return function


def same(name, **settings):
    """The schedule of one name, for us and for PyTorch."""
    return lambda library, o: getattr(library, name)(o, **settings)


@drawn
def constant(draw):
    return same("ConstantLR", factor=draw.uniform(0.1, 1.0), total_iters=draw.randint(1, 60))


@drawn
def linear(draw):
    start, end = draw.uniform(0.05, 1.0), draw.uniform(0.0, 1.0)
    total = draw.randint(1, 60)
    return same("LinearLR", start_factor=start, end_factor=end, total_iters=total)


@drawn
def polynomial(draw):
    return same("PolynomialLR", total_iters=draw.randint(1, 60), power=draw.uniform(0.5, 3.0))


@drawn
def exponential(draw):
    return same("ExponentialLR", gamma=draw.uniform(0.8, 1.05))


@drawn
def stepwise(draw):
    return same("StepLR", step_size=draw.randint(1, 20), gamma=draw.uniform(0.3, 1.1))


@drawn
def multi_step(draw):
    milestones = sorted(draw.randint(1, 60) for _ in range(draw.randint(0, 5)))
    return same("MultiStepLR", milestones=milestones, gamma=draw.uniform(0.3, 1.1))


@drawn
def cosine(draw):
    return same("CosineAnnealingLR", T_max=draw.randint(1, 70), eta_min=draw.choice([0.0, 0.001]))


@drawn
def cosine_with_restarts(draw):
    return same(
        "CosineAnnealingWarmRestarts",
        T_0=draw.randint(1, 20),
        T_mult=draw.randint(1, 3),
        eta_min=draw.choice([0.0, 0.001]),
    )


@drawn
def a_function(draw):
    speed = draw.uniform(0.01, 1.0)
    return same("LambdaLR", lr_lambda=lambda step: 1.0 / (1.0 + speed * step))


@drawn
def one_cycle(draw):
    return same(
        "OneCycleLR",
        max_lr=draw.uniform(0.01, 0.2),
        total_steps=draw.randint(STEPS + 1, 80),
        pct_start=draw.uniform(0.1, 0.45),
        anneal_strategy=draw.choice(["cos", "linear"]),
        cycle_momentum=draw.maybe(0.7),
        base_momentum=draw.uniform(0.5, 0.8),
        max_momentum=draw.uniform(0.8, 0.95),
        div_factor=draw.uniform(2.0, 30.0),
        final_div_factor=draw.uniform(10.0, 1e4),
        three_phase=draw.maybe(),
    )


@drawn
def sequential(draw):
    names = [stepwise, linear, cosine, exponential, cosine_with_restarts, constant, polynomial]
    parts = [draw.choice(names)(draw) for _ in range(draw.randint(1, 4))]
    milestones = sorted(draw.sample(range(1, 45), len(parts) - 1))

    def make(library, o):
        return library.SequentialLR(o, [part(library, o) for part in parts], milestones)

    return make


@drawn
def plateau(draw):
    return same(
        "ReduceLROnPlateau",
        mode=draw.choice(["min", "max"]),
        factor=draw.uniform(0.1, 0.9),
        patience=draw.randint(0, 4),
        threshold=draw.choice([0.0, 1e-4, 0.1]),
        threshold_mode=draw.choice(["rel", "abs"]),
        cooldown=draw.randint(0, 3),
        min_lr=draw.choice([0.0, 0.01]),
    )


def run(name: str, draw: Draw, dtype: str) -> None:
    make = SCHEDULES[name](draw)
    values = [draw.values((3,), dtype) for _ in range(2)]
    pairs = [(nn.Parameter(x), torch_of(x).requires_grad_()) for x in values]
    rates = [draw.uniform(0.01, 0.2) for _ in pairs]
    ours, others = [
        [{"params": [p], "lr": rate} for p, rate in zip(side, rates)] for side in zip(*pairs)
    ]
    if draw.maybe():
        mine, theirs = nn.SGD(ours, momentum=0.6), torch.optim.SGD(others, momentum=0.6)
    else:
        mine, theirs = nn.Adam(ours), torch.optim.Adam(others)
    schedule, twin = make(nn, mine), make(lr, theirs)
    for number in range(STEPS + 1):
        for group, other in zip(mine.param_groups, theirs.param_groups):
            where = f"step {number}"
            assert group["lr"] == pytest.approx(other["lr"], rel=1e-9, abs=1e-12), where
            for key in {"momentum", "betas"} & group.keys():
                assert group[key] == pytest.approx(other[key], rel=1e-9), where
        if number == STEPS:
            break
        for p, p_twin in pairs:
            p.grad = draw.values(p.shape, dtype)
            p_twin.grad = torch_of(p.grad)
        mine.step()
        theirs.step()
        figure = (draw.gauss(1.0 / (1 + number), 0.1),) if name == "plateau" else ()
        schedule.step(*figure)
        twin.step(*figure)
    for number, (p, p_twin) in enumerate(pairs):
        close(p, p_twin, BOUNDS[dtype], f"parameter {number}")


@pytest.mark.filterwarnings(
    "ignore::UserWarning"
)  # of torch, on how its schedulers call one another
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", SCHEDULES)
def test_fifty_steps(name, dtype):
    check_runs(name, dtype, lambda draw: run(name, draw, dtype))
