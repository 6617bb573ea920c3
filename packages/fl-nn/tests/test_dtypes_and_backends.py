"""Every layer trains in every floating dtype, and on a backend that is not the default one."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft


def network():
    return nn.Sequential(
        nn.Conv2D(1, 4, 3, 2, "same"), nn.BatchNorm(4), nn.ReLU(), nn.Pool2D(2, mode="avg"),
        nn.View((0, -1)), nn.LayerNorm(16), nn.Dropout(0.2), nn.Linear(16, 3),
    )  # fmt: skip


def steps(model, optimizer, x, y, count=5):
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


def data(dtype=ft.float32):
    return ft.randn((6, 1, 8, 8), ft.Generator(0), dtype=dtype), ft.asarray([0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("dtype", [ft.float32, ft.float64], ids=str)
@pytest.mark.parametrize("make", [lambda p: nn.SGD(p, 0.1, 0.9), lambda p: nn.Adam(p, 0.01)])
def test_values_gradients_and_state_keep_the_dtype_of_the_model(dtype, make):
    ft.seed(0)
    model = network().to(dtype)
    optimizer = make(model.parameters())
    losses = steps(model, optimizer, *data(dtype))
    assert losses[-1].item() < losses[0].item()
    assert {loss.dtype for loss in losses} == {dtype}
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert {p.grad.dtype for p in model.parameters()} == {dtype}
    assert {t.dtype for t in optimizer.state_dict()["tensors"].values()} == {dtype}
    assert model[1].running_mean.dtype is dtype


def other_backend():
    """A second instance of the default backend: mixing the two is an error."""
    return type(ft.current_backend())()


def test_a_model_moved_to_another_backend_trains_there_with_the_same_bits():
    x, y = data()
    results = []
    for backend in (ft.current_backend(), other_backend()):
        ft.seed(0)
        model = network().to(backend)
        optimizer = nn.Adam(model.parameters(), 0.01)
        losses = steps(model, optimizer, x.to(backend), y.to(backend))
        assert {p.backend for p in model.parameters()} == {backend}
        results.append([loss.item() for loss in losses])
    assert results[0] == results[1]


def test_a_model_can_be_built_and_trained_under_use():
    x, y = data()
    ft.seed(0)
    model = network()
    expected = [loss.item() for loss in steps(model, nn.SGD(model.parameters(), 0.1), x, y)]
    other = other_backend()
    with ft.use(other):
        ft.seed(0)
        model = network()
        assert model[0].weight.backend is other
        optimizer = nn.SGD(model.parameters(), 0.1)
        losses = steps(model, optimizer, x.to(other), y.to(other))
    assert [loss.item() for loss in losses] == expected


def test_state_dicts_cross_backends():
    other = other_backend()
    source, target = network(), network().to(other)
    target.load_state_dict(source.state_dict())
    assert {p.backend for p in target.parameters()} == {other}
    assert target[7].weight.tolist() == source[7].weight.tolist()


def test_a_checkpoint_restores_a_model_on_another_backend(tmp_path):
    x, y = data()
    model = network()
    optimizer = nn.Adam(model.parameters(), 0.01)
    steps(model, optimizer, x, y)
    nn.save_checkpoint(tmp_path / "a", model, optimizer)
    expected = [loss.item() for loss in steps(model, optimizer, x, y)]

    other = other_backend()
    model = network().to(other)
    optimizer = nn.Adam(model.parameters())
    nn.load_checkpoint(tmp_path / "a").restore(model, optimizer)
    losses = steps(model, optimizer, x.to(other), y.to(other))
    assert [loss.item() for loss in losses] == expected
