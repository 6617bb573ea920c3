"""Arguments that cannot be right are refused where they are given, by errors of ours."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft


def nested(depth: int) -> nn.Module:
    model: nn.Module = nn.ReLU()
    for _ in range(depth):
        model = nn.Sequential(model)
    return model


@pytest.mark.defect("V18")
@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: nn.Linear("2", 3), r"\[Linear\] inputs '2': expected an int"),
        (lambda: nn.Conv2D(2, 3, 1.5), r"\[Conv2D\] kernel 1.5: expected an int"),
        (lambda: nn.Linear(2, 3, bias="no"), r"\[Linear\] bias 'no': expected True or False"),
        (lambda: nn.StepLR("sgd", 2), r"\[StepLR\] optimizer 'sgd': expected an Optimizer"),
        (lambda: nn.num_total_params([]), r"\[num_total_params\] model \[\]: expected a Module"),
        (lambda: nn.EMA("model"), r"\[EMA\] model .model.: expected a Module"),
        (lambda: nn.Linear(2, 3)("text"), r"\[linear\]|\[asarray\]|\[Linear\]"),
        (lambda: nn.LayerNorm(3)({"a": 1}), r"\[LayerNorm\] x .*: expected an Array"),
    ],
)
def test_the_argument_is_named(make, words):
    with pytest.raises(ft.FlError, match=words) as caught:
        make()
    assert isinstance(caught.value, TypeError)


@pytest.mark.defect("V18")
def test_shard_sizes_are_numbers(tmp_path):
    with pytest.raises(ft.DTypeError, match="shard_size '1GB': expected an int or None"):
        nn.save_weights(tmp_path / "w.safetensors", nn.Linear(2, 2), shard_size="1GB")


@pytest.mark.defect("V18")
def test_a_state_dict_is_a_mapping():
    with pytest.raises(nn.errors.StateDictError, match="list: expected a mapping"):
        nn.Linear(2, 2).load_state_dict([1])


@pytest.mark.defect("V18")
def test_modules_nested_too_deep_say_so():
    model = nested(600)
    for use in (lambda: model(ft.ones(2)), lambda: nn.config.to_config(model)):
        with pytest.raises(nn.errors.ModuleError, match="nested deeper than Python's limit"):
            use()


@pytest.mark.defect("V18")
def test_configurations_nested_too_deep_say_so():
    config = {"type": "ReLU", "arguments": {}}
    for _ in range(2000):
        config = {"type": "Sequential", "arguments": {"modules": [{"$module": config}]}}
    with pytest.raises(nn.errors.ModuleError, match="nested deeper than Python's limit"):
        nn.from_config(config)


@pytest.mark.defect("V19")
def test_unknown_keys_of_a_configuration_are_refused():
    config = {**nn.config.to_config(nn.Linear(2, 2)), "extra": 3}
    with pytest.raises(nn.errors.ModuleError, match="unknown keys extra"):
        nn.from_config(config)


@pytest.mark.defect("item 10")
@pytest.mark.parametrize("eps", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [nn.BatchNorm, nn.LayerNorm, nn.RMSNorm])
def test_a_term_under_a_root_is_finite_and_not_negative(make, eps):
    with pytest.raises(nn.errors.ModuleError, match="eps"):
        make(3, eps=eps)
