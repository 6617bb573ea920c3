"""ResNet and ViT, and tables of published weights; tests/interop compares what they compute."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_vision.models import RESNET_HUGGING_FACE, VIT_HUGGING_FACE, VIT_TORCHVISION, ResNet, ViT


def small_vit():
    return ViT(patch=4, size=12, heads=3, layers=2, image=8, classes=5)


def small_resnet():
    return ResNet((1, 1, 1, 1), width=4, classes=5)


@pytest.mark.parametrize("build, pixels", [(small_resnet, 32), (small_vit, 8)])
def test_images_get_a_score_for_each_class(build, pixels):
    assert build().eval()(ft.zeros((2, 3, pixels, pixels))).shape == (2, 5)


@pytest.mark.parametrize("build, count", [(ResNet, 25_557_032), (ViT, 86_567_656)])
def test_there_are_as_many_parameters_as_published(build, count):
    with ft.use("null"):
        assert nn.num_total_params(build()) == count


@pytest.mark.parametrize(
    "build, table",
    [
        (small_resnet, RESNET_HUGGING_FACE),
        (small_vit, VIT_TORCHVISION),
        (small_vit, VIT_HUGGING_FACE),
    ],
)
def test_tables_lead_there_and_back(tmp_path, build, table):
    model, twin = build(), build()
    nn.save_weights(tmp_path / "x", model, rename=table)
    nn.load_weights(tmp_path / "x", twin, rename=table)
    for name, value in model.state_dict().items():
        assert value.tolist() == twin.state_dict()[name].tolist(), name


@pytest.mark.defect("V16")
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("build, pixels", [(small_resnet, 32), (small_vit, 8)])
def test_a_batch_without_images_gives_no_scores(build, pixels, training):
    assert build().train(training)(ft.zeros((0, 3, pixels, pixels))).shape == (0, 5)
