"""WeightNorm among threads, and around modules that have state of their own."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn.files.shards import save_tensors

NAMES = ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]


@pytest.mark.defect("V15")
@pytest.mark.parametrize(
    "layer", [lambda: nn.Linear(3, 4), lambda: nn.Conv1D(3, 4, 2)], ids=["Linear", "Conv1D"]
)
def test_a_thread_may_call_it_while_another_one_does(layer):
    inner = layer()
    norm, x = nn.WeightNorm(inner), ft.randn((2, 3, 3), ft.Generator(0))
    wanted = norm(x).tolist()
    found = []

    def meanwhile(module, inputs):
        if threading.current_thread() is threading.main_thread():
            thread = threading.Thread(target=lambda: found.append(norm(x).tolist()))
            thread.start()
            thread.join()

    inner.register_forward_pre_hook(meanwhile)
    assert norm(x).tolist() == wanted and found == [wanted]


@pytest.mark.defect("V15")
def test_its_module_is_not_changed_while_it_computes():
    inner = nn.Linear(3, 4)
    norm, seen = nn.WeightNorm(inner), []
    inner.register_forward_hook(lambda module, inputs, output: seen.append(inner.weight))
    norm(ft.ones((2, 3)))
    assert seen == [None]
    assert sorted(norm.state_dict()) == NAMES


def test_running_statistics_of_its_module_are_kept():
    plain, inner = nn.BatchNorm(3), nn.BatchNorm(3)
    norm, x = nn.WeightNorm(inner), ft.randn((8, 3), ft.Generator(0))
    for _ in range(2):
        np.testing.assert_allclose(norm(x).numpy(), plain(x).numpy(), rtol=1e-6)
    followed, expected = inner.running_mean.numpy(), plain.running_mean.numpy()
    np.testing.assert_allclose(followed, expected, rtol=1e-6, atol=1e-7)
    assert inner.num_batches_tracked.item() == 2
    norm.eval()
    np.testing.assert_allclose(norm(x).numpy(), plain.eval()(x).numpy(), rtol=1e-6)


# ---- names in files ------------------------------------------------------------------------------


class Network(nn.Module):
    def __init__(self):
        self.layers = [
            nn.WeightNorm(nn.Linear(3, 4)),
            nn.WeightNorm(nn.LSTM(4, 2), 0, "weight_hh_l0"),
        ]

    def forward(self, x):
        return self.layers[1](self.layers[0](x))[0]


def save_as_version_1(path, model):
    """A file as it was before names were PyTorch's: names of attributes, and version 1."""
    old = {}
    for number, norm in enumerate(model.layers):
        for name, parameter in norm.module.named_parameters():
            old[f"layers.{number}.module.{name}"] = parameter.tensor
        for name in ("weight_g", "weight_v"):
            old[f"layers.{number}.{name}"] = getattr(norm, name).tensor
    versions = {"Network": 1, "WeightNorm": 1, "Linear": 1, "LSTM": 1}
    notes = {"versions": json.dumps(versions), "shared": "{}", "format": "pt"}
    save_tensors(path, old, notes)


@pytest.mark.defect("N28")
def test_names_are_those_of_pytorch():
    names = list(Network().state_dict())
    assert sorted(n.removeprefix("layers.0.") for n in names if n.startswith("layers.0.")) == NAMES
    assert sorted(n.removeprefix("layers.1.") for n in names if n.startswith("layers.1.")) == [
        "bias_hh_l0",
        "bias_ih_l0",
        "parametrizations.weight_hh_l0.original0",
        "parametrizations.weight_hh_l0.original1",
        "weight_ih_l0",
    ]
    assert names == [name for name, _ in Network().named_parameters()]
    assert [name for name, _ in Network().named_modules()][1:3] == ["layers.0", "layers.0.module"]


@pytest.mark.defect("N28")
def test_files_with_the_names_of_version_1_load(tmp_path):
    old, new = Network(), Network()
    save_as_version_1(tmp_path / "old.safetensors", old)
    nn.load_weights(tmp_path / "old.safetensors", new)
    x = ft.randn((2, 5, 3), ft.Generator(0))
    assert new(x).tolist() == old(x).tolist()


@pytest.mark.defect("N28")
def test_files_of_today_load_too(tmp_path):
    first, second = Network(), Network()
    nn.save_weights(tmp_path / "w.safetensors", first)
    nn.load_weights(tmp_path / "w.safetensors", second)
    assert nn.all_params_close(first, second, 0.0)
