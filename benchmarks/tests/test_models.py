"""The models of the paper: as large as they should be, and they learn."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from models import ALL_MODELS

every_model = pytest.mark.parametrize("name", ALL_MODELS)


@every_model
def test_has_the_parameters_of_the_paper(name):
    model = ALL_MODELS[name]
    with ft.use("null"):  # shapes alone
        count = sum(p.size for p in model.build().parameters())
    assert count == model.parameters
    assert model.paper is None or abs(count / 1e6 - model.paper) < 1.0


@every_model
def test_takes_a_batch_of_the_benchmark(name):
    model = ALL_MODELS[name]
    with ft.use("null"):
        net = model.build()
        batch = net.batch(model.size)
        assert {x.shape[0] for x in batch} == {model.size}
        assert net.loss(batch).shape == ()


def test_batches_have_the_sizes_of_the_papers():
    def shapes(name):
        with ft.use("null"):
            return [x.shape for x in ALL_MODELS[name].build().batch(2)]

    for name in ("alexnet", "vgg16", "resnet50", "vit"):
        assert shapes(name) == [(2, 3, 224, 224), (2,)]
    for name in ("bert", "paper-bert"):
        assert shapes(name) == [(2, 128), (2, 128)]
    assert shapes("asr") == [(2, 80, 1000), (2, 334)]  # 10 s in frames of 10 ms, 3 to a step


@every_model
def test_a_batch_is_repeated_by_its_generator(name):
    net = ALL_MODELS[name].build(**ALL_MODELS[name].small)
    first, again, other = (net.batch(2, ft.Generator(seed)) for seed in (1, 1, 2))
    assert [x.tolist() for x in first] == [x.tolist() for x in again]
    assert [x.tolist() for x in first] != [x.tolist() for x in other]


@every_model
def test_learns_a_batch_by_heart(name):
    model = ALL_MODELS[name]
    ft.seed(0)
    net = model.build(**model.small, **model.still)
    batch = net.batch(4)
    optimizer = nn.Adam(net.parameters(), lr=3e-3)
    before = {name: p.tensor.tolist() for name, p in net.named_parameters()}
    losses = []
    for _ in range(15):
        loss = net.loss(batch)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    assert not [name for name, p in net.named_parameters() if p.tensor.tolist() == before[name]]


@pytest.mark.parametrize("name", [name for name, model in ALL_MODELS.items() if model.still])
def test_training_drops_out_and_evaluation_does_not(name):
    model = ALL_MODELS[name]
    ft.seed(0)
    net = model.build(**model.small)
    batch = net.batch(2)
    assert net.loss(batch).item() != net.loss(batch).item()
    net.eval()
    assert net.loss(batch).item() == net.loss(batch).item()
