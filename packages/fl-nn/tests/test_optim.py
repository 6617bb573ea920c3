"""Optimizers: their equations on one number, their state, and who computes for them."""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError, Parameter, StateDictError


def start(value=1.0):
    return Parameter(ft.asarray([value], dtype=ft.float64))


def step(optimizer, *gradients):
    for parameter, gradient in zip(optimizer.parameters, gradients):
        parameter.grad = None if gradient is None else ft.asarray([gradient], dtype=ft.float64)
    optimizer.step()
    return [parameter.tensor.item() for parameter in optimizer.parameters]


def test_sgd_moves_against_the_gradient():
    assert step(nn.SGD([start()], lr=0.1), 2.0) == pytest.approx([0.8])


def test_sgd_weight_decay_adds_to_the_gradient():
    assert step(nn.SGD([start(3.0)], lr=0.1, weight_decay=0.5), 2.0) == pytest.approx([2.65])


def test_sgd_momentum_gathers_velocity():
    optimizer = nn.SGD([start(0.0)], lr=1.0, momentum=0.5)
    assert step(optimizer, 1.0) == pytest.approx([-1.0])
    assert step(optimizer, 1.0) == pytest.approx([-2.5])


def test_sgd_nesterov_looks_ahead():
    optimizer = nn.SGD([start(0.0)], lr=1.0, momentum=0.5, nesterov=True)
    assert step(optimizer, 1.0) == pytest.approx([-1.5])
    assert step(optimizer, 1.0) == pytest.approx([-1.5 - 1.75])


def test_the_first_step_of_adam_has_the_length_of_the_learning_rate():
    assert step(nn.Adam([start(0.0)], lr=0.1, eps=0.0), 1e-5) == pytest.approx([-0.1])


def test_adam_weight_decay_in_the_gradient_or_decoupled():
    coupled = nn.Adam([start(2.0)], lr=0.1, eps=0.0, weight_decay=0.5)
    assert step(coupled, 0.0) == pytest.approx([1.9])
    decoupled = nn.Adam([start(2.0)], lr=0.1, weight_decay=0.5, decoupled_weight_decay=True)
    assert step(decoupled, 0.0) == pytest.approx([1.9])
    assert step(decoupled, 0.0) == pytest.approx([1.9 * 0.95])


def test_adamw_decays_by_itself():
    assert step(nn.AdamW([start(2.0)], lr=0.1, weight_decay=0.5), 0.0) == pytest.approx([1.9])


@pytest.mark.parametrize("make", [nn.AMSgrad, lambda p, **kw: nn.Adam(p, amsgrad=True, **kw)])
def test_amsgrad_remembers_the_largest_second_moment(make):
    optimizer = make([start(0.0)], lr=1.0, betas=(0.0, 0.5), eps=0.0)
    assert step(optimizer, 4.0) == pytest.approx([-1.0])
    # v: 8, then 4.5; corrected by 1 - 0.5^2. Of the two, 8 counts.
    assert step(optimizer, 1.0) == pytest.approx([-1.0 - 1.0 / math.sqrt(8.0 / 0.75)])


def test_nag_keeps_its_velocity_when_the_rate_changes():
    optimizer = nn.NAG([start(1.0)], lr=0.0, momentum=0.5, weight_decay=0.1)
    assert step(optimizer, 2.0) == [1.0]
    optimizer.lr = 0.1
    # v = 0.5 * 2 + 4; p = 1 - 0.01, then - 0.1 * (4 + 0.5 * v)
    assert step(optimizer, 4.0) == pytest.approx([0.99 - 0.65])


def test_adagrad_divides_by_all_gradients_so_far():
    optimizer = nn.Adagrad([start(0.0)], lr=1.0, lr_decay=1.0, eps=0.0)
    assert step(optimizer, 3.0) == pytest.approx([-1.0])
    assert step(optimizer, 4.0) == pytest.approx([-1.0 - 0.5 * 4.0 / 5.0])
    optimizer = nn.Adagrad([start(2.0)], 1.0, weight_decay=1.0, initial_accumulator_value=5.0)
    assert step(optimizer, 0.0) == pytest.approx([2.0 - 2.0 / 3.0])


