"""Published weights for other classes; frozen stages; settings for parts of a model."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as models
from fl_vision import UsageError


def resnet(classes):
    return models.ResNet((1, 1), 4, classes, bottleneck=False)


def values(model):
    return {name: x.tolist() for name, x in model.state_dict().items()}


def test_weights_for_other_classes_load_without_the_head(tmp_path):
    source, model = resnet(10), resnet(3)
    nn.save_weights(tmp_path / "x", source)
    before = values(model)
    assert models.load_pretrained(tmp_path / "x", model) == ["fc.weight", "fc.bias"]
    for name, value in values(model).items():
        assert value == (before if name.startswith("fc") else values(source))[name], name


def test_a_table_is_followed(tmp_path):
    source = models.ConvNeXt((1, 1, 1, 1), (4, 6, 8, 10), 10)
    model = models.ConvNeXt((1, 1, 1, 1), (4, 6, 8, 10), 3)
    nn.save_weights(tmp_path / "x", source, rename=models.CONVNEXT_TORCHVISION)
    left = models.load_pretrained(tmp_path / "x", model, rename=models.CONVNEXT_TORCHVISION)
    assert left == ["head.weight", "head.bias"]
    assert values(model)["norm.weight"] == values(source)["norm.weight"]


def test_the_head_may_be_wanted(tmp_path):
    nn.save_weights(tmp_path / "x", resnet(10))
    assert models.load_pretrained(tmp_path / "x", resnet(10), ignore_head=False) == []
    with pytest.raises(nn.CheckpointError, match=r"fc.weight has shape \(10, 8\), here \(3, 8\)"):
        models.load_pretrained(tmp_path / "x", resnet(3), ignore_head=False)


def test_a_file_that_does_not_fit_changes_nothing(tmp_path):
    nn.save_weights(tmp_path / "x", models.ResNet((1, 2), 4, 10, bottleneck=False))
    model = resnet(3)
    before = values(model)
    with pytest.raises(nn.CheckpointError, match=r"unexpected layer2\.1\.conv1\.weight"):
        models.load_pretrained(tmp_path / "x", model)
    assert values(model) == before
    with pytest.raises(nn.CheckpointError, match="unexpected"):
        models.load_pretrained(tmp_path / "x", model, rename=models.VIT_TORCHVISION)


def test_models_that_name_no_head_are_refused(tmp_path):
    nn.save_weights(tmp_path / "x", nn.Linear(2, 2))
    with pytest.raises(UsageError, match="Linear does not say in head_names"):
        models.load_pretrained(tmp_path / "x", nn.Linear(2, 2))


@pytest.mark.parametrize(
    "build, scores",
    [
        (lambda: resnet(10), lambda m, x: m(x)),
        (lambda: models.ViT(4, 12, 3, 1, 16, 10), lambda m, x: m(x)),
        (
            lambda: models.DETR(resnet(0), 10, 3, size=8, heads=2, hidden=8, encoder_layers=1,
                                decoder_layers=1),
            lambda m, x: m(x).logits[:, 0, :-1],
        ),
    ],
    ids=["resnet", "vit", "detr"],
)  # fmt: skip
def test_a_new_head_has_other_classes(build, scores):
    model = build().eval()
    models.replace_head(model, 4)
    assert scores(model, ft.zeros((2, 3, 16, 16))).shape == (2, 4)


def test_heads_that_cannot_be_replaced_are_refused():
    with pytest.raises(UsageError, match="0 classes: at least 1"):
        models.replace_head(resnet(3), 0)
    retina = models.RetinaNet(models.ResNet((1,) * 4, 4, 0), 3, size=4, depth=1)
    with pytest.raises(UsageError, match=r"classification.predict is a Conv2D.*load_pretrained"):
        models.replace_head(retina, 4)


def test_stages_freeze_up_to_the_last_one_named():
    model = models.ResNet((1, 1, 1), 4, 5, bottleneck=False)
    frozen = models.freeze_stages(model, "C3")
    assert {name.partition(".")[0] for name in frozen} == {"conv1", "bn1", "layer1", "layer2"}
    learning = {n.partition(".")[0] for n, p in model.named_parameters() if p.requires_grad}
    assert learning == {"layer3", "fc"}
    assert models.freeze_stages(resnet(3), "") == []
    with pytest.raises(UsageError, match="'C9': this network has C2, C3, C4"):
        models.freeze_stages(model, "C9")


def test_parameters_get_rates_and_weight_decay_by_their_names():
    model = models.ViT(4, 12, 3, 1, 8, 5)
    groups = models.parameter_groups(model, 0.1, 0.05, rates={"layers": 0.5, "patches": 0.0})
    of = {id(p): group for group in groups for p in group["params"]}
    assert len(of) == len(list(model.parameters()))
    settings = {
        n: (of[id(p)]["lr"], of[id(p)]["weight_decay"]) for n, p in model.named_parameters()
    }
    assert settings["token"] == settings["positions.weight"] == (0.1, 0.0)
    assert settings["head.weight"] == settings["head.bias"] == (0.1, 0.05)
    assert settings["layers.0.linear1.weight"] == (0.05, 0.05)
    assert settings["patches.weight"] == (0.0, 0.05)
    nn.AdamW(groups, lr=0.1)


def test_vectors_may_have_no_weight_decay_and_frozen_parameters_have_no_group():
    model = resnet(3)
    models.freeze_stages(model, "C2")
    groups = models.parameter_groups(model, 0.1, 0.05, decay_vectors=False)
    learning = [p for p in model.parameters() if p.requires_grad]
    assert sum(len(group["params"]) for group in groups) == len(learning)
    for group in groups:
        for parameter in group["params"]:
            assert group["weight_decay"] == (0.05 if parameter.ndim > 1 else 0.0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(lr=-1.0), "numbers of at least 0"),
        (dict(lr=0.1, rates={"backbone": 0.1}), "no parameter begins with 'backbone'; the first"),
        (dict(lr=0.1, rates={"layer1": 0.1, "layer1.0": 0.2}), "'layer1.0' is below another"),
        (dict(lr=0.1, rates={"layer1": -0.1}), "numbers of at least 0"),
    ],
)
def test_rates_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        models.parameter_groups(resnet(3), **arguments)
