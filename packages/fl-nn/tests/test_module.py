"""Modules: how parameters are found, named, saved, moved, and shown."""

from __future__ import annotations

import copy

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_autograd import Variable
from fl_nn import ModuleError, Parameter, StateDictError


class Block(nn.Module):
    def __init__(self):
        self.scale = Parameter(ft.ones(3))
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 3, bias=False)]
        self.heads = {"a": nn.Linear(3, 1)}
        self.register_buffer("count", ft.zeros((), ft.int64))
        self.register_buffer("cache", ft.zeros(2), persistent=False)

    def forward(self, x):
        x = x * self.scale
        for layer in self.layers:
            x = layer(x)
        return self.heads["a"](x)


NAMES = [
    "scale",
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "heads.a.weight",
    "heads.a.bias",
]


def test_parameters_are_found_in_attributes_lists_and_dicts_in_order():
    assert [name for name, _ in Block().named_parameters()] == NAMES


def test_sequential_names_its_modules_by_number():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    names = [name for name, _ in model.named_parameters()]
    assert names == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert model[2] is list(model)[2] and len(model[:2]) == 2


def test_a_shared_parameter_is_one_parameter_with_two_names():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    assert len(list(model.parameters())) == 3
    assert set(model.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def test_an_attribute_that_is_replaced_is_no_longer_a_parameter():
    layer = nn.Linear(2, 2)
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert layer(ft.ones((1, 2))).shape == (1, 2)


def test_state_dict_holds_parameters_then_persistent_buffers_of_each_module():
    assert list(Block().state_dict()) == ["scale", "count", *NAMES[1:]]


def test_state_dict_is_a_snapshot():
    layer = nn.Linear(2, 1)
    state = layer.state_dict()
    before = state["weight"].tolist()
    layer.weight.tensor = layer.weight.tensor + 1.0
    assert state["weight"].tolist() == before
    state["weight"][0, 0] = 7.0
    assert layer.weight.tensor.tolist()[0][0] != 7.0
    norm = nn.BatchNorm(2)
    state = norm.state_dict()
    state["running_mean"][0] = 7.0
    assert norm.running_mean.tolist() == [0.0, 0.0]
    norm.load_state_dict(state)
    state["running_mean"][0] = 8.0
    assert norm.running_mean.tolist() == [7.0, 0.0]


def test_load_state_dict_restores_every_value():
    source, target = Block(), Block()
    source.count = ft.asarray(5)
    target.load_state_dict(source.state_dict())
    assert target.count.item() == 5
    x = ft.randn((4, 3))
    assert target(x).tolist() == source(x).tolist()


def test_load_state_dict_lists_every_difference_and_changes_nothing():
    layer = nn.Linear(2, 3)
    before = layer.weight.tolist()
    state = {"weight": ft.zeros((3, 2)), "bias": ft.zeros(4), "extra": ft.zeros(1)}
    with pytest.raises(StateDictError) as error:
        layer.load_state_dict(state)
    assert "bias has shape (4,), here (3,)" in str(error.value)
    assert "unexpected extra" in str(error.value)
    assert layer.weight.tolist() == before


def test_load_state_dict_names_missing_tensors_and_other_dtypes():
    with pytest.raises(StateDictError, match="missing bias.*weight is float64, here float32"):
        nn.Linear(1, 1).load_state_dict({"weight": ft.zeros((1, 1), ft.float64)})


def test_load_state_dict_takes_variables_and_lists():
    layer, other = nn.Linear(1, 1), nn.Linear(1, 1)
    layer.load_state_dict({"weight": other.weight, "bias": [2.0]})
    assert layer.weight.tolist() == other.weight.tolist() and layer.bias.tolist() == [2.0]


def test_load_state_dict_not_strict_takes_what_both_have():
    layer = nn.Linear(1, 1)
    layer.load_state_dict({"weight": ft.ones((1, 1)), "other": ft.ones(1)}, strict=False)
    assert layer.weight.tolist() == [[1.0]]


def test_to_converts_floating_parameters_and_buffers_in_place():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2))
    parameters = list(model.parameters())
    assert model.to(ft.float64) is model
    assert [p.dtype for p in parameters] == [ft.float64] * 4
    assert model[1].running_mean.dtype is ft.float64
    assert model[1].num_batches_tracked.dtype is ft.int64
    assert model(ft.randn((4, 2), dtype=ft.float64)).dtype is ft.float64


def test_to_takes_names_of_dtypes_and_devices():
    model = nn.BatchNorm(2).to("float64").to("cpu")
    assert model.weight.dtype is ft.float64 and model.num_batches_tracked.dtype is ft.int64


def test_a_frozen_parameter_gets_no_gradient_and_no_update():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].weight.requires_grad = False
    before = [p.tolist() for p in model.parameters()]
    optimizer = nn.Adam(model.parameters(), 0.1)
    optimizer.zero_grad()
    ft.sum(model(ft.ones((1, 2)))).backward()
    optimizer.step()
    changed = [p.tolist() != old for p, old in zip(model.parameters(), before)]
    assert changed == [False, True, True, True]
    assert not model.to(ft.float64)[0].weight.requires_grad


