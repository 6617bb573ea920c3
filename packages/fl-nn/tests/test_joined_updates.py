"""Small parameters are updated, averaged and clipped as one vector, with the same results."""

from __future__ import annotations

import pytest

import fl_memory as mem
import fl_nn as nn
import fl_tensor as ft
from fl_memory.managers.system import SystemManager
from fl_tensor.testing import needs

SHAPES = [(3, 4), (4,), (), (2, 0), (2, 3, 2), (5,)]
MAKERS = {
    "SGD": lambda cls: lambda p: cls(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "NAG": lambda cls: lambda p: cls(p, lr=0.1),
    "Adam": lambda cls: lambda p: cls(p, lr=0.1, weight_decay=0.1, amsgrad=True),
    "AdamW": lambda cls: lambda p: cls(p, lr=0.1),
    "Adagrad": lambda cls: lambda p: cls(p, lr=0.1, lr_decay=0.1),
    "Adadelta": lambda cls: lambda p: cls(p),
    "RMSprop": lambda cls: lambda p: cls(p, momentum=0.5, centered=True),
    "Lion": lambda cls: lambda p: cls(p, weight_decay=0.1),
}


def parameters(dtypes=(ft.float32,)):
    generator = ft.Generator(1)
    return [nn.Parameter(generator.normal(s).astype(d)) for d in dtypes for s in SHAPES]


def give_gradients(params, step, skipped=()):
    generator = ft.Generator(step + 10)
    for number, parameter in enumerate(params):
        grad = generator.normal(parameter.shape).astype(parameter.dtype)
        parameter.grad = None if number in skipped else grad


def alone(cls):
    """The same update rule, parameter by parameter."""
    return type(cls.__name__, (cls,), {"elementwise": False})


def everything(params, optimizer):
    state = optimizer.state_dict()
    tensors = {key: (x.shape, x.dtype, x.tolist()) for key, x in state["tensors"].items()}
    return [p.tolist() for p in params], state["numbers"], tensors


@pytest.mark.parametrize("name", MAKERS)
def test_an_elementwise_rule_gives_the_same_bits(name):
    cls = getattr(nn, name)
    ours, theirs = parameters(), parameters()
    joined, single = MAKERS[name](cls)(ours), MAKERS[name](alone(cls))(theirs)
    for step, skipped in enumerate([(), (1,), (1, 4), (), ()]):
        for params, optimizer in ((ours, joined), (theirs, single)):
            give_gradients(params, step, skipped)
            optimizer.step()
        assert everything(ours, joined) == everything(theirs, single)


def test_groups_keep_their_settings():
    results = []
    for cls in (nn.AdamW, alone(nn.AdamW)):
        params = parameters()
        optimizer = cls([{"params": params[:3], "lr": 0.5}, {"params": params[3:5]}], lr=0.01)
        for step in range(4):
            if step == 2:
                optimizer.add_param_group({"params": params[5:], "weight_decay": 0.5})
            give_gradients(params, step)
            optimizer.step()
        results.append(everything(params, optimizer))
    assert results[0] == results[1]


@needs("float16")
def test_dtypes_are_not_mixed_and_master_weights_stay():
    results = []
    for cls in (nn.Adam, alone(nn.Adam)):
        params = parameters((ft.float32, ft.float16))
        optimizer = cls(params, lr=1e-4)
        for step in range(4):
            give_gradients(params, step)
            optimizer.step()
        results.append(everything(params, optimizer))
    assert results[0] == results[1]
    assert "11.rounding" in results[0][2] and "0.rounding" not in results[0][2]


def test_a_value_and_a_state_given_between_steps_are_used():
    results = []
    for cls in (nn.SGD, alone(nn.SGD)):
        params = parameters()
        optimizer, saved = cls(params, lr=0.1, momentum=0.9), {}
        for step in range(5):
            give_gradients(params, step)
            if step == 2:
                params[1].tensor = ft.ones((4,))
                optimizer.state[0]["momentum_buffer"] = ft.ones((3, 4))
            if step == 3:
                optimizer.load_state_dict(saved)
            optimizer.step()
            if step == 1:
                saved = optimizer.state_dict()
        results.append(everything(params, optimizer))
    assert results[0] == results[1]


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("before", [0, 2])
def test_a_conditional_step_is_a_whole_one_or_none(wanted, before):
    results = []
    for cls in (nn.Adam, alone(nn.Adam)):
        params = parameters()
        optimizer = cls(params, lr=0.1)
        for step in range(before):
            give_gradients(params, step)
            optimizer.step()
        give_gradients(params, 7)
        assert optimizer.step_if(ft.asarray(1.0) > (0.0 if wanted else 2.0)) is wanted
        results.append(everything(params, optimizer))
    assert results[0] == results[1]


def test_observed_memory_changes_no_value():
    results = []
    for observed in (False, True):
        params = parameters()
        optimizer = nn.Adam(params, lr=0.1)
        for step in range(4):
            give_gradients(params, step)
            if observed and step % 2:
                with mem.observe():
                    optimizer.step()
            else:
                optimizer.step()
        results.append(everything(params, optimizer))
    assert results[0] == results[1]


# ---- clipping and averages -------------------------------------------------------------------


def test_clipping_scales_every_gradient_by_the_norm_of_all():
    params = parameters()
    give_gradients(params, 1)
    before = [p.grad.tensor for p in params]
    total = nn.clip_grad_norm_(params, 0.5)
    assert total.item() == pytest.approx(sum(ft.sum(g * g).item() for g in before) ** 0.5, rel=1e-6)
    for parameter, grad in zip(params, before):
        expected = grad * (0.5 / (total + 1e-6))
        assert parameter.grad.tolist() == expected.tolist()
    nn.clip_grad_value_(params, 0.01)
    assert all(ft.all(p.grad.tensor * p.grad.tensor <= 0.0101**2).item() for p in params)


def test_a_gradient_that_changes_after_clipping_is_the_one_of_the_step():
    params = parameters()
    optimizer = nn.SGD(params, lr=1.0)
    give_gradients(params, 1)
    nn.clip_grad_norm_(params, 0.5)
    params[0].grad = ft.zeros((3, 4))
    values, grads = [p.tensor for p in params], [p.grad.tensor for p in params]
    optimizer.step()
    for parameter, value, grad in zip(params, values, grads):
        assert parameter.tolist() == (value - grad).tolist()


class Model(nn.Module):
    def __init__(self, count=6):
        self.items = nn.Sequential(*(nn.Linear(3, i + 1) for i in range(count)))
        self.register_buffer("mean", ft.ones((3,)))


def test_averages_are_those_of_each_parameter():
    model = Model()
    ema = nn.EMA(model, decay=0.75, buffers=True)
    expected = {name: value.tolist() for name, value in ema.averages.items()}
    own = {name: ft.asarray(value) for name, value in expected.items()}
    for step in range(3):
        for parameter in model.parameters():
            parameter.tensor = parameter.tensor + float(step)
        model.mean = model.mean * 2.0
        ema.update()
        now = {**{n: p.tensor for n, p in model.named_parameters()}, "mean": model.mean}
        own = {name: 0.75 * own[name] + 0.25 * now[name] for name in own}
        if step == 1:
            ema.load_state_dict(ema.state_dict())
    assert list(ema.averages) == list(expected)
    assert {n: x.tolist() for n, x in ema.averages.items()} == {
        n: x.tolist() for n, x in own.items()
    }


# ---- memory ----------------------------------------------------------------------------------


def test_a_vector_is_freed_with_the_values_cut_from_it():
    with mem.use(SystemManager()) as manager, ft.use("numpy"):
        params = [nn.Parameter(ft.zeros(10_000)) for _ in range(8)]
        own = sum(parameter.nbytes for parameter in params)
        optimizer = nn.SGD(params, lr=1.0)
        for _ in range(2):
            for parameter in params:
                parameter.grad = ft.ones(10_000)
            nn.clip_grad_norm_(params, 1.0)
            optimizer.step()
        optimizer.zero_grad()
        assert manager.stats().live_bytes == own
        for parameter in params:  # as a file that is loaded does
            parameter.tensor = ft.ones(10_000)
        assert manager.stats().live_bytes == own


# ---- operations ------------------------------------------------------------------------------


def multiplications(count):
    """Those of clipping, AdamW and an average, in a step of a model with `count` layers."""
    model = Model(count)
    optimizer, ema = nn.AdamW(model.parameters()), nn.EMA(model)
    calls = []

    def multiply(inner, x, y):
        calls.append(x.shape)
        return inner.multiply(x, y)

    for step in range(2):
        give_gradients([*model.parameters()], step)
        calls.clear()
        with ft.override(multiply=multiply):
            nn.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            ema.update()
    return len(calls)


def test_the_number_of_operations_does_not_depend_on_the_number_of_parameters():
    assert multiplications(2) == multiplications(12) < 24


def test_a_large_parameter_is_updated_alone():
    params = [nn.Parameter(ft.ones(shape)) for shape in [(300, 300), (4,), (5,)]]
    seen = set()

    def sqrt(inner, x):
        seen.add(x.shape)
        return inner.sqrt(x)

    optimizer = nn.Adam(params)
    give_gradients(params, 1)
    with ft.override(sqrt=sqrt):
        optimizer.step()
    assert seen == {(300, 300), (9,)}


class NormalizedSGD(nn.SGD):
    """Looks at a whole gradient, and does not say that it is elementwise."""

    def update(self, value, grad, state, group):
        return super().update(value, grad / ft.norm(grad), state, group)


def test_a_class_with_another_update_is_not_taken_for_elementwise():
    params = [nn.Parameter(ft.zeros(1)), nn.Parameter(ft.zeros(1))]
    for parameter, slope in zip(params, (3.0, 4.0)):
        parameter.grad = ft.full((1,), slope)
    NormalizedSGD(params, lr=1.0).step()
    assert [parameter.tolist() for parameter in params] == [[-1.0], [-1.0]]
    assert nn.SGD.elementwise and nn.AdamW.elementwise and not NormalizedSGD.elementwise
