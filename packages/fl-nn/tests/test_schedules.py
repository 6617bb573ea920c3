"""Learning-rate schedules: their curves, their composition, and their state."""

from __future__ import annotations

import json
import math

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, Parameter, StateDictError


def optimizer(*rates, make=nn.SGD, **settings):
    return make(
        [{"params": [Parameter(ft.ones(1))], "lr": lr} for lr in rates or (1.0,)], **settings
    )


def curve(schedule, steps):
    """The rates of the first group for steps 0, 1, ..."""
    rates = [schedule.optimizer.lr]
    for _ in range(steps):
        schedule.step()
        rates.append(schedule.optimizer.lr)
    return pytest.approx(rates)


def test_constant():
    assert curve(nn.ConstantLR(optimizer(), 0.5, 2), 3) == [0.5, 0.5, 1.0, 1.0]


def test_linear_warm_up():
    assert curve(nn.LinearLR(optimizer(), 0.0, 1.0, 4), 5) == [0.0, 0.25, 0.5, 0.75, 1.0, 1.0]


def test_polynomial():
    assert curve(nn.PolynomialLR(optimizer(), 4, 2.0), 5) == [1.0, 9 / 16, 0.25, 1 / 16, 0.0, 0.0]


def test_exponential():
    assert curve(nn.ExponentialLR(optimizer(), 0.5), 3) == [1.0, 0.5, 0.25, 0.125]


def test_step():
    assert curve(nn.StepLR(optimizer(), 2, 0.1), 4) == [1.0, 1.0, 0.1, 0.1, 0.01]


def test_multi_step():
    assert curve(nn.MultiStepLR(optimizer(), [1, 3], 0.1), 4) == [1.0, 0.1, 0.1, 0.01, 0.01]


def test_cosine():
    half = 0.1 + 0.9 / 2
    assert curve(nn.CosineAnnealingLR(optimizer(), 2, 0.1), 4) == [1.0, half, 0.1, half, 1.0]


def test_cosine_with_warm_restarts():
    schedule = nn.CosineAnnealingWarmRestarts(optimizer(), 1, 2)
    up = (1 + math.cos(math.pi / 4)) / 2
    assert curve(schedule, 7) == [1.0, 1.0, 0.5, 1.0, up, 0.5, 1 - up, 1.0]


def test_inverse_square_root_is_that_of_attention_is_all_you_need():
    size, warm_up = 512, 4
    schedule = nn.InverseSquareRootLR(optimizer((size * warm_up) ** -0.5), warm_up)
    steps = range(1, 12)
    noam = [size**-0.5 * min(step**-0.5, step * warm_up**-1.5) for step in steps]
    assert curve(schedule, 10) == noam


def test_a_function():
    assert curve(nn.LambdaLR(optimizer(2.0), lambda step: 1 / (1 + step)), 2) == [2.0, 1.0, 2 / 3]


def test_one_cycle_moves_rate_and_momentum_against_one_another():
    opt = optimizer(momentum=0.5)
    schedule = nn.OneCycleLR(opt, 1.0, 11, pct_start=0.5, anneal_strategy="linear", div_factor=10)
    momenta = [opt.param_groups[0]["momentum"]]
    rates = [opt.lr]
    for _ in range(12):
        schedule.step()
        rates.append(opt.lr)
        momenta.append(opt.param_groups[0]["momentum"])
    assert rates[0] == pytest.approx(0.1) and rates[10] == rates[12] == pytest.approx(1e-5)
    assert max(rates) == rates[4] or max(rates) == rates[5]
    assert min(momenta) == momenta[rates.index(max(rates))] < momenta[0] == pytest.approx(0.95)


def test_one_cycle_may_begin_at_the_top():
    schedule = nn.OneCycleLR(optimizer(), 1.0, 10, pct_start=0.1, cycle_momentum=False)
    end = 1.0 / 25.0 / 1e4
    down = [end + (1.0 - end) * (1 + math.cos(math.pi * step / 9)) / 2 for step in range(10)]
    assert curve(schedule, 9) == down