def test_to_keeps_shared_parameters_shared():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    model.to(ft.float64)
    assert model[1].weight is model[0].weight


def test_to_refuses_an_integer_dtype():
    with pytest.raises(ModuleError, match="floating"):
        nn.Linear(1, 1).to(ft.int64)


def test_to_moves_to_another_backend():
    model = nn.Linear(2, 3).to(ft.get_backend("null"))
    assert model.weight.backend.name == "null"


def test_train_and_eval_reach_every_module():
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    assert all(module.training for module in model.train().modules())


def test_evaluating_puts_every_mode_back():
    model = nn.Sequential(nn.Dropout(), nn.Linear(1, 1))
    model[0].eval()
    with nn.evaluating(model):
        assert not model.training and not model(ft.ones((1, 1))).requires_grad
    assert [module.training for module in model.modules()] == [True, False, True]


def test_zero_grad_forgets_gradients():
    layer = nn.Linear(2, 1)
    ft.sum(layer(ft.ones((1, 2)))).backward()
    assert layer.weight.grad is not None
    layer.zero_grad()
    assert layer.weight.grad is None and layer.bias.grad is None


def test_operations_on_a_parameter_give_plain_variables():
    result = Parameter(ft.ones(2)) * 2.0
    assert type(result) is Variable and result.requires_grad


def test_forward_hooks_see_and_may_replace_the_output():
    layer, seen = nn.ReLU(), []
    remove = layer.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    again = layer.register_forward_hook(lambda module, inputs, output: output + 1.0)
    x = ft.asarray([-1.0, 2.0])
    assert layer(x).tolist() == [1.0, 3.0] and seen == [x]
    remove()
    again()
    assert layer(x).tolist() == [0.0, 2.0] and len(seen) == 1


def test_forward_pre_hooks_see_and_may_replace_the_inputs():
    layer, seen = nn.ReLU(), []
    remove = layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs))
    again = layer.register_forward_pre_hook(lambda module, inputs: -inputs[0])
    x = ft.asarray([-1.0, 2.0])
    assert layer(x).tolist() == [1.0, 0.0] and seen == [(x,)]
    remove()
    again()
    assert layer(x).tolist() == [0.0, 2.0] and len(seen) == 1


def test_freeze_stops_learning_here_and_below_and_back():
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1)))
    model[1].freeze()
    assert [p.requires_grad for p in model.parameters()] == [True, True, False, False]
    ft.sum(model(ft.ones((1, 2)))).backward()
    assert model[1][0].weight.grad is None and model[0].weight.grad is not None
    assert all(p.requires_grad for p in model.freeze(False).parameters())


def test_deepcopy_gives_a_model_of_its_own():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    twin = copy.deepcopy(model)
    twin[0].weight.tensor = twin[0].weight.tensor + 1.0
    twin[1].generator.uniform((3,))
    assert model[0].weight.tolist() != twin[0].weight.tolist()
    assert model[1].generator.state() != twin[1].generator.state()
    assert type(twin[0].weight) is Parameter and twin[0].weight.requires_grad


def test_repr_is_a_tree_with_the_settings():
    model = nn.Sequential(nn.Conv2D(1, 4, 3, padding="same"), nn.Sequential(nn.Linear(2, 3)))
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Conv2D(1, 4, kernel=3, padding=same)\n"
        "  (1): Sequential(\n"
        "    (0): Linear(2, 3)\n"
        "  )\n"
        ")"
    )


def test_a_module_that_contains_itself_is_refused():
    model = nn.Sequential(nn.ReLU())
    model.me = model
    with pytest.raises(ModuleError, match="contains itself"):
        list(model.parameters())


def test_a_module_without_forward_says_so():
    with pytest.raises(ModuleError, match="Module defines no forward"):
        nn.Module()(1)


def test_sequential_refuses_what_is_no_module():
    with pytest.raises(ModuleError, match="item 1 is"):
        nn.Sequential(nn.ReLU(), len)
    with pytest.raises(ModuleError, match="no modules"):
        nn.Sequential()(1)


# ---- all parameters at once ----------------------------------------------------------------------


def test_all_that_a_model_learns_is_counted_once():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3), nn.Linear(2, 3))
    model[2].weight = model[0].weight
    model[1].freeze()
    assert nn.num_total_params(model) == 6 + 3 + 3 + 3 + 3


def test_models_are_close_when_all_their_parameters_are():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    twin = copy.deepcopy(model)
    assert nn.all_params_close(model, twin)
    twin[1].weight.tensor = twin[1].weight.tensor + 1e-3
    assert not nn.all_params_close(model, twin)
    assert nn.all_params_close(model, twin, atol=1e-2)
    assert not nn.all_params_close(model, nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)))
    assert not nn.all_params_close(model, nn.Sequential(nn.Linear(2, 3)))
    assert not nn.all_params_close(nn.Linear(1, 1), nn.Linear(1, 1, dtype=ft.float64), atol=9.0)