def test_adadelta_steps_in_the_units_of_the_parameter():
    optimizer = nn.Adadelta([start(0.0)], lr=2.0, rho=0.5, eps=1.0)
    first = math.sqrt(1.0) / math.sqrt(3.0) * 2.0  # mean of g^2: 2
    assert step(optimizer, 2.0) == pytest.approx([-2.0 * first])
    second = math.sqrt(0.5 * first**2 + 1.0) / math.sqrt(2.0) * 0.0
    assert step(optimizer, 0.0) == pytest.approx([-2.0 * (first + second)])
    third = math.sqrt(0.25 * first**2 + 1.0) / math.sqrt(0.5 + 0.5 + 1.0)
    assert step(optimizer, 1.0) == pytest.approx([-2.0 * (first + third)])


def test_rmsprop_divides_by_recent_gradients():
    optimizer = nn.RMSprop([start(0.0)], lr=1.0, alpha=0.75, eps=0.0, momentum=0.5)
    assert step(optimizer, 2.0) == pytest.approx([-2.0])
    assert step(optimizer, 0.0) == pytest.approx([-3.0])


def test_centered_rmsprop_divides_by_the_deviation():
    optimizer = nn.RMSprop([start(0.0)], lr=1.0, alpha=0.5, eps=0.0, centered=True)
    assert step(optimizer, 2.0) == pytest.approx([-2.0])  # sqrt(2 - 1)


def test_centered_rmsprop_survives_rounding():
    parameter = Parameter(ft.zeros(64))
    optimizer = nn.RMSprop([parameter], lr=0.1, alpha=0.5, eps=0.1, centered=True)
    for _ in range(40):  # a constant gradient has no deviation
        parameter.grad = ft.linspace(0.1, 100.0, 64)
        optimizer.step()
    assert ft.all(ft.isfinite(parameter.tensor)).item()


def test_novograd_normalises_each_parameter():
    parameter = Parameter(ft.asarray([1.0, 1.0]))
    optimizer = nn.Novograd([parameter], 1.0, betas=(0.5, 0.75), eps=0.0, weight_decay=0.1)
    parameter.grad = ft.asarray([3.0, 4.0])
    optimizer.step()
    assert parameter.tolist() == pytest.approx([1.0 - 0.7, 1.0 - 0.9])
    parameter.grad = ft.asarray([0.0, 0.0])
    optimizer.step()
    assert parameter.tolist() == pytest.approx([0.3 - 0.35 - 0.03, 0.1 - 0.45 - 0.01])


def test_lamb_steps_are_as_long_as_the_weights():
    parameter = Parameter(ft.asarray([3.0, 4.0]))
    optimizer = nn.LAMB([parameter], 0.1, eps=0.0)
    parameter.grad = ft.asarray([1e-3, -5.0])
    optimizer.step()  # u = (1, -1)
    long = 0.1 * 5.0 / math.sqrt(2.0)
    assert parameter.tolist() == pytest.approx([3.0 - long, 4.0 + long])


def test_lamb_moves_weights_that_are_zero_and_leaves_those_without_step():
    assert step(nn.LAMB([start(0.0)], 0.1, eps=0.0), 7.0) == pytest.approx([-0.1])
    assert step(nn.LAMB([start(3.0)], 0.1), 0.0) == [3.0]


def test_lion_steps_by_the_sign():
    optimizer = nn.Lion([start(1.0)], 0.1, betas=(0.5, 0.75), weight_decay=1.0)
    assert step(optimizer, 8.0) == pytest.approx([0.9 - 0.1])
    # m = 0.25 * 8, and 0.5 * m - 0.5 * 3 is below 0; m = 0.75 * 2 - 0.25 * 3, and above 0 again
    assert step(optimizer, -3.0) == pytest.approx([0.72 + 0.1])
    assert step(optimizer, 0.0) == pytest.approx([0.738 - 0.1])


def test_adafactor_keeps_a_row_and_a_column():
    parameter = Parameter(ft.asarray([[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]], dtype=ft.float64))
    optimizer = nn.Adafactor([parameter], lr=0.1)
    rows, columns = ft.asarray([[1.0], [2.0], [3.0]]), ft.asarray([[4.0, -5.0]])
    parameter.grad = (rows * columns).astype(ft.float64)
    optimizer.step()  # the gradient is of rank 1, so u is its sign; rms(p) = 2
    for row in parameter.tolist():
        assert row == pytest.approx([1.8, 2.2])
    shapes = {slot: state.shape for slot, state in optimizer.state[0].items() if slot != "step"}
    assert shapes == {"row_var": (3, 1), "col_var": (1, 2)}


