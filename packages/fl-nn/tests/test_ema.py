"""EMA: averages of parameters, their use, and their state."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_nn import CheckpointError, ModuleError, StateDictError
from fl_tensor.testing import needs


class Scalar(nn.Module):
    def __init__(self, value=0.0, dtype=ft.float64):
        self.weight = nn.Parameter(ft.asarray(value, dtype=dtype))
        self.register_buffer("mean", ft.asarray(value, dtype=dtype))
        self.register_buffer("count", ft.asarray(0))


def put(model, value):
    model.weight.tensor = ft.asarray(value, dtype=model.weight.dtype)
    model.mean = ft.asarray(value, dtype=model.mean.dtype)


def test_averages_follow_the_values():
    model = Scalar(1.0)
    ema = nn.EMA(model, decay=0.75)
    for value in (2.0, 4.0):
        put(model, value)
        ema.update()
    assert ema.averages["weight"].item() == 0.75 * (0.75 * 1.0 + 0.25 * 2.0) + 0.25 * 4.0
    assert list(ema.averages) == ["weight"]


def test_warm_up_soon_forgets_the_first_values():
    model = Scalar(1.0)
    ema = nn.EMA(model, decay=0.999, warm_up=True)
    put(model, 0.0)
    ema.update()
    assert ema.averages["weight"].item() == pytest.approx(2 / 11)


def test_the_model_has_the_averages_inside_the_block_alone():
    model = Scalar(1.0)
    ema = nn.EMA(model, decay=0.5)
    put(model, 3.0)
    ema.update()
    with pytest.raises(RuntimeError, match="stop"), ema.applied() as applied:
        assert applied is model and model.weight.item() == 2.0 and model.mean.item() == 3.0
        raise RuntimeError("stop")
    assert model.weight.item() == 3.0
    ema.copy_to()
    assert model.weight.item() == 2.0


def test_floating_buffers_can_be_averaged_too():
    model = Scalar(1.0)
    ema = nn.EMA(model, decay=0.5, buffers=True)
    put(model, 3.0)
    ema.update()
    assert sorted(ema.averages) == ["mean", "weight"]
    with ema.applied():
        assert model.mean.item() == 2.0


def test_assignments_to_a_buffer_do_not_reach_its_average_nor_a_state():
    model = Scalar([1.0, 2.0])
    ema = nn.EMA(model, buffers=True)
    state = ema.state_dict()
    model.mean[0] = 7.0
    assert ema.averages["mean"].tolist() == [1.0, 2.0]
    ema.averages["mean"][0] = 9.0
    assert state["tensors"]["mean"].tolist() == [1.0, 2.0]


def test_what_two_names_share_is_averaged_once():
    model = nn.Module()
    model.one = model.other = nn.Linear(2, 1)
    assert list(nn.EMA(model).averages) == ["one.weight", "one.bias"]


@needs("float16")
def test_averages_of_16_bit_values_do_not_overflow():
    model = Scalar(1.0, ft.float16)
    ema = nn.EMA(model, decay=0.9999)
    assert ema.averages["weight"].dtype is ft.float32
    put(model, 0.0)
    for _ in range(100):
        ema.update()
    assert ema.averages["weight"].item() == pytest.approx(0.9999**100, rel=1e-4)
    with ema.applied():
        assert model.weight.dtype is ft.float16


def train(model, optimizer, ema, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        ft.mean(ft.square(model(ft.randn((4, 2))))).backward()
        optimizer.step()
        ema.update()
    return [(name, average.tolist()) for name, average in ema.averages.items()]


def build(seed):
    ft.seed(seed)
    model = nn.Linear(2, 3)
    return model, nn.SGD(model.parameters(), 0.1), nn.EMA(model, 0.9, warm_up=True)


def test_a_checkpoint_goes_on_with_the_same_bits(tmp_path):
    model, optimizer, ema = build(0)
    train(model, optimizer, ema, 3)
    nn.save_checkpoint(tmp_path / "a", model, optimizer, parts={"ema": ema})
    expected = train(model, optimizer, ema, 3)
    model, optimizer, ema = build(1)
    nn.load_checkpoint(tmp_path / "a").restore(model, optimizer, parts={"ema": ema})
    assert train(model, optimizer, ema, 3) == expected


def test_a_part_that_does_not_fit_changes_nothing(tmp_path):
    model, optimizer, ema = build(0)
    nn.save_checkpoint(tmp_path / "a", model, optimizer, parts={"ema": ema})
    model, optimizer, _ = build(1)
    before, rate = model.weight.tolist(), optimizer.lr
    optimizer.lr = 5.0
    other = nn.EMA(nn.Linear(2, 4))
    checkpoint = nn.load_checkpoint(tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"weight is float32 \(3, 2\), here float32 \(4, 2\)"):
        checkpoint.restore(model, optimizer, parts={"ema": other})
    with pytest.raises(CheckpointError, match="it has no schedule state"):
        checkpoint.restore(model, optimizer, parts={"schedule": other})
    assert model.weight.tolist() == before and optimizer.lr == 5.0 != rate
    with pytest.raises(CheckpointError, match="names of parts have no dots: a.b"):
        nn.save_checkpoint(tmp_path / "b", model, parts={"a.b": other})


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ModuleError, match="decay=1.0: give a number in"):
        nn.EMA(Scalar(), decay=1.0)
    with pytest.raises(StateDictError, match="not the state of an EMA"):
        nn.EMA(Scalar()).load_state_dict({})
    with pytest.raises(StateDictError, match="not the state of an EMA"):
        nn.EMA(Scalar()).load_state_dict({"updates": 1, "tensors": {"weight": [1.0]}})
    with pytest.raises(StateDictError, match="missing weight; unexpected bias"):
        nn.EMA(Scalar()).load_state_dict({"updates": 1, "tensors": {"bias": ft.ones(1)}})


def test_a_removed_parameter_keeps_its_average():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    ema = nn.EMA(model, decay=0.5)
    held = ema.averages["1.bias"].tolist()
    model[1].bias = None
    ema.update()
    assert ema.averages["1.bias"].tolist() == held and "1.bias" in ema.state_dict()["tensors"]


def test_averages_can_be_given():
    model = nn.Linear(2, 2)
    ema = nn.EMA(model, decay=0.5)
    ema.averages = {name: ft.zeros_like(value) for name, value in ema.averages.items()}
    ema.update()
    assert ft.allclose(ema.averages["weight"], 0.5 * model.weight.tensor)
