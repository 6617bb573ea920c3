"""DETR: objects of an image as a set, from a transformer over the features of a backbone.

Carion et al., End-to-end object detection with transformers, 2020.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import fl_nn as nn
import fl_tensor as ft
from fl_vision.errors import UsageError
from fl_vision.models.feature_network import FeatureNetwork
from fl_vision.models.positions import SinePositions2D, reduce_mask
from fl_vision.models.resnet import resnet18, resnet50


@dataclass(frozen=True)
class DetectionOutput:
    """What DETR says of a batch; also by key, `output["logits"]`.

    logits     (N, queries, classes + 1): scores, the last one for "no object"
    boxes      (N, queries, 4): centre x, centre y, width, height as parts of the image, 0 to 1
    auxiliary  the same of each earlier decoder layer, the first layer first
    """

    logits: ft.Array
    boxes: ft.Array
    auxiliary: tuple[DetectionOutput, ...] = ()

    def keys(self) -> tuple[str, ...]:
        return "logits", "boxes", "auxiliary"

    def __getitem__(self, key: str) -> Any:
        if key not in self.keys():
            raise KeyError(f"{key!r}: one of {', '.join(self.keys())}")
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())


class MLP(nn.Module):
    """`layers` linear layers with ReLU between them: (..., inputs) to (..., outputs)."""

    def __init__(self, inputs: int, hidden: int, outputs: int, layers: int) -> None:
        sizes = [inputs, *[hidden] * (layers - 1), outputs]
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]

    def forward(self, x: ft.Array) -> ft.Array:
        for layer in self.layers[:-1]:
            x = ft.relu(layer(x))
        return self.layers[-1](x)


class DETR(nn.Module):
    """Images (N, 3, height, width) give a `DetectionOutput` of `queries` boxes.

    backbone   its last map goes into the transformer; its own classes are not used
    classes    of objects; one more score is for "no object"
    size, heads, hidden, dropout   of the transformer
    encoder_layers, decoder_layers   how many of each
    auxiliary  whether earlier decoder layers give boxes, too, which training wants

    `model(images, mask)`: mask (N, height, width) bool is True where an image is and False where it
    is padded to the size of the batch. Padding does not change what the transformer gives for an
    image. Without a mask there is no padding.

    Parameters have the names of the authors' files. Batch normalisation stays as the backbone has
    it; `detr_resnet50` freezes it. Raises `UsageError` for a backbone without feature maps and for
    sizes below 1.
    """

    head_names: ClassVar[tuple[str, ...]] = ("class_embed",)

    def __init__(
        self,
        backbone: FeatureNetwork,
        classes: int = 91,
        queries: int = 100,
        *,
        size: int = 256,
        heads: int = 8,
        hidden: int = 2048,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        dropout: float = 0.1,
        auxiliary: bool = True,
    ) -> None:
        if not isinstance(backbone, FeatureNetwork):
            raise UsageError(
                f"[DETR] backbone is a {type(backbone).__name__}: give a ResNet or a ConvNeXt"
            )
        least = min(classes, queries, size, heads, hidden, decoder_layers)
        if least < 1 or encoder_layers < 0 or size % heads:
            raise UsageError(
                f"[DETR] {classes} classes, {queries} queries, size {size}, {heads} heads, hidden "
                f"{hidden}, {encoder_layers} + {decoder_layers} layers: all at least 1, and heads "
                "divide the size"
            )
        self.auxiliary, self.level = auxiliary, list(backbone.channels)[-1]
        self.backbone = backbone
        self.input_proj = nn.Conv2D(backbone.channels[self.level], size, 1)
        self.positions = SinePositions2D(size)
        self.encoder = [
            nn.TransformerEncoderLayer(size, heads, hidden, dropout) for _ in range(encoder_layers)
        ]
        self.decoder = [
            nn.TransformerDecoderLayer(size, heads, hidden, dropout) for _ in range(decoder_layers)
        ]
        self.norm = nn.LayerNorm(size)
        self.query_embed = nn.Parameter(nn.init.normal((queries, size)))
        self.class_embed = nn.Linear(size, classes + 1)
        self.bbox_embed = MLP(size, size, 4, 3)
        for layer in (*self.encoder, *self.decoder):
            for linear in (layer.linear1, layer.linear2):
                linear.weight.tensor = nn.init.glorot_uniform(linear.weight.shape)

    def forward(self, images: ft.Array, mask: ft.Array | None = None) -> DetectionOutput:
        self._check(images, mask)
        features = self.backbone.feature_maps(images)[self.level]
        n, _, height, width = features.shape
        known = self._known(images, mask, height, width)
        key_mask = None if mask is None else known.reshape(n, height * width)
        places = self.positions(known, features.dtype)
        memory = ft.swapaxes(self.input_proj(features).reshape(n, -1, height * width), 1, 2)
        for layer in self.encoder:
            memory = layer(memory, key_mask=key_mask, positions=places)
        found = self._decode(memory, key_mask, places)
        outputs = [DetectionOutput(self.class_embed(x), self._boxes(x)) for x in found]
        return DetectionOutput(outputs[-1].logits, outputs[-1].boxes, tuple(outputs[:-1]))

    def _decode(
        self, memory: ft.Array, key_mask: ft.Array | None, places: ft.Array
    ) -> list[ft.Array]:
        # What the decoder layers give, all of them or the last, (N, queries, size) each.
        shape = (memory.shape[0], *self.query_embed.shape)
        queries = ft.broadcast_to(self.query_embed, shape)
        x, found = ft.zeros_like(queries), []
        for layer in self.decoder:
            x = layer(
                x,
                memory,
                memory_key_mask=key_mask,
                positions=queries,
                memory_positions=places,
            )
            found.append(x)
        return [self.norm(x) for x in (found if self.auxiliary else found[-1:])]

    def _boxes(self, x: ft.Array) -> ft.Array:
        return ft.sigmoid(self.bbox_embed(x))

    def _known(self, images: ft.Array, mask: ft.Array | None, height: int, width: int) -> ft.Array:
        if mask is not None:
            return reduce_mask(mask, height, width)
        # The same for all images: one of them broadcasts.
        return ft.full((1, height, width), True, ft.bool, images.device, images.backend)

    def _check(self, images: ft.Array, mask: ft.Array | None) -> None:
        if images.ndim != 4:
            raise ft.ShapeError(f"[DETR] images {images.shape}: expected (N, 3, height, width)")
        expected = (images.shape[0], *images.shape[2:])
        if mask is not None and (mask.shape != expected or mask.dtype is not ft.bool):
            raise ft.ShapeError(
                f"[DETR] mask {mask.shape} of {mask.dtype}: expected bools {expected}, True where "
                "an image is and False where it is padded"
            )


def detr_resnet50(classes: int = 91, queries: int = 100, **options: Any) -> DETR:
    """DETR with ResNet-50, whose batch normalisation is frozen: 41.5 million parameters. Options
    are those of `DETR`. Training wants pretrained weights in the backbone."""
    return DETR(nn.convert_frozen_batchnorm(resnet50(classes=0)), classes, queries, **options)


def detr_small(
    classes: int, queries: int = 20, *, width: int = 16, channels: int = 3, **options: Any
) -> DETR:
    """A DETR for images of some 128 pixels that trains from nothing: ResNet-18 of this `width` with
    a small stem, whose map is an eighth of the image, 3 + 3 layers of 128 features."""
    backbone = resnet18(0, width=width, small_stem=True, channels=channels)
    settings: dict[str, Any] = dict(
        size=128, heads=8, hidden=512, encoder_layers=3, decoder_layers=3, dropout=0.0
    )
    return DETR(backbone, classes, queries, **(settings | options))
