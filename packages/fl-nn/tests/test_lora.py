"""Low-rank adaptation: outputs, what learns, merging, and files of adapters."""

from __future__ import annotations

import copy
import json

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn import lora
from fl_nn.rename import Merge, Rule, Table


class Network(nn.Module):
    """Attention and a feed-forward network."""

    def __init__(self):
        self.attention = nn.MultiHeadAttention(8, 4, kv_heads=2)
        self.layers = [nn.Linear(8, 12), nn.Linear(12, 5, bias=False)]

    def forward(self, x):
        x = ft.relu(self.layers[0](x + self.attention(x, causal=True)))
        return self.layers[1](x)


#: The network as another program would name it, with a projection for each of three.
NAMES = Table(
    Rule(
        [f"att.{p}.weight" for p in ("query", "key", "value")],
        "attention.in_proj_weight",
        Merge([8, 4, 4]),
    ),
    Rule("ffn{i}.{p}", "layers.{i}.{p}"),
)


def inputs(seed=1):
    return ft.Generator(seed).normal((2, 5, 8))


def close(x, y, tolerance=1e-6):
    return ft.allclose(x, y, rtol=tolerance, atol=tolerance)


def disturb(model, seed=3):
    """Adapters that do something."""
    for number, adapter in enumerate(lora.adapters(model).values()):
        values = ft.Generator(seed + number).normal(adapter.lora_B.shape)
        adapter.lora_B.tensor = values
    return model


TARGETS = [
    ("0", "1"),
    ("q_proj", "v_proj"),
    ("in_proj",),
    ("k_proj", "out_proj", "1"),
    r"attention\.(q|v)_proj|layers\.0",
]


@pytest.mark.parametrize("targets", TARGETS)
def test_outputs_stay_at_first(targets):
    model = Network()
    expected = model(inputs())
    assert lora.apply_lora(model, rank=2, targets=targets) is model
    assert ft.all(model(inputs()) == expected).item()


def test_the_addition_is_alpha_over_rank_times_the_product():
    layer = disturb(lora.LoRALinear(6, 4, rank=2, alpha=3.0))
    x = ft.Generator(0).normal((3, 6))
    a, b = layer.lora.lora_A, layer.lora.lora_B
    expected = ft.linear(x, layer.weight + 1.5 * ft.matmul(b, a), layer.bias)
    assert close(layer(x), expected, 1e-5)


def test_adapters_of_rows_are_those_of_the_rows():
    model = Network()
    plain = copy.deepcopy(model)
    disturb(lora.apply_lora(model, rank=2, targets=["v_proj"]))
    ((name, adapter),) = lora.adapters(model).items()
    assert name == "attention.v_proj" and adapter.lora_B.shape == (4, 2)
    rows = plain.attention.in_proj_weight
    rows.tensor = ft.concatenate([rows.tensor[:12], rows.tensor[12:] + adapter.product()], 0)
    assert close(model(inputs()), plain(inputs()), 1e-5)


@pytest.mark.parametrize("targets", TARGETS)
def test_only_adapters_have_gradients(targets):
    model = disturb(lora.apply_lora(Network(), rank=2, targets=targets))
    model(inputs()).sum().backward()
    for name, parameter in model.named_parameters():
        learns = name.endswith(("lora_A", "lora_B"))
        assert parameter.requires_grad is learns, name
        assert (parameter.grad is not None) is learns, name


@pytest.mark.parametrize("targets", TARGETS)
def test_merged_weights_give_the_same_outputs_and_unmerged_ones_are_as_before(targets):
    model = Network().eval()
    before = model.state_dict()
    disturb(lora.apply_lora(model, rank=2, targets=targets))
    expected = model(inputs())
    lora.merge_lora(lora.merge_lora(model))  # the second time nothing is left to merge
    assert close(model(inputs()), expected, 1e-5)
    lora.unmerge_lora(lora.unmerge_lora(model))
    assert all(close(model.state_dict()[name], value) for name, value in before.items())
    lora.remove_lora(lora.merge_lora(model))
    assert [type(m) for m in model.modules()] == [type(m) for m in Network().modules()]
    assert model.state_dict().keys() == before.keys()
    assert close(model(inputs()), expected, 1e-5)


