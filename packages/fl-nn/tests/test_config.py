"""Configurations: every module as plain values, and back."""

from __future__ import annotations

import json

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import ModuleError

MODULES = [
    (nn.Linear(3, 2, bias=False, dtype=ft.float64), (4, 3)),
    (nn.Conv2D(2, 4, (3, 1), 2, padding="same", groups=2), (1, 2, 5, 5)),
    (nn.ConvTranspose1D(2, 3, 3, stride=2, output_padding=1), (1, 2, 4)),
    (nn.Pool3D(2, mode="avg"), (1, 1, 4, 4, 4)),
    (nn.AdaptiveAvgPool2D((2, None)), (1, 1, 5, 3)),
    (nn.BatchNorm(3, momentum=None), (4, 3)),
    (nn.GroupNorm(2, 4), (2, 4, 3)),
    (nn.Dropout(0.3, generator=ft.Generator(5)), (3,)),
    (nn.PReLU(3), (2, 3)),
    (nn.Padding(((0, 0), (1, 2)), 0.5), (2, 3)),
    (nn.Cast(ft.float64), (2,)),
    (nn.Normalize((0, 1)), (2, 2)),
    (nn.GRU(3, 4, 2, bidirectional=True, batch_first=True), (2, 5, 3)),
    (nn.MultiHeadAttention(8, 4, kv_heads=2, relative=4), (2, 5, 8)),
    (nn.TransformerEncoderLayer(8, 2, 16, rotary=100.0, norm_first=True), (2, 5, 8)),
    (nn.Conformer(8, 2, 16, kernel=3), (2, 5, 8)),
    (nn.TDSBlock(2, 3, 4), (1, 2, 4, 5)),
    (nn.SpecAugment(5, time_share=0.2, fill="mean"), (2, 4, 9)),
    (nn.RawWavSpecAugment(bands=20, high=4000, max_kernel=501), (2, 60)),
    (nn.AdaptiveSoftMax(16, 9, [3, 6]), (2, 16)),
    (nn.WeightNorm(nn.Conv1D(2, 3, 2)), (1, 2, 4)),
    (nn.AdaptiveSoftMaxLoss(nn.AdaptiveSoftMax(8, 5, [2]), ignore_index=1), None),
    (nn.CategoricalCrossEntropy(weight=ft.asarray([1.0, 2.0])), None),
]


@pytest.mark.parametrize("module, shape", MODULES, ids=lambda m: type(m).__name__)
def test_a_module_comes_back_from_its_configuration(module, shape):
    config = json.loads(json.dumps(module.to_config()))
    twin = nn.from_config(config)
    assert type(twin) is type(module) and repr(twin) == repr(module)
    assert twin.to_config() == module.to_config()
    twin.load_state_dict(module.state_dict())
    if shape is not None:
        dtype = next((p.dtype for p in module.parameters()), ft.float32)
        x = ft.randn(shape, dtype=dtype)
        y, other = twin.eval()(x), module.eval()(x)
        pairs = zip(y, other) if isinstance(y, tuple) else [(y, other)]
        assert all(a.tolist() == b.tolist() for a, b in pairs)


@pytest.mark.defect("item 2")
def test_a_loss_of_log_probabilities_saved_under_the_old_name_computes_what_it_did():
    """Version 0.1 had one loss over classes, `CategoricalCrossEntropy`, of log-probabilities."""
    saved = {
        "type": "CategoricalCrossEntropy",
        "arguments": {
            "ignore_index": 4,
            "weight": {"$tensor": [1.0, 2.0, 0.5, 1.0, 1.0], "$dtype": "float32"},
            "label_smoothing": 0.1,
        },
    }
    loss = nn.from_config(saved)
    assert loss.to_config() == {**saved, "type": "CrossEntropy"}
    exact = nn.NLLLoss("mean", 4, 1, loss.weight, 0.1)  # what the old class did, to the bit
    assert repr(nn.from_config(exact.to_config())) == repr(exact)
    x, targets = ft.Generator(0).normal((64, 3)) * 4.0, ft.Generator(1).integers(0, 5, 64)
    model = nn.Sequential(nn.Linear(3, 5, generator=ft.Generator(2)), nn.LogSoftmax())
    found, gradients = [], []
    for each in (loss, exact):
        value = each(model(x), targets)
        model[0].weight.zero_grad()
        value.backward()
        found.append(value.item())
        gradients.append(model[0].weight.grad)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert ft.max(ft.absolute(gradients[0] - gradients[1])).item() <= 1e-6


def test_containers_tell_what_is_in_them_now():
    model = nn.Sequential(nn.Linear(2, 2))
    model.append(nn.Residual(nn.ReLU(), nn.ReLU()).add_shortcut(0, 3, nn.Linear(2, 2)))
    model[1].add_scale(3, 0.5)
    twin = nn.from_config(json.loads(json.dumps(model.to_config())))
    assert repr(twin) == repr(model)
    assert list(twin.state_dict()) == list(model.state_dict())


class Block(nn.Module):
    def __init__(self, size, *parts, depth=2, **options):
        self.layers = [nn.Linear(size, size) for _ in range(depth)]
        self.parts, self.options = list(parts), options

    def forward(self, x):
        for layer in [*self.layers, *self.parts]:
            x = layer(x)
        return x


def test_modules_of_ones_own_need_no_more_than_their_constructor():
    block = Block(3, nn.ReLU(), nn.Linear(3, 1), depth=1, table={"a": [1, 2]})
    config = json.loads(json.dumps(nn.Sequential(block).to_config()))
    with pytest.raises(ModuleError, match="types="):
        nn.from_config(config)
    twin = nn.from_config(config, types=[Block])
    assert list(twin[0].state_dict()) == list(block.state_dict())
    assert twin[0].options == {"table": {"a": (1, 2)}}
    assert type(Block.from_config(block.to_config())) is Block
    with pytest.raises(ModuleError, match="describes a Sequential"):
        Block.from_config(config)


@pytest.mark.parametrize(
    "config, words",
    [
        ({}, "no configuration"),
        (None, "no configuration"),
        ({"type": "Module2", "arguments": {}}, "'Module2' is known"),
        ({"type": "SGD", "arguments": {}}, "'SGD' is known"),
        ({"type": "os", "arguments": {}}, "'os' is known"),
        ({"type": "Linear", "arguments": {"inputs": 1}}, "outputs"),
        ({"type": "Linear", "arguments": {"inputs": 1, "outputs": 1, "color": 2}}, "color"),
        ({"type": "Linear", "arguments": {"inputs": 0, "outputs": 1}}, "at least 1"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config, words):
    with pytest.raises(ModuleError, match=words):
        nn.from_config(config)


def test_a_function_has_no_configuration():
    with pytest.raises(ModuleError, match="argument 'function' is a function"):
        nn.Sequential(nn.Transform(lambda x: x)).to_config()


def test_every_public_layer_and_loss_is_known_to_configurations() -> None:
    public = {
        name: cls
        for name, cls in vars(nn).items()
        if isinstance(cls, type) and issubclass(cls, nn.Module) and cls is not nn.Module
    }
    assert len(public) > 70
    for name, cls in public.items():
        with pytest.raises(ModuleError, match="takes no argument no_such_argument"):
            nn.from_config({"type": name, "arguments": {"no_such_argument": 1}})
        assert cls.__module__.startswith("fl_nn.")
    with pytest.raises(ModuleError, match="no module '_Conv' is known"):
        nn.from_config({"type": "_Conv", "arguments": {}})
