"""Losses and all gradients of the models of the paper, in miniature, against their PyTorch twins.
`python benchmarks/check_models.py` compares them at full size."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from models import ALL_MODELS

torch = pytest.importorskip("torch")

from models.compare import BOUNDS, compare  # noqa: E402

every_model = pytest.mark.parametrize("name", ALL_MODELS)


@every_model
def test_loss_and_every_gradient(name):
    found = compare(ALL_MODELS[name], ALL_MODELS[name].small, 4)
    for dtype, bound in BOUNDS.items():
        error, where = found[dtype].worst()
        assert error <= bound, f"{dtype}: {where}"


def test_resnet_in_its_full_depth():
    # Not in float32: through 16 blocks a ReLU that decides otherwise is felt everywhere.
    settings = {**ALL_MODELS["resnet50"].small, "depths": (3, 4, 6, 3)}
    error, where = compare(ALL_MODELS["resnet50"], settings, 4)["float64"].worst()
    assert error <= BOUNDS["float64"], where


@every_model
def test_twins_of_full_size_have_the_same_names_and_shapes(name):
    model = ALL_MODELS[name]
    with ft.use("null"):
        ours = {name: x.shape for name, x in model.build().state_dict().items()}
    with torch.device("meta"):
        twin = model.twin()
    assert ours == {name: tuple(x.shape) for name, x in twin.state_dict().items()}
    assert sum(p.numel() for p in twin.parameters()) == model.parameters


@pytest.mark.parametrize("name", [name for name, model in ALL_MODELS.items() if model.still])
def test_twins_drop_out(name):
    model = ALL_MODELS[name]
    batch = [torch.tensor(x.numpy()) for x in model.build(**model.small).batch(4)]
    twin = model.twin(**model.small)
    assert twin.loss(batch).item() != twin.loss(batch).item()