def test_adafactor_of_a_vector():
    optimizer = nn.Adafactor([start(0.5)], lr=0.5, weight_decay=0.1)
    assert step(optimizer, 3.0) == pytest.approx([0.5 * 0.95 - 0.5 * 0.5])
    fresh = 2**-0.8
    square = (1 - fresh) * 9.0 + fresh * 1.0
    value = optimizer.parameters[0].tensor.item()
    expected = value * 0.95 - 0.5 * abs(value) * 1.0 / math.sqrt(square)
    assert step(optimizer, 1.0) == pytest.approx([expected])


def test_the_learning_rate_can_be_changed_between_steps():
    optimizer = nn.SGD([start(0.0)], lr=1.0)
    step(optimizer, 1.0)
    optimizer.lr = 0.5
    assert step(optimizer, 1.0) == pytest.approx([-1.5])


def test_parameters_without_gradient_stay_and_are_not_counted():
    optimizer = nn.Adam([start(1.0), start(2.0)], lr=0.1)
    assert step(optimizer, None, 1.0) == pytest.approx([1.0, 1.9])
    assert optimizer.state[0] == {} and optimizer.state[1]["step"] == 1


def test_zero_grad_forgets_gradients():
    optimizer = nn.SGD([start()], lr=0.1)
    step(optimizer, 1.0)
    optimizer.zero_grad()
    assert optimizer.parameters[0].grad is None


def test_values_that_others_hold_do_not_change():
    parameter = start()
    held = parameter.tensor
    step(nn.SGD([parameter], lr=0.1), 1.0)
    assert held.item() == 1.0


MAKE = {
    "sgd": lambda p: nn.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True),
    "nag": lambda p: nn.NAG(p, 0.1, 0.9, 0.01),
    "adam": lambda p: nn.Adam(p, 0.1, (0.8, 0.9), 1e-6, 0.01, amsgrad=True),
    "adamw": lambda p: nn.AdamW(p, 0.1),
    "amsgrad": lambda p: nn.AMSgrad(p, 0.1),
    "adagrad": lambda p: nn.Adagrad(p, 0.1, 0.01, 0.01, 0.1),
    "adadelta": lambda p: nn.Adadelta(p, 0.5, weight_decay=0.1),
    "rmsprop": lambda p: nn.RMSprop(p, 0.1, momentum=0.5, centered=True),
    "novograd": lambda p: nn.Novograd(p, 0.1, weight_decay=0.1),
    "lamb": lambda p: nn.LAMB(p, 0.1, weight_decay=0.1),
    "lion": lambda p: nn.Lion(p, 0.1, weight_decay=0.1),
    "adafactor": lambda p: nn.Adafactor(p, 0.1, weight_decay=0.1),
}
SHAPES = [(3, 4), (2, 3, 2), (5,), ()]


def randn(shape, seed, dtype=ft.float64):
    return ft.randn(shape, ft.Generator(seed), dtype=ft.float64).astype(dtype)


def groups(dtype=ft.float64):
    parameters = [Parameter(randn(shape, 50 + i, dtype)) for i, shape in enumerate(SHAPES)]
    return [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.03}]


def run(optimizer, steps):
    """Steps along gradients that depend on step and parameter alone; the values as bytes."""
    for number in steps:
        for index, parameter in enumerate(optimizer.parameters):
            skipped = index == 3 and number % 2
            grad = randn(parameter.shape, 10 * number + index, parameter.dtype)
            parameter.grad = None if skipped else grad
        optimizer.step()
    return [bytes(parameter.tensor.tobytes()) for parameter in optimizer.parameters]


@pytest.mark.parametrize("dtype", [ft.float32, ft.float64], ids=str)
@pytest.mark.parametrize("name", MAKE)
def test_a_restored_optimizer_goes_on_with_the_same_bits(tmp_path, name, dtype):
    model = nn.Module()
    model.groups = groups(dtype)
    optimizer = MAKE[name](model.groups)
    run(optimizer, range(5))
    optimizer.param_groups[1]["lr"] = 0.017
    nn.save_checkpoint(tmp_path / "a", model, optimizer)
    expected = run(optimizer, range(5, 10))

    twin_model = nn.Module()
    twin_model.groups = groups(dtype)
    twin = type(optimizer)(twin_model.groups, lr=99.0)
    nn.load_checkpoint(tmp_path / "a").restore(twin_model, twin)
    assert run(twin, range(5, 10)) == expected
    assert repr(twin) == repr(optimizer)
    assert {p.dtype for p in twin.parameters} == {dtype}
    assert {t.dtype for t in twin.state_dict()["tensors"].values()} <= {dtype}


