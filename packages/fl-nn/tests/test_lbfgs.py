"""LBFGS and its line search: convergence, the Wolfe conditions, state, and refusals."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn.optim.line_search import Point, strong_wolfe
from fl_tensor.testing import needs


def rosenbrock(x):
    return ft.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


class Counted:
    """A function of some parameters, its calls counted."""

    def __init__(self, function, *starts, dtype="float64"):
        self.parameters = [nn.Parameter(ft.asarray(x, ft.dtype(dtype))) for x in starts]
        self.function, self.calls = function, 0

    def __call__(self):
        self.calls += 1
        loss = self.function(*self.parameters)
        loss.backward()
        return loss

    @property
    def values(self):
        return np.concatenate([p.numpy().ravel() for p in self.parameters])


@needs("float64")
def test_rosenbrock_in_ten_dimensions():
    counted = Counted(rosenbrock, [-1.2, 1.0] * 5)
    optimizer = nn.LBFGS(counted.parameters, max_iter=200, tolerance_grad=1e-8)
    first = optimizer.step(counted)
    assert first.item() == pytest.approx(2057.0)
    assert np.allclose(counted.values, 1.0, atol=1e-7)
    assert counted.calls < 120


@needs("float64")
def test_several_parameters_are_one_vector():
    center = ft.asarray([[1.0, 2.0], [3.0, 4.0]], ft.float64)

    def function(a, b):
        return ft.sum((a - center) ** 2 * (1.0 + center)) + (b - 5.0) ** 2 + ft.sum(a) * b

    together = Counted(function, [[0.0, 0.0], [0.0, 0.0]], 0.0)
    nn.LBFGS(together.parameters, max_iter=100).step(together)
    gradients = [p.grad.numpy() for p in together.parameters]
    assert max(np.abs(g).max() for g in gradients) < 1e-5


@pytest.mark.fl_heavy
def test_float32_parameters_of_a_model_on_the_default_backend():
    ft.seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    x = ft.randn((32, 2), ft.Generator(1))
    y = ft.sum(x * x, axis=1, keepdims=True)
    optimizer = nn.LBFGS(model.parameters())

    def closure():
        loss = nn.mse(model(x), y)
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(6)]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.02 * losses[0]


@needs("float64")
def test_parameters_without_a_gradient_stay():
    counted = Counted(lambda a, b: ft.sum((a - 2.0) ** 2), [0.0, 1.0], [7.0])
    nn.LBFGS(counted.parameters).step(counted)
    assert np.allclose(counted.values, [2.0, 2.0, 7.0])


@needs("float64")
@pytest.mark.parametrize("most", range(2, 14))
def test_max_eval_bounds_the_calls_and_the_lowest_point_is_kept(most):
    losses = []

    def function(x):
        loss = rosenbrock(x)
        losses.append(loss.item())
        return loss

    counted = Counted(function, [-1.2, 1.0] * 5)
    nn.LBFGS(counted.parameters, lr=1e4, max_iter=100, max_eval=most).step(counted)
    assert counted.calls == most
    assert rosenbrock(counted.parameters[0]).item() == min(losses)


@needs("float64")
def test_an_overflow_in_the_line_search_is_a_step_that_is_too_long():
    values = []

    def function(x):
        value = ft.sum(ft.exp(x * 20.0) - 50.0 * x)
        values.append(value.item())
        return value

    counted = Counted(function, [-3.0])
    nn.LBFGS(counted.parameters, lr=100.0, max_iter=50, max_eval=500).step(counted)
    assert math.inf in values
    assert counted.values[0] == pytest.approx(math.log(2.5) / 20.0, abs=1e-6)


@needs("float64")
def test_a_restored_state_goes_on_with_the_same_bits(tmp_path):
    def run(counted, steps, optimizer):
        for _ in range(steps):
            optimizer.step(counted)

    whole = Counted(rosenbrock, [-1.2, 1.0] * 5)
    run(whole, 4, nn.LBFGS(whole.parameters, max_iter=5, history_size=3))
    before = Counted(rosenbrock, [-1.2, 1.0] * 5)
    optimizer = nn.LBFGS(before.parameters, max_iter=5, history_size=3)
    run(before, 2, optimizer)
    after = Counted(rosenbrock, before.values)
    restored = nn.LBFGS(after.parameters, max_iter=5, history_size=3)
    restored.load_state_dict(optimizer.state_dict())
    run(after, 2, restored)
    assert after.values.tolist() == whole.values.tolist()
    assert sorted(optimizer.state_dict()["tensors"]) == [
        "0.s0",
        "0.s1",
        "0.s2",
        "0.y0",
        "0.y1",
        "0.y2",
    ]


# ---- the line search -----------------------------------------------------------------------------


def test_points_found_meet_the_strong_wolfe_conditions():
    draw = random.Random(5)
    for _ in range(200):
        a, b, c, d = (draw.uniform(-2, 2) for _ in range(4))

        def at(t, a=a, b=b, c=c, d=d):
            value = 0.1 * t * t + a * math.sin(3 * t + b) + c * math.cos(d * t)
            slope = 0.2 * t + 3 * a * math.cos(3 * t + b) - c * d * math.sin(d * t)
            return Point(t, value, slope)

        start = at(0.0)
        if start.slope >= -1e-3:
            continue
        found = strong_wolfe(at, start, 10.0 ** draw.uniform(-3, 2))
        assert found.value <= start.value + 1e-4 * found.step * start.slope
        assert abs(found.slope) <= 0.9 * abs(start.slope)


def test_a_line_without_a_lower_point_gives_the_start():
    start = Point(0.0, 1.0, -1.0)  # a slope that its values contradict
    assert strong_wolfe(lambda t: Point(t, 2.0, 1.0), start, 1.0) == start


# ---- what is refused -----------------------------------------------------------------------------


def test_step_needs_a_closure():
    optimizer = nn.LBFGS([nn.Parameter(ft.ones(2))])
    with pytest.raises(nn.TrainingError, match=r"give step\(closure\)"):
        optimizer.step()


@pytest.mark.parametrize(
    "closure, words",
    [
        (lambda p: p * 2.0, r"returned Variable \(2,\): return the loss"),
        (lambda p: ft.sum(p), r"has to call loss.backward\(\)"),
        (lambda p: ft.sum(ft.log(p - 2.0)), "the loss is nan"),
    ],
)
def test_closures_that_give_no_loss_with_gradients_are_refused(closure, words):
    parameter = nn.Parameter(ft.ones(2))

    def called():
        loss = closure(parameter)
        if "backward" not in words:
            ft.sum(loss).backward()
        return loss

    with pytest.raises(nn.TrainingError, match=words):
        nn.LBFGS([parameter]).step(called)


@needs("float16")
def test_parameters_of_16_bits_are_refused():
    with pytest.raises(nn.ModuleError, match="are float16 on cpu: give parameters of one dtype"):
        nn.LBFGS([nn.Parameter(ft.ones(2, "float16"))])


def test_a_trainer_is_told_to_be_left_out():
    model = nn.Linear(2, 1)
    trainer = nn.Trainer(model, nn.LBFGS(model.parameters()), nn.mse, progress=False)
    with pytest.raises(nn.TrainingError, match=r"call optimizer.step\(closure\) in a loop"):
        trainer.fit([(ft.ones((3, 2)), ft.ones((3, 1)))], epochs=1)


@needs("float64")
def test_parameters_of_two_dtypes_and_two_groups_are_refused():
    a, b = nn.Parameter(ft.ones(2)), nn.Parameter(ft.ones(2, "float64"))
    with pytest.raises(nn.ModuleError, match="give parameters of one dtype"):
        nn.LBFGS([a, b])
    with pytest.raises(nn.ModuleError, match="there is one group"):
        nn.LBFGS([{"params": [a]}, {"params": [nn.Parameter(ft.ones(2))]}])


@needs("float64")
def test_a_parameter_that_is_frozen_later_stays():
    counted = Counted(lambda a, b: ft.sum((a - 2.0) ** 4) + ft.sum((b + 1.0) ** 4), [0.0], [7.0])
    optimizer = nn.LBFGS(counted.parameters, max_iter=3)
    optimizer.step(counted)
    counted.parameters[1].requires_grad = False
    before = counted.parameters[1].tolist()
    optimizer.step(counted)
    assert counted.parameters[1].tolist() == before


@needs("float64")
def test_a_gradient_that_is_not_finite_is_an_error():
    counted = Counted(lambda a: ft.sum(ft.sqrt(a * a)), [0.0, 1.0])
    with pytest.raises(nn.TrainingError, match="gradient is not finite"):
        nn.LBFGS(counted.parameters).step(counted)


@needs("float64")
def test_a_shorter_history_keeps_the_latest_pairs():
    counted = Counted(rosenbrock, [-1.2, 1.0] * 5)
    optimizer = nn.LBFGS(counted.parameters, max_iter=8)
    optimizer.step(counted)
    optimizer.param_groups[0]["history_size"] = 3
    optimizer.param_groups[0]["max_iter"] = 1
    optimizer.step(counted)
    names = sorted(name for name in optimizer.state[0] if name != "step")
    assert names == ["s0", "s1", "s2", "y0", "y1", "y2"]