def test_one_cycle_moves_the_first_beta_of_adam():
    opt = optimizer(make=nn.Adam)
    nn.OneCycleLR(opt, [1.0], 10, base_momentum=0.6, max_momentum=0.7)
    assert opt.param_groups[0]["betas"] == (0.7, 0.999)


def test_a_schedule_begins_with_the_rate_from_before_any_other():
    opt = optimizer(1.0)
    nn.OneCycleLR(opt, 0.5, 10)
    assert curve(nn.ExponentialLR(opt, 0.5), 1) == [1.0, 0.5]


def test_one_after_another():
    opt = optimizer(1.0, 10.0)
    warm_up, down = nn.LinearLR(opt, 0.5, total_iters=2), nn.ExponentialLR(opt, 0.5)
    schedule = nn.SequentialLR(opt, [warm_up, down], [2])
    assert curve(schedule, 4) == [0.5, 0.75, 1.0, 0.5, 0.25]
    assert schedule.get_last_lr() == [0.25, 2.5] and schedule.base_lrs == [1.0, 10.0]


def test_plateau():
    opt = optimizer(1.0)
    schedule = nn.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=1, min_lr=0.2)
    rates = []
    for figure in [1.0, 2.0, 1.0, 0.5, 0.5, math.nan, 0.5, 0.5, 0.5, 0.5, 0.5]:
        schedule.step(figure)
        rates.append(opt.lr)
    assert rates == [1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.2, 0.2, 0.2]


MAKE = {
    "ConstantLR": lambda o, k=1: nn.ConstantLR(o, 0.5 * k, 3),
    "LinearLR": lambda o, k=1: nn.LinearLR(o, 0.1 * k, total_iters=4),
    "PolynomialLR": lambda o, k=1: nn.PolynomialLR(o, 9 * k, 1.5),
    "ExponentialLR": lambda o, k=1: nn.ExponentialLR(o, 0.7 * k),
    "StepLR": lambda o, k=1: nn.StepLR(o, 2 * k),
    "MultiStepLR": lambda o, k=1: nn.MultiStepLR(o, [2 * k, 7]),
    "InverseSquareRootLR": lambda o, k=1: nn.InverseSquareRootLR(o, 5 * k),
    "CosineAnnealingLR": lambda o, k=1: nn.CosineAnnealingLR(o, 8 * k),
    "CosineAnnealingWarmRestarts": lambda o, k=1: nn.CosineAnnealingWarmRestarts(o, 3 * k, 2),
    "OneCycleLR": lambda o, k=1: nn.OneCycleLR(o, (0.5 * k, 0.3), 10),
    "LambdaLR": lambda o, k=1: nn.LambdaLR(o, lambda step: 1 / (1 + step)),
    "SequentialLR": lambda o, k=1: nn.SequentialLR(
        o, [nn.LinearLR(o, 0.1 * k), nn.CosineAnnealingLR(o, 4 * k), nn.StepLR(o, 1)], [3 * k, 7]
    ),
    "ReduceLROnPlateau": lambda o, k=1: nn.ReduceLROnPlateau(o, "max", 0.5 / k, patience=1 * k),
}


def advance(model, opt, schedule, steps):
    for i in steps:
        for p in model.ps:
            p.grad = ft.full((1,), math.sin(i + 1), p.dtype)
        opt.step()
        if isinstance(schedule, nn.ReduceLROnPlateau):
            schedule.step(math.sin(i))
        else:
            schedule.step()
    return (
        schedule.get_last_lr(),
        [p.tensor.tolist() for p in model.ps],
        opt.param_groups[0]["momentum"],
    )


def build(name, k=1):
    model = nn.Module()
    model.ps = [Parameter(ft.ones(1)), Parameter(ft.ones(1))]
    groups = [{"params": [p], "lr": 0.1 * k * (i + 1)} for i, p in enumerate(model.ps)]
    opt = nn.SGD(groups, momentum=0.3)
    return model, opt, MAKE[name](opt, k)