def test_a_finetuning_lowers_the_loss_and_leaves_the_weights():
    model = Network()
    before = model.state_dict()
    lora.apply_lora(model, rank=4, alpha=8.0, dropout=0.1, targets=["q_proj", "v_proj", "0", "1"])
    optimizer = nn.AdamW(model.parameters(), lr=0.02)
    wanted = ft.Generator(5).integers(0, 5, (2, 5))
    losses = []
    for _ in range(40):
        loss = nn.cross_entropy(model(inputs()).reshape((-1, 5)), wanted.reshape((-1,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(ft.all(model.state_dict()[n] == value).item() for n, value in before.items())


def test_dropout_is_for_training():
    model = disturb(lora.apply_lora(Network(), rank=2, dropout=0.5, targets=["0"]))
    assert not close(model(inputs()), model(inputs()))
    model.eval()
    assert close(model(inputs()), model(inputs()))


def test_weights_saved_without_adapters_load_into_a_model_with_them(tmp_path):
    plain = Network()
    nn.save_weights(tmp_path / "x.safetensors", plain)
    model = lora.apply_lora(Network(), rank=2, targets=["0", "q_proj"])
    nn.load_weights(tmp_path / "x.safetensors", model, strict=False)
    assert close(model(inputs()), plain(inputs()))


def test_a_compiled_model_has_its_adapters():
    model = disturb(lora.apply_lora(Network(), rank=2, targets=["0", "q_proj"]))
    compiled = nn.compile(model)
    with ag.no_grad():
        assert close(compiled(inputs()), model(inputs()), 1e-5)


# ---- what does not fit ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(targets=["query"]), r"no layer of this Network has such a name; there are '0', '1',"),
        (dict(targets="("), "no regular expression"),
        (dict(targets=["0"], rank=0), "rank 0"),
        (dict(targets=["0", "1"], rank=6), r"rank 6 for a weight \(5, 12\): give 1 to 5"),
        (dict(targets=["0"], alpha=0.0), "alpha=0.0"),
        (dict(targets=["0"], dropout=1.5), "dropout|p=1.5"),
        (dict(targets=["in_proj", "q_proj"]), "two adapters"),
    ],
)
def test_settings_that_do_not_fit_change_nothing(options, message):
    model = Network()
    with pytest.raises(nn.ModuleError, match=message):
        lora.apply_lora(model, **{"rank": 2, **options})
    assert not lora.adapters(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_no_layer_gets_a_second_adapter():
    model = lora.apply_lora(Network(), rank=2, targets=["q_proj"])
    for name in ("q_proj", "in_proj"):
        with pytest.raises(nn.ModuleError, match="two adapters: use remove_lora"):
            lora.apply_lora(model, rank=2, targets=[name])


def test_a_shared_weight_is_not_merged():
    model = Network()
    model.twin = nn.Linear(8, 12)
    model.twin.weight = model.layers[0].weight
    lora.apply_lora(model, rank=2, targets=["0"])
    with pytest.raises(nn.ModuleError, match="layers.0 belongs to another layer"):
        lora.merge_lora(model)


# ---- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("targets", TARGETS)
def test_adapters_alone_are_saved_and_loaded(tmp_path, targets):
    model = disturb(lora.apply_lora(Network(), rank=2, alpha=5.0, targets=targets))
    lora.save_adapter(tmp_path, model)
    twin = copy.deepcopy(model)
    lora.remove_lora(twin)
    assert not close(twin(inputs()), model(inputs()))
    assert lora.load_adapter(tmp_path, twin) is twin
    assert ft.all(twin(inputs()) == model(inputs())).item()
    lora.load_adapter(tmp_path, disturb(twin, seed=9))  # into adapters that are there
    assert ft.all(twin(inputs()) == model(inputs())).item()


def test_files_have_the_names_of_the_table(tmp_path):
    model = disturb(lora.apply_lora(Network(), rank=2, targets=["q_proj", "v_proj", "0"]))
    lora.save_adapter(tmp_path, model, rename=NAMES)
    with nn.open_tensors(tmp_path / "adapter_model.safetensors") as file:
        assert set(file.tensors) == {
            f"base_model.model.{layer}.lora_{matrix}.weight"
            for layer in ("att.query", "att.value", "ffn0")
            for matrix in "AB"
        }
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["target_modules"] == ["ffn0", "query", "value"] and config["r"] == 2
    twin = lora.remove_lora(copy.deepcopy(model))
    lora.load_adapter(tmp_path, twin, rename=NAMES)
    assert ft.all(twin(inputs()) == model(inputs())).item()


def test_loading_unmerges_what_was_merged(tmp_path):
    model = disturb(lora.apply_lora(Network(), rank=2, targets=["q_proj"]))
    lora.save_adapter(tmp_path, model)
    expected = model(inputs())
    lora.load_adapter(tmp_path, lora.merge_lora(disturb(model, seed=8)))
    assert close(model(inputs()), expected, 1e-5)


def test_what_the_table_has_no_layer_for_is_not_saved(tmp_path):
    model = lora.apply_lora(Network(), rank=2, targets=["in_proj"])
    with pytest.raises(nn.CheckpointError, match="no layer of its own for attention.in_proj"):
        lora.save_adapter(tmp_path, model, rename=NAMES)


def test_a_model_without_adapters_is_not_saved(tmp_path):
    with pytest.raises(nn.ModuleError, match="no adapters: use apply_lora"):
        lora.save_adapter(tmp_path, Network())


def test_adapters_of_another_model_are_refused(tmp_path):
    lora.save_adapter(tmp_path, lora.apply_lora(Network(), rank=2, targets=["0"]))
    model = nn.Sequential(nn.Linear(8, 12))
    with pytest.raises(nn.CheckpointError, match=r"no adapter of this Sequential: no layer has"):
        lora.load_adapter(tmp_path, model)
    model = Network()
    model.layers[0] = nn.Linear(8, 13)
    with pytest.raises(nn.CheckpointError, match=r"\(12, 2\), layers.0 needs \(13, 2\)"):
        lora.load_adapter(tmp_path, model)
    model = lora.apply_lora(Network(), rank=2, targets=["1"])
    with pytest.raises(nn.CheckpointError, match="adapters of other layers"):
        lora.load_adapter(tmp_path, model)
    assert list(lora.adapters(model)) == ["layers.1"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"peft_type": "IA3"}, "peft_type is 'IA3': supported is 'LORA'"),
        ({"use_dora": True}, "use_dora is True"),
        ({"rank_pattern": {"0": 3}}, "rank_pattern"),
        ({"bias": "all"}, "bias is 'all'"),
        ({"r": 10**9}, r"needs \(1000000000, 8\)"),
        ({"r": "2"}, "r is '2': expected a whole number"),
        ({"lora_alpha": -1}, "lora_alpha is -1: expected a number above 0"),
    ],
)
def test_configurations_that_are_not_supported(tmp_path, changes, message):
    lora.save_adapter(tmp_path, lora.apply_lora(Network(), rank=2, targets=["0"]))
    path = tmp_path / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    model = Network()
    with pytest.raises(nn.CheckpointError, match=message):
        lora.load_adapter(tmp_path, model)
    assert not lora.adapters(model)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"[" * 50_000])
def test_damaged_files(tmp_path, name, content):
    lora.save_adapter(tmp_path, lora.apply_lora(Network(), rank=2, targets=["0"]))
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(nn.CheckpointError, match=name):
        lora.load_adapter(tmp_path, Network())
