"""A whole model goes to another backend by its name; optimizers go along."""

from __future__ import annotations

import pytest

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.dispatch import registry

pytestmark = pytest.mark.defect("O7", "item 8")


class Moon(NumpyBackend):
    CONTRACT = (1, 0)
    name = "far-moon"


@pytest.fixture
def moon():
    registry.REGISTRY.register("far-moon", Moon)
    yield registry.get_backend("far-moon")
    del registry.REGISTRY._own["far-moon"], registry._instances["far-moon"]
    registry.REGISTRY._loaded.pop("far-moon", None)


def network():
    ft.seed(3)
    with ft.use("numpy"):
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8), nn.ReLU(), nn.Linear(8, 2))


def train(model, optimizer, backend):
    x = ft.Generator(1).normal((6, 4), backend=backend)
    loss = (model(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_parameters_and_buffers_move(moon):
    model = network()
    assert model.to("far-moon") is model
    held = [*model.named_parameters(), *model.named_buffers()]
    assert len(held) == 9 and all(x.backend is moon for _, x in held)


def test_training_goes_on_with_the_state_of_the_optimizer(moon):
    stays, goes = network(), network()
    optimizers = [nn.Adam(model.parameters(), lr=0.1) for model in (stays, goes)]
    for _ in range(3):
        assert train(stays, optimizers[0], "numpy") == train(goes, optimizers[1], "numpy")
    state = optimizers[1].state_dict()
    goes.to("far-moon")
    optimizers[1].load_state_dict(state)
    for _ in range(3):
        assert train(stays, optimizers[0], "numpy") == train(goes, optimizers[1], "far-moon")


def test_a_model_and_a_batch_on_two_backends_say_how_to_move_the_model(moon):
    x = ft.ones((6, 4), backend="far-moon")
    with pytest.raises(ft.BackendError, match=r"model\.to\('far-moon'\)"):
        network()(x)


def test_gradients_come_back_over_a_named_backend(moon):
    x = ag.Variable(ft.asarray([1.0, 2.0], backend="numpy"), requires_grad=True)
    (x.to("far-moon") * 3.0).sum().backward()
    assert x.grad.backend is x.backend and x.grad.tolist() == [3.0, 3.0]
