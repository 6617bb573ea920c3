"""DETR with ResNet-50, 41.5 million parameters: the network of fl_vision, with its criterion.

Carion et al., End-to-end object detection with transformers, 2020. Objects are matched by scipy on
both sides, as PyTorch has no matcher of its own; the statistics of batch normalisation are frozen.
"""

from __future__ import annotations

from collections.abc import Sequence

from numpy import zeros

import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as vision
from models.matching import CLASS, DISTANCE, NO_OBJECT, OVERLAP, assign

Batch = tuple[ft.Tensor, ft.Tensor, ft.Tensor]


class DETR(vision.DETR):
    """Settings as those of fl_vision's; `depths` and `width` are the backbone's, images `image`
    pixels wide and high with `objects` objects each."""

    def __init__(
        self,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        image: int = 800,
        classes: int = 91,
        queries: int = 100,
        objects: int = 7,
        size: int = 256,
        heads: int = 8,
        hidden: int = 2048,
        layers: int = 6,
        dropout: float = 0.1,
    ) -> None:
        backbone = nn.convert_frozen_batchnorm(vision.ResNet(depths, width, 0))
        super().__init__(
            backbone,
            classes,
            queries,
            size=size,
            heads=heads,
            hidden=hidden,
            encoder_layers=layers,
            decoder_layers=layers,
            dropout=dropout,
        )
        self.image, self.classes, self.objects = image, classes, objects

    def batch(self, size: int, generator: ft.Generator | None = None) -> Batch:
        """Random images (size, 3, image, image), classes (size, objects) and boxes
        (size, objects, 4), as centre, width and height."""
        generator = generator or ft.default_generator()
        images = generator.normal((size, 3, self.image, self.image))
        labels = generator.integers(0, self.classes, (size, self.objects))
        centres = generator.uniform((size, self.objects, 2), 0.3, 0.7)
        sizes = generator.uniform((size, self.objects, 2), 0.1, 0.5)
        return images, labels, ft.concatenate([centres, sizes], -1)

    def loss(self, batch: Batch) -> ft.Array:
        """The sum over decoder layers of cross entropy, distance and overlap of matched boxes."""
        images, labels, boxes = batch
        found = self(images)
        terms = [self._loss(x.logits, x.boxes, labels, boxes) for x in (*found.auxiliary, found)]
        return sum(terms[1:], terms[0])

    def _loss(
        self, logits: ft.Array, found: ft.Array, labels: ft.Array, boxes: ft.Array
    ) -> ft.Array:
        n, queries, scores = logits.shape
        costs = matching_costs(logits, found, labels, boxes)
        rows, columns = assign(costs.numpy() if costs.backend.has_values else zeros(costs.shape))
        places = ft.asarray(rows * queries + columns)
        flat = ft.reshape(labels, (-1,))
        targets = ft.scatter(ft.full((n * queries,), scores - 1, labels.dtype), places, flat)
        nothing = (targets == scores - 1).astype(logits.dtype)
        weights = nothing * (NO_OBJECT - 1.0) + 1.0
        log_p = ft.log_softmax(ft.reshape(logits, (n * queries, scores)), -1)
        own = ft.take_along_axis(log_p, ft.expand_dims(targets, 1), 1)[:, 0]
        entropy = -ft.sum(own * weights) / ft.sum(weights)
        matched = ft.gather(ft.reshape(found, (n * queries, 4)), places, 0)
        truth = ft.reshape(boxes, (-1, 4))
        count = truth.shape[0]
        distance = ft.sum(ft.abs(matched - truth)) / count
        overlap = ft.sum(1.0 - generalised_iou(matched, truth)) / count
        return CLASS * entropy + DISTANCE * distance + OVERLAP * overlap


def matching_costs(
    logits: ft.Array, found: ft.Array, labels: ft.Array, boxes: ft.Array
) -> ft.Tensor:
    """(N, queries, objects), without gradients."""
    logits, found = logits.detach(), found.detach()
    index = ft.broadcast_to(ft.expand_dims(labels, 1), (*logits.shape[:2], labels.shape[1]))
    likely = ft.take_along_axis(ft.softmax(logits, -1), index, -1)
    mine, theirs = ft.expand_dims(found, 2), ft.expand_dims(boxes, 1)
    distance = ft.sum(ft.abs(mine - theirs), -1)
    return DISTANCE * distance - CLASS * likely - OVERLAP * generalised_iou(mine, theirs)


def generalised_iou(a: ft.Array, b: ft.Array) -> ft.Array:
    """Of boxes (..., 4), centre, width and height, that broadcast: Rezatofighi et al., 2019."""
    lower_a, upper_a = a[..., :2] - a[..., 2:] / 2, a[..., :2] + a[..., 2:] / 2
    lower_b, upper_b = b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2
    shared = area(ft.relu(ft.minimum(upper_a, upper_b) - ft.maximum(lower_a, lower_b)))
    union = area(a[..., 2:]) + area(b[..., 2:]) - shared
    hull = area(ft.maximum(upper_a, upper_b) - ft.minimum(lower_a, lower_b))
    return shared / union - (hull - union) / hull


def area(sizes: ft.Array) -> ft.Array:
    return sizes[..., 0] * sizes[..., 1]