@pytest.mark.parametrize("name", MAKE)
def test_a_restored_schedule_goes_on_with_the_same_bits(tmp_path, name):
    model, opt, schedule = build(name)
    advance(model, opt, schedule, range(5))
    nn.save_checkpoint(tmp_path / "a", model, opt, parts={"schedule": schedule})
    expected = advance(model, opt, schedule, range(5, 12))
    twin, opt, other = build(name, k=2)
    nn.load_checkpoint(tmp_path / "a").restore(twin, opt, parts={"schedule": other})
    assert advance(twin, opt, other, range(5, 12)) == expected
    assert repr(other) == repr(schedule)
    assert json.loads(json.dumps(schedule.state_dict()))["type"] == name


def test_a_group_that_comes_later_is_scheduled_too():
    opt = optimizer(1.0)
    schedule = nn.ExponentialLR(opt, 0.5)
    schedule.step()
    opt.add_param_group({"params": [Parameter(ft.ones(1))], "lr": 8.0})
    schedule.step()
    assert schedule.get_last_lr() == [0.25, 2.0]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"type": "LinearLR"}, "it is of 'LinearLR'"),
        ({"settings": None}, "settings are missing"),
        ({"settings": {"step_size": 0, "gamma": 0.1}}, "step_size=0: give a whole number"),
        ({"last_epoch": 1.5}, "last_epoch=1.5"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(change, words):
    schedule = nn.StepLR(optimizer(), 2)
    before = schedule.state_dict()
    with pytest.raises(StateDictError, match=words):
        schedule.load_state_dict({**before, **change})
    assert schedule.state_dict() == before


def test_a_state_of_other_parts_is_refused():
    opt = optimizer()
    schedule = nn.SequentialLR(opt, [nn.ConstantLR(opt), nn.StepLR(opt, 2)], [3])
    state = schedule.state_dict()
    other = nn.SequentialLR(opt, [nn.StepLR(opt, 2), nn.ConstantLR(opt)], [3])
    with pytest.raises(StateDictError, match="scheduler 0: it is of 'ConstantLR'"):
        other.load_state_dict(state)
    with pytest.raises(StateDictError, match="other schedulers"):
        schedule.load_state_dict({**state, "schedulers": []})


def sequence(*milestones, parts=2):
    opt = optimizer()
    return nn.SequentialLR(opt, [nn.ConstantLR(opt)] * parts, milestones)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.StepLR(optimizer(), 0), "step_size=0: give a whole number of at least 1"),
        (lambda: nn.ExponentialLR(optimizer(), -1.0), "gamma=-1.0"),
        (lambda: nn.MultiStepLR(optimizer(), [3, 1]), "ascending"),
        (lambda: nn.OneCycleLR(optimizer(), 1.0, 10, pct_start=0.0), "pct_start=0.0"),
        (lambda: nn.OneCycleLR(optimizer(), [1.0, 2.0], 10), "2 rates for 1 groups"),
        (lambda: nn.OneCycleLR(optimizer(make=nn.Adagrad), 1.0, 10), "cycle_momentum=False"),
        (lambda: nn.ReduceLROnPlateau(optimizer(), "least"), "give 'min' or 'max'"),
        (lambda: nn.ReduceLROnPlateau(optimizer(), min_lr=[0.1, 0.1]), "2 rates for 1 groups"),
        (lambda: sequence(), "2 schedulers cannot have 0 milestones"),
        (lambda: nn.SequentialLR(optimizer(), [nn.ConstantLR(optimizer())], []), "another"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ModuleError, match=words):
        make()


def test_a_plateau_is_no_part_of_a_sequence():
    opt = optimizer()
    with pytest.raises(ModuleError, match="figure for every step"):
        nn.SequentialLR(opt, [nn.ReduceLROnPlateau(opt)], [])


class Halving(nn.LRScheduler):
    """What a user writes."""

    def rate(self, step, base):
        return base / 2**step


def test_a_schedule_of_ones_own():
    assert curve(Halving(optimizer(4.0)), 2) == [4.0, 2.0, 1.0]
    with pytest.raises(ModuleError, match="defines no rate"):
        nn.LRScheduler(optimizer())