@pytest.mark.parametrize("name", MAKE)
def test_every_optimizer_goes_down_a_slope(name):
    model = Parameter(ft.ones((3, 2)))
    optimizer = MAKE[name]([model])
    for _ in range(30):
        optimizer.zero_grad()
        loss = ft.sum(ft.square(model - 0.5))
        loss.backward()
        optimizer.step()
    assert ft.sum(ft.square(model - 0.5)).item() < 1.4


@pytest.mark.parametrize("name", MAKE)
def test_graphs_recorded_before_a_step_and_gradients_do_not_change(name):
    parameter = Parameter(ft.asarray([1.0, 2.0]))
    optimizer = MAKE[name]([parameter])
    loss = ft.sum(parameter * parameter)
    for _ in range(2):
        parameter.grad = held = ft.asarray([0.5, -0.5])
        optimizer.step()
        assert held.tolist() == [0.5, -0.5]
    parameter.zero_grad()
    loss.backward()
    assert parameter.grad.tolist() == [2.0, 4.0]
    assert parameter.is_leaf and parameter.requires_grad


# ---- groups --------------------------------------------------------------------------------------


def test_groups_have_settings_of_their_own():
    one, other = start(1.0), start(1.0)
    optimizer = nn.SGD([{"params": [one]}, {"params": other, "lr": 0.5}], lr=0.1)
    assert step(optimizer, 1.0, 1.0) == pytest.approx([0.9, 0.5])
    optimizer.param_groups[0]["lr"] = 0.2
    assert step(optimizer, 1.0, 1.0) == pytest.approx([0.7, 0.0])
    optimizer.lr = 1.0
    assert step(optimizer, 1.0, 1.0) == pytest.approx([-0.3, -1.0])


def test_a_group_can_be_added_later():
    optimizer = nn.Adam([start(1.0)], lr=0.1)
    step(optimizer, 1.0)
    optimizer.add_param_group({"params": [start(2.0)], "lr": 0.5})
    assert step(optimizer, None, 1.0) == pytest.approx([0.9, 1.5])
    assert [state["step"] for state in optimizer.state] == [1, 1]


@pytest.mark.parametrize(
    "group, words",
    [
        ({"params": [start()], "rate": 1.0}, "rate is unknown; there are lr, momentum"),
        ({"params": [start()], "lr": -1.0}, "lr=-1.0: give a number that is at least 0"),
        ({"params": [start()], "nesterov": True}, "momentum above 0"),
        ({"params": [ft.ones(1)]}, "not a Parameter"),
    ],
)
def test_groups_that_make_no_sense_are_refused(group, words):
    optimizer = nn.SGD([start()], lr=0.1)
    with pytest.raises(ModuleError, match=words):
        optimizer.add_param_group(group)
    with pytest.raises(ModuleError, match="twice"):
        optimizer.add_param_group({"params": [start(), optimizer.parameters[0]]})
    assert len(optimizer.param_groups) == 1


def test_groups_and_loose_parameters_do_not_mix():
    with pytest.raises(ModuleError, match="mixed"):
        nn.SGD([start(), {"params": [start()]}], lr=0.1)


# ---- states that do not fit ----------------------------------------------------------------------


def test_a_state_is_a_snapshot():
    optimizer = nn.SGD([start()], lr=0.1, momentum=0.5)
    step(optimizer, 1.0)
    state = optimizer.state_dict()
    optimizer.state[0]["momentum_buffer"][0] = 5.0
    optimizer.lr = 7.0
    assert state["tensors"]["0.momentum_buffer"].tolist() == [1.0]
    assert state["param_groups"][0]["lr"] == 0.1 and state["numbers"] == {"0.step": 1}


def test_a_state_of_another_optimizer_or_other_parameters_is_refused():
    optimizer = nn.SGD([start(), start()], lr=0.1, momentum=0.9)
    step(optimizer, 1.0, 1.0)
    state = optimizer.state_dict()
    with pytest.raises(StateDictError, match="it is of 'SGD'"):
        nn.Adam([start()]).load_state_dict(state)
    with pytest.raises(StateDictError, match="group 0 has 2 parameters, here 1"):
        nn.SGD([start()], lr=0.1).load_state_dict(state)
    with pytest.raises(StateDictError, match="it has 1 groups, here 2"):
        nn.SGD([{"params": [start()]}, {"params": [start()]}]).load_state_dict(state)
    for other, words in [
        (ft.ones(3, ft.float64), r"0.momentum_buffer is float64 \(1,\), expected float64 \(3,\)"),
        (ft.ones(1, ft.float32), r"0.momentum_buffer is float64 \(1,\), expected float32 \(1,\)"),
    ]:
        with pytest.raises(StateDictError, match=words):
            nn.SGD([Parameter(other), start()], lr=0.1).load_state_dict(state)


