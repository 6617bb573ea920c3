"""Files with the names of DETR's authors load here, give the outputs of their network, and are
written back with the same names.

The network is built of PyTorch's own layers, which have these names, by the paper: Carion et al.,
"End-to-end object detection with transformers", 2020. Weights are random.
"""

from __future__ import annotations

import math

import pytest

import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as models

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from safetensors.torch import load_file, save_file  # noqa: E402

SIZE, HEADS, HIDDEN, LAYERS, QUERIES, CLASSES = 32, 4, 48, 2, 7, 5
OPTIONS = dict(dim_feedforward=HIDDEN, dropout=0.0, batch_first=True)


class Backbone(torch.nn.Module):
    """`0` of the authors' backbone: everything but the classifier is in `body`."""

    def __init__(self):
        super().__init__()
        norm = torchvision.ops.misc.FrozenBatchNorm2d
        resnet = torchvision.models.resnet18(norm_layer=norm)
        names = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")
        self.body = torch.nn.Sequential()
        for name in names:
            self.body.add_module(name, getattr(resnet, name))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        kinds = {
            "encoder": torch.nn.TransformerEncoderLayer,
            "decoder": torch.nn.TransformerDecoderLayer,
        }
        for part, kind in kinds.items():
            block = torch.nn.Module()
            block.layers = torch.nn.ModuleList(kind(SIZE, HEADS, **OPTIONS) for _ in range(LAYERS))
            self.add_module(part, block)
        self.decoder.norm = torch.nn.LayerNorm(SIZE)


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [SIZE, SIZE, SIZE, 4]
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:], strict=False)
        )

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x).sigmoid()


class AuthorsDETR(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = torch.nn.ModuleList([Backbone()])
        self.transformer = Transformer()
        self.query_embed = torch.nn.Embedding(QUERIES, SIZE)
        self.input_proj = torch.nn.Conv2d(512, SIZE, 1)
        self.class_embed = torch.nn.Linear(SIZE, CLASSES + 1)
        self.bbox_embed = Perceptron()

    def forward(self, images, inside):
        features = self.backbone[0].body(images)
        n, _, height, width = features.shape
        # The nearest pixel of the mask, as the authors interpolate it.
        rows = torch.arange(height) * images.shape[2] // height
        columns = torch.arange(width) * images.shape[3] // width
        seen = inside[:, rows][:, :, columns]
        x = self.input_proj(features).flatten(2).transpose(1, 2)
        places, padding = sine_positions(seen), ~seen.flatten(1)

        for layer in self.transformer.encoder.layers:
            q = x + places
            x = layer.norm1(x + layer.self_attn(q, q, x, key_padding_mask=padding)[0])
            x = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
        queries = self.query_embed.weight.expand(n, -1, -1)
        y, states = torch.zeros_like(queries), []
        for layer in self.transformer.decoder.layers:
            q = y + queries
            y = layer.norm1(y + layer.self_attn(q, q, y)[0])
            seen_here = layer.multihead_attn(y + queries, x + places, x, key_padding_mask=padding)[
                0
            ]
            y = layer.norm2(y + seen_here)
            y = layer.norm3(y + layer.linear2(layer.linear1(y).relu()))
            states.append(self.transformer.decoder.norm(y))
        states = torch.stack(states)
        return self.class_embed(states), self.bbox_embed(states)


def sine_positions(seen):
    """(N, H W, SIZE): half for rows, half for columns, counted from 0 to 2 pi inside the image."""
    half, parts = SIZE // 2, []
    for axis in (1, 2):
        count = seen.cumsum(axis, dtype=torch.float32)
        last = count.select(axis, -1).unsqueeze(axis)
        angle = count / (last + 1e-6) * 2 * math.pi
        rate = 10000.0 ** (2 * torch.div(torch.arange(half), 2, rounding_mode="floor") / half)
        x = angle.unsqueeze(-1) / rate
        parts.append(torch.stack([x[..., 0::2].sin(), x[..., 1::2].cos()], -1).flatten(-2))
    return torch.cat(parts, -1).flatten(1, 2)


def ours():
    return models.DETR(
        nn.convert_frozen_batchnorm(models.resnet18(0)),
        CLASSES,
        QUERIES,
        size=SIZE,
        heads=HEADS,
        hidden=HIDDEN,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        dropout=0.0,
    ).eval()


def test_their_files_here_and_our_files_there(tmp_path):
    torch.manual_seed(3)
    twin = AuthorsDETR().eval()
    for _, tensor in twin.state_dict().items():
        if tensor.ndim == 1:  # no scale is one, no shift zero, no statistic either
            tensor.add_(0.1 * torch.rand_like(tensor))
    images = torch.randn(2, 3, 96, 128)
    inside = torch.ones(2, 96, 128, dtype=torch.bool)
    inside[1, 64:], inside[1, :, 96:] = False, False
    with torch.no_grad():
        logits, boxes = twin(images, inside)
    theirs = tmp_path / "detr.safetensors"
    save_file(twin.state_dict(), theirs)

    model = ours()
    nn.load_weights(theirs, model, rename=models.DETR_ORIGINAL)
    found = model(ft.asarray(images.numpy()), ft.asarray(inside.numpy()))
    for number, layer in enumerate([*found.auxiliary, found]):
        for mine, other in ((layer.logits, logits[number]), (layer.boxes, boxes[number])):
            torch.testing.assert_close(torch.tensor(mine.numpy()), other, rtol=1e-4, atol=1e-4)
            assert other.std() > 1e-3

    written = tmp_path / "written.safetensors"
    nn.save_weights(written, model, rename=models.DETR_ORIGINAL)
    again = load_file(written)
    expected = twin.state_dict()
    assert set(again) == set(expected)
    assert all(torch.equal(again[name], expected[name]) for name in expected)
