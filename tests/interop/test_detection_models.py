"""Networks of fl_vision against torchvision and transformers: a file of theirs gives the same
outputs here, one training step gives the same weights, and a file of ours gives the same there.

Weights are random, statistics of batch normalisation too. Images are small.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as models
from fl_nn.rename import Table

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402
from transformers.utils import logging  # noqa: E402

logging.set_verbosity_error()
logging.disable_progress_bar()

LR = 1e-2


@dataclass(frozen=True)
class Case:
    """theirs, ours build the models; the functions give a list of outputs for images."""

    theirs: Callable[[], Any]
    ours: Callable[[], nn.Module]
    table: Table | None
    pixels: int
    call_theirs: Callable[[Any, Any], list[Any]]
    call_ours: Callable[[Any, Any], list[Any]]


def detr(layers=6, queries=100, hidden=2048, size=256):
    def theirs():
        config = transformers.DetrConfig(
            use_timm_backbone=False,
            backbone_config=transformers.ResNetConfig(out_features=["stage4"]),
            num_labels=91,
            num_queries=queries,
            d_model=size,
            encoder_layers=layers,
            decoder_layers=layers,
            encoder_ffn_dim=hidden,
            decoder_ffn_dim=hidden,
            dropout=0.0,
        )
        return transformers.DetrForObjectDetection(config)

    def ours():
        return models.detr_resnet50(
            queries=queries,
            size=size,
            hidden=hidden,
            encoder_layers=layers,
            decoder_layers=layers,
            dropout=0.0,
        )

    return Case(theirs, ours, models.DETR_HUGGING_FACE, 64, their_objects, our_objects)


def padded(images, library):
    """Which pixels are of the image: the second one is two thirds as wide and half as high."""
    n, _, height, width = images.shape
    inside = torch.ones(n, height, width, dtype=torch.bool)
    inside[1, height // 2 :], inside[1, :, 2 * width // 3 :] = False, False
    return inside if library is torch else ft.asarray(inside.numpy())


def their_objects(model, images):
    # Earlier layers as the authors have them: auxiliary_loss of transformers would pass on states
    # that are normalised already.
    states = []
    hooks = [
        layer.register_forward_hook(lambda layer, inputs, output: states.append(output))
        for layer in model.model.decoder.layers
    ]
    model.model(images, pixel_mask=padded(images, torch).long())
    for hook in hooks:
        hook.remove()
    states = model.model.decoder.layernorm(torch.stack(states))
    return [model.class_labels_classifier(states), model.bbox_predictor(states).sigmoid()]


def our_objects(model, images):
    last = model(images, padded(images, ft))
    layers = [*last.auxiliary, last]
    return [ft.stack([found[key] for found in layers]) for key in ("logits", "boxes")]


def retina_theirs():
    return torchvision.models.detection.retinanet_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=7
    )


def their_levels(model, images):
    found = model.head(list(model.backbone(images).values()))
    return [found["cls_logits"], found["bbox_regression"]]


def one(model, images):
    found = model(images)
    return [getattr(found, "logits", found)]


HALF_CONVNEXT = dict(depths=[1, 1, 2, 1], hidden_sizes=[8, 16, 24, 32])
CASES = {
    "resnet18": Case(torchvision.models.resnet18, lambda: models.resnet18(), None, 32, one, one),
    "resnet18-transformers": Case(
        lambda: transformers.ResNetForImageClassification(
            transformers.ResNetConfig(
                layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512]
            )
        ),
        lambda: models.resnet18(2),
        models.RESNET_HUGGING_FACE,
        64,
        one,
        one,
    ),
    "convnext-t": Case(
        torchvision.models.convnext_tiny,
        lambda: models.convnext_t(),
        models.CONVNEXT_TORCHVISION,
        64,
        one,
        one,
    ),
    "convnext-transformers": Case(
        lambda: transformers.ConvNextForImageClassification(
            # Its last norm has an eps of its own, the others 1e-6.
            transformers.ConvNextConfig(**HALF_CONVNEXT, num_labels=10, layer_norm_eps=1e-6)
        ),
        lambda: models.ConvNeXt((1, 1, 2, 1), (8, 16, 24, 32), 10),
        models.CONVNEXT_HUGGING_FACE,
        64,
        one,
        one,
    ),
    "vit-s": Case(
        lambda: torchvision.models.VisionTransformer(32, 16, 12, 6, 384, 1536),
        lambda: models.vit_s(image=32, dropout=0.0),
        models.VIT_TORCHVISION,
        32,
        one,
        one,
    ),
    "vit-s-transformers": Case(
        lambda: transformers.ViTForImageClassification(
            transformers.ViTConfig(
                hidden_size=384, num_attention_heads=6, intermediate_size=1536, image_size=64
            )
        ),
        lambda: models.vit_s(2, image=64, dropout=0.0, eps=1e-12),
        models.VIT_HUGGING_FACE,
        64,
        one,
        one,
    ),
    "detr-resnet50": detr(),
    "detr-small": detr(layers=2, queries=7, hidden=48, size=32),
    "retinanet": Case(
        retina_theirs,
        lambda: models.retinanet_resnet50(7),
        models.RETINANET_TORCHVISION,
        64,
        their_levels,
        lambda model, images: list(model(images).flattened()),
    ),
}
#: With FL_MODEL_STEPS=all those of full size, too, which take minutes.
STEPS = ["resnet18", "convnext-transformers", "vit-s", "detr-small"]
if os.environ.get("FL_MODEL_STEPS") == "all":
    STEPS += ["convnext-t", "detr-resnet50"]


def make_twin(case):
    torch.manual_seed(3)
    twin = case.theirs().eval()
    for name, tensor in twin.state_dict().items():
        if not tensor.is_floating_point():
            continue
        if "scale" in name and "layer" in name:  # of ConvNeXt: a millionth hides what it scales
            tensor.fill_(0.3)
        if tensor.ndim > 1 and not tensor.any():  # torchvision's heads, which hide all below
            tensor.normal_(std=0.05)
        if tensor.ndim == 1:  # no scale is one, no shift zero, no statistic either
            tensor.add_(0.1 * torch.rand_like(tensor))
    return twin


def of_torch(x):
    return ft.asarray(x.detach().numpy(), "float64" if x.dtype is torch.float64 else None)


def load_into_ours(case, twin, folder, dtype="float32"):
    if hasattr(twin, "save_pretrained"):
        twin.save_pretrained(folder)
    else:
        folder.mkdir()
        save_file(twin.state_dict(), folder / "model.safetensors")
    with ft.use("null"):  # no weights are drawn that are replaced at once
        model = case.ours().eval().to(dtype)
    nn.load_weights(folder, model, rename=case.table)
    return model


def read_theirs(case, twin, path):
    """A fresh model of theirs with our file. Only counts of batches may be missing, which are no
    part of frozen batch normalisation and change no output."""
    if hasattr(twin, "save_pretrained"):
        twin.config.save_pretrained(path.parent)
        fresh, notes = type(twin).from_pretrained(path.parent, output_loading_info=True)
        assert not any(notes.values()), notes
        return fresh.eval()
    fresh = case.theirs().eval()
    report = fresh.load_state_dict(load_file(path), strict=False)
    assert not report.unexpected_keys
    assert all(name.endswith("num_batches_tracked") for name in report.missing_keys)
    return fresh


def images_of(case):
    torch.manual_seed(1)
    return torch.randn(2, 3, case.pixels, case.pixels)


def assert_equal_outputs(found, expected, bound=1e-4):
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(mine.numpy()), theirs, rtol=bound, atol=bound)
        assert theirs.std() > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_their_files_here_and_our_files_there(tmp_path, name):
    case = CASES[name]
    twin, images = make_twin(case), images_of(case)
    with torch.no_grad():
        expected = case.call_theirs(twin, images)
    model = load_into_ours(case, twin, tmp_path / "theirs")
    assert_equal_outputs(case.call_ours(model, ft.asarray(images.numpy())), expected)

    path = tmp_path / "ours" / "model.safetensors"
    nn.save_weights(path, model, rename=case.table)
    fresh = read_theirs(case, twin, path)
    with torch.no_grad():
        for again, before in zip(case.call_theirs(fresh, images), expected, strict=True):
            assert torch.equal(again, before)


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_sgd_gives_the_same_weights(tmp_path, name):
    # In float64: in float32 a few ReLUs decide otherwise, which all layers below feel.
    case = CASES[name]
    twin, images = make_twin(case).double(), images_of(case).double()
    for parameter in twin.parameters():
        parameter.requires_grad_(True)
    model = load_into_ours(case, twin, tmp_path / "before", "float64")
    before = {n: torch.tensor(p.numpy()) for n, p in model.named_parameters()}

    torch.manual_seed(2)
    theirs = case.call_theirs(twin, images)
    weights = [torch.randn_like(x) for x in theirs]  # the loss is a random projection
    sum((x * w).sum() for x, w in zip(theirs, weights, strict=True)).backward()
    torch.optim.SGD(twin.parameters(), LR).step()

    ours = case.call_ours(model, of_torch(images))
    parts = [ft.sum(x * of_torch(w)) for x, w in zip(ours, weights, strict=True)]
    sum(parts[1:], parts[0]).backward()
    nn.SGD(model.parameters(), LR).step()

    found = dict(model.named_parameters())
    expected = load_into_ours(case, twin, tmp_path / "after", "float64")
    for name, parameter in expected.named_parameters():
        change = torch.tensor(parameter.numpy()) - before[name]
        mine = torch.tensor(found[name].numpy()) - before[name]
        # The first self-attention of DETR has zeros for values: its weights have no gradient.
        assert change.abs().max() > 0 or name == "decoder.0.self_attn.in_proj_weight", name
        assert (mine - change).abs().max() <= 1e-6 * change.abs().max() + 1e-12, name