def settings(**changed):
    state = nn.SGD([start()], lr=0.1).state_dict()
    group = {k: v for k, v in {**state["param_groups"][0], **changed}.items() if v is not None}
    return {"param_groups": [group]}


@pytest.mark.parametrize(
    "change, words",
    [
        (settings(momentum=None), "momentum is missing"),
        (settings(speed=1.0), "speed is unknown"),
        (settings(lr="a"), "lr='a'"),
        (settings(nesterov=1), "nesterov=1"),
        (settings(params=None), "does not say which parameters"),
        (settings(params=[1]), r"numbers its parameters \[1\]"),
        ({"param_groups": 1}, "param_groups are missing"),
        ({"numbers": [1]}, "numbers or tensors are missing"),
        ({"numbers": {"0.step": "many"}}, "0.step is 'many'"),
        ({"numbers": {"0.step": 0}}, "0.step is 0"),
        ({"numbers": {"0.momentum_buffer": 1}}, "0.momentum_buffer is unexpected"),
        ({"tensors": {"7.momentum_buffer": ft.ones(1)}}, "7.momentum_buffer is unexpected"),
        ({"tensors": {"0.secret": ft.ones(1)}}, "0.secret is unexpected"),
        ({"tensors": {"0.momentum_buffer": 1.0}}, "0.momentum_buffer is unexpected"),
    ],
)
def test_a_malformed_state_is_refused(change, words):
    optimizer = nn.SGD([start()], lr=0.1)
    before = repr(optimizer)
    with pytest.raises(StateDictError, match=words):
        optimizer.load_state_dict({**optimizer.state_dict(), **change})
    assert repr(optimizer) == before


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.SGD([], lr=0.1), "no parameters"),
        (lambda: nn.SGD([ft.ones(1)], lr=0.1), "not a Parameter"),
        (lambda: nn.SGD([start()] * 2, lr=0.1), "twice"),
        (lambda: nn.SGD([start()], lr=-0.1), "lr=-0.1"),
        (lambda: nn.SGD([start()], lr=math.nan), "lr=nan"),
        (lambda: nn.SGD([start()], lr=0.1, nesterov=True), "momentum"),
        (lambda: nn.Adam([start()], betas=(0.9, 1.0)), "betas"),
        (lambda: nn.Adam([start()], weight_decay=-1.0), "weight_decay"),
        (lambda: nn.NAG([start()], lr=0.1, momentum=0.0), "momentum=0.0: give a number above 0"),
        (lambda: nn.RMSprop([start()], alpha=1.0), "alpha=1.0"),
        (lambda: nn.Adafactor([start()], eps=(1e-3, None)), "eps"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, words):
    with pytest.raises(ModuleError, match=words):
        make()


class Sign(nn.Optimizer):
    """What a user writes."""

    def __init__(self, params, lr):
        super().__init__(params, lr=lr)

    def update(self, value, grad, state, group):
        return value - group["lr"] * ft.sign(grad)


def test_an_optimizer_of_ones_own():
    assert step(Sign([start(1.0), start(2.0)], 0.25), 3.0, -5.0) == [0.75, 2.25]


def test_an_override_sees_every_addition_of_a_training_step():
    counted = []

    def counting_add(inner, x, y):
        counted.append(x.shape)
        return inner.add(x, y)

    layer = nn.Linear(3, 2)
    optimizer = nn.Adam(layer.parameters())
    with ft.override(add=counting_add):
        loss = ft.mean(ft.square(layer(ft.ones((4, 3)))))
        forward = len(counted)
        loss.backward()
        optimizer.zero_grad()
        loss = ft.mean(ft.square(layer(ft.ones((4, 3)))))
        loss.backward()
        before = len(counted)
        optimizer.step()
        first = len(counted) - before
        optimizer.step()
        second = len(counted) - before - first
    assert forward == 1  # the bias
    assert (first, second) == (3, 3)  # mean, square and eps, of weight and bias together


@pytest.mark.parametrize("name", MAKE)
def test_a_step_leaves_nothing_deferred(name):
    with ft.use(pytest.importorskip("fl_jit").JitBackend()) as backend:
        model = Parameter(ft.full((100, 100), 1.0))  # large enough to be put off
        optimizer = MAKE[name]([model])
        for _ in range(3):
            optimizer.zero_grad()
            ft.mean(ft.square(model - 0.5)).backward()
            assert backend._pending.calls
            optimizer.step()
            assert not backend._pending.calls
