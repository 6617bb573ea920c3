"""ResNet, ConvNeXt, ViT, DETR and RetinaNet: sizes, feature maps, padding, and what they learn."""

from __future__ import annotations

import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as models
from fl_vision import UsageError

PUBLISHED = {
    "resnet18": (models.resnet18, 11_689_512, 1.814),
    "resnet34": (models.resnet34, 21_797_672, 3.664),
    "resnet50": (models.resnet50, 25_557_032, 4.089),
    "resnet101": (models.resnet101, 44_549_160, 7.801),
    "resnet152": (models.resnet152, 60_192_808, 11.514),
    "vit_ti": (models.vit_ti, 5_717_416, None),
    "vit_s": (models.vit_s, 22_050_664, None),
    "vit_b": (models.vit_b, 86_567_656, 17.564),
    "vit_l": (models.vit_l, 304_326_632, 61.555),
    "convnext_t": (models.convnext_t, 28_589_128, 4.456),
    "convnext_s": (models.convnext_s, 50_223_688, 8.684),
    "convnext_b": (models.convnext_b, 88_591_464, 15.355),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_multiply_adds_are_those_published(name):
    build, parameters, billions = PUBLISHED[name]
    with ft.use("null"):
        model = build()
    assert nn.num_total_params(model) == parameters
    if billions is not None:
        found = nn.summary(model, (1, 3, 224, 224)).multiply_adds
        assert found / 1e9 == pytest.approx(billions, rel=0.01)


def test_detectors_have_as_many_parameters_as_published():
    with ft.use("null"):
        detr, retina = models.detr_resnet50(), models.retinanet_resnet50()
    # What transformers and torchvision count; there the scales and shifts of batch normalisation
    # are parameters of RetinaNet.
    assert nn.num_total_params(detr) == 41_524_768
    assert nn.num_total_params(retina) == 34_068_119 - 53_120


def test_parameters_of_a_resnet_by_a_closed_formula():
    width, classes = 4, 5
    stem = 3 * width * 49 + 2 * width
    count = stem
    before = width
    for stage in range(4):
        own = width * 2**stage
        count += 9 * before * own + 9 * own * own + 4 * own
        if before != own:
            count += before * own + 2 * own
        before = own
    count += before * classes + classes
    model = models.ResNet((1, 1, 1, 1), width, classes, bottleneck=False)
    assert nn.num_total_params(model) == count


def test_parameters_of_a_convnext_by_a_closed_formula():
    depths, widths, classes = (1, 2), (4, 8), 3
    count = 3 * 16 * 4 + 4 + 2 * 4 + (2 * 4 + 4 * 4 * 8 + 8)
    for depth, w in zip(depths, widths, strict=True):
        count += depth * (49 * w + w + 2 * w + (4 * w * w + 4 * w) + (4 * w * w + w) + w)
    count += 2 * 8 + 8 * classes + classes
    assert nn.num_total_params(models.ConvNeXt(depths, widths, classes)) == count


# ---- feature maps --------------------------------------------------------------------------------


def small_resnet(**options):
    return models.ResNet((1, 1, 1, 1), 4, 5, bottleneck=False, **options)


def small_convnext():
    return models.ConvNeXt((1, 1, 1, 1), (4, 6, 8, 10), 5)


@pytest.mark.parametrize("build", [small_resnet, small_convnext])
def test_maps_halve_from_stage_to_stage(build):
    network = build().eval()
    maps = network.feature_maps(ft.zeros((2, 3, 64, 64)))
    assert list(maps) == ["C2", "C3", "C4", "C5"]
    assert [x.shape[2] for x in maps.values()] == [16, 8, 4, 2]
    assert {name: x.shape[1] for name, x in maps.items()} == network.channels


def test_a_small_stem_keeps_the_size():
    maps = small_resnet(small_stem=True, channels=1).eval().feature_maps(ft.zeros((1, 1, 28, 28)))
    assert [x.shape[2] for x in maps.values()] == [28, 14, 7, 4]


@pytest.mark.parametrize("build", [small_resnet, small_convnext])
def test_a_backbone_gives_what_it_is_asked_for(build):
    network = build().eval()
    images = ft.randn((2, 3, 64, 64))
    logits, last = models.Backbone(network, ("logits", "C5"))(images)
    assert logits.tolist() == network(images).tolist()
    assert last.shape == (2, network.channels["C5"], 2, 2)
    assert models.Backbone(network, ("C4", "C3")).channels == (
        network.channels["C4"], network.channels["C3"],
    )  # fmt: skip


def test_without_classes_the_means_of_the_last_map_come_out():
    network = models.ResNet((1, 1), 4, 0, bottleneck=False).eval()
    images = ft.randn((2, 3, 32, 32))
    means = ft.mean(network.feature_maps(images)["C3"], (2, 3))
    assert ft.allclose(network(images), means, 1e-5, 1e-6).item()


# ---- drop path -----------------------------------------------------------------------------------


def test_drop_path_leaves_out_whole_samples_and_keeps_the_mean():
    ft.seed(0)
    layer = nn.DropPath(0.25)
    y = layer(ft.ones((4000, 2, 3))).numpy()
    assert sorted(set(y.ravel().tolist())) == pytest.approx([0.0, 4 / 3])
    assert (y == y[:, :1, :1]).all()
    # Four standard errors of a mean of 4,000 samples.
    assert abs((y[:, 0, 0] == 0).mean() - 0.25) < 4 * (0.25 * 0.75 / 4000) ** 0.5
    assert abs(y.mean() - 1.0) < 4 * (1 / 3 / 4000) ** 0.5
    x = ft.randn((3, 2))
    assert layer.eval()(x) is x


@pytest.mark.parametrize(
    "model, paths",
    [
        (
            models.ViT(4, 12, 3, 5, 8, 5, drop_path=0.2),
            lambda m: [x.drop_path.p if x.drop_path else 0.0 for x in m.layers],
        ),
        (
            models.ConvNeXt((2, 3), (4, 8), 5, drop_path=0.2),
            lambda m: [b.drop_path.p for blocks in m.blocks for b in blocks],
        ),
    ],
    ids=["vit", "convnext"],
)
def test_drop_path_grows_linearly_from_layer_to_layer(model, paths):
    assert paths(model) == pytest.approx([0.0, 0.05, 0.1, 0.15, 0.2])


def test_weights_of_vit_are_normal_and_cut_off():
    ft.seed(0)
    model = models.ViT(patch=4, size=48, heads=3, layers=2, image=8, classes=5)
    for name, parameter in model.named_parameters():
        values = parameter.numpy()
        if name.endswith("weight") and values.ndim > 1 and "positions" not in name:
            assert abs(values).max() <= 0.04, name
            assert 0.015 < values.std() < 0.02, name  # cutting off makes it 0.88 of 0.02
        elif name.endswith("bias"):
            assert not values.any(), name


# ---- frozen batch normalisation ------------------------------------------------------------------


def test_frozen_batch_norm_computes_what_evaluation_computes():
    ft.seed(0)
    model = small_resnet()
    images = ft.randn((4, 3, 32, 32))
    model(images)  # statistics that are not those of the start
    expected = model.eval()(images).tolist()
    frozen = nn.convert_frozen_batchnorm(model).train()
    assert frozen is model and frozen(images).tolist() == expected
    assert not [m for m in model.modules() if isinstance(m, nn.BatchNorm)]
    assert not [name for name, _ in model.named_parameters() if "bn" in name]


def test_a_frozen_layer_passes_gradients_on_and_keeps_its_state():
    norm = nn.FrozenBatchNorm(3)
    norm.weight, norm.running_var = ft.asarray([1.0, 2.0, 3.0]), ft.full((3,), 4.0 - 1e-5)
    model = nn.Sequential(nn.Conv2D(2, 3, 1), norm)
    before = {name: value.tolist() for name, value in norm.state_dict().items()}
    model(ft.randn((2, 2, 4, 4))).sum().backward()
    # Of a sum over 32 pixels each weight / sqrt(4) times.
    assert model[0].bias.grad.tolist() == pytest.approx([16.0, 32.0, 48.0])
    assert {name: value.tolist() for name, value in norm.state_dict().items()} == before


@pytest.mark.parametrize(
    "norm, message",
    [
        (nn.BatchNorm(3, track_stats=False), "only running statistics along one axis"),
        (nn.BatchNorm(6, axis=(1, 2)), "only running statistics along one axis"),
    ],
)
def test_batch_norm_that_cannot_be_frozen_is_refused(norm, message):
    first = nn.BatchNorm(3)
    with pytest.raises(nn.ModuleError, match=message):
        nn.convert_frozen_batchnorm(nn.Sequential(first, norm))
    assert type(first) is nn.BatchNorm


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: models.ResNet(()), r"\[ResNet\] depths \(\)"),
        (lambda: models.ResNet((1,), width=0), "width 0"),
        (lambda: models.ConvNeXt((1, 1), (4,)), "as many widths as depths"),
        (lambda: models.ConvNeXt(drop_path=1.0), r"\[ConvNeXt\] drop_path=1.0"),
        (lambda: models.ViT(image=30), "images of 30 pixels in patches of 16"),
        (lambda: models.vit_ti(drop_path=-0.1), r"\[ViT\] drop_path=-0.1"),
        (lambda: models.Backbone(small_resnet(), ("C6",)), "'C6': this network has C2, C3, C4, C5"),
        (lambda: models.Backbone(small_resnet(), ()), "no names: this network has"),
        (lambda: models.Backbone(nn.Linear(2, 2)), "network is a Linear: give a ResNet"),
        (lambda: models.DETR(nn.Linear(2, 2)), "backbone is a Linear: give a ResNet"),
        (lambda: models.DETR(small_resnet(), heads=7), "heads divide the size"),
        (lambda: models.DETR(small_resnet(), size=6, heads=2), "size 6"),
        (lambda: models.RetinaNet(small_resnet(), prior=0.0), "prior 0.0"),
        (lambda: models.FeaturePyramid(()), "at least one map"),
        (lambda: models.SinePositions2D(6), "must divide by 4"),
    ],
)
def test_what_cannot_be_built(build, message):
    with ft.use("null"), pytest.raises(UsageError, match=message):
        build()


def test_images_of_another_size_are_refused_by_vit():
    model = models.ViT(patch=4, size=12, heads=3, layers=1, image=8, classes=5)
    with pytest.raises(ft.ShapeError, match=r"images \(1, 3, 8, 12\).*build the network with"):
        model(ft.zeros((1, 3, 8, 12)))
