"""Bipartite matching of predicted and true boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_tensor.arguments import float_of
from fl_vision.detection.assignment import Pairs, batched_linear_sum_assignment
from fl_vision.detection.boxes import box_convert, paired_box_iou
from fl_vision.detection.checks import check_boxes, host_values
from fl_vision.detection.targets import HostObjects, padded, read_objects


@dataclass(frozen=True)
class HungarianMatcher:
    """One query for each object, at the least total cost. Carion et al., "End-to-end object
    detection with transformers", 2020.

    The cost of a query for an object is `cost_class` times minus the probability of its class, plus
    `cost_bbox` times the L1 distance of the boxes, plus `cost_giou` times minus their generalised
    IoU. Raises ArgumentError for weights that are negative or not finite.
    """

    cost_class: float = 1.0
    cost_bbox: float = 5.0
    cost_giou: float = 2.0

    def __post_init__(self) -> None:
        for name in ("cost_class", "cost_bbox", "cost_giou"):
            weight = float_of("HungarianMatcher", getattr(self, name), name)
            if not 0 <= weight < float("inf"):
                raise ft.ArgumentError(
                    f"[HungarianMatcher] {name} {weight:g}: expected a number of at least 0"
                )

    def __call__(self, logits: ft.Array, boxes: ft.Array, targets: Any) -> list[Pairs]:
        """For each image the matched queries and their objects, both int64, sorted by query.

        logits   (N, queries, classes + 1), floating; the last class is "no object"
        boxes    (N, queries, 4), cxcywh
        targets  one for each image, with `boxes` (T, 4), cxcywh, and `labels` (T,), T of any
                 number, also 0 or more than queries

        Raises ShapeError, DTypeError, IndexingError for labels that are no classes, and
        ArgumentError for bad target boxes or predictions that are not finite.
        """
        where = "HungarianMatcher"
        check_predictions(where, logits, boxes)
        classes = logits.shape[2] - 1
        objects = read_objects(where, targets, len(logits), classes, True)
        return self.match([(logits, boxes)], objects)[0]

    def match(
        self, layers: Sequence[tuple[ft.Array, ft.Array]], objects: list[HostObjects]
    ) -> list[list[Pairs]]:
        """The pairs of each layer, of logits and boxes, for objects that are checked."""
        found, labels, counts = padded(objects)
        # Costs of all layers before the first is read: a backend that defers computes them at once.
        costs = [
            self._costs(tensor_of(logits), tensor_of(boxes), found, labels)
            for logits, boxes in layers
        ]
        matched = []
        for (logits, boxes), cost in zip(layers, costs, strict=True):
            values = host_values("HungarianMatcher", "costs", cost, np.float64)
            if not np.isfinite(values).all():
                _refuse_infinite(logits, boxes)
            pairs = map(_by_query, batched_linear_sum_assignment(values, counts))
            matched.append([(queries[order], rows[order]) for rows, queries, order in pairs])
        return matched

    def _costs(
        self, logits: ft.Tensor, boxes: ft.Tensor, found: np.ndarray, labels: np.ndarray
    ) -> ft.Array:
        """Costs (N, T, queries)."""
        dtype = boxes.dtype if boxes.dtype.itemsize >= 4 else ft.float32
        boxes, probs = boxes.astype(dtype), ft.softmax(logits.astype(dtype), -1)
        truth = ft.expand_dims(ft.asarray(found, dtype, boxes.device, boxes.backend), 2)
        classes = ft.asarray(labels, ft.int64, boxes.device, boxes.backend)
        queries = ft.expand_dims(boxes, 1)
        chosen = ft.broadcast_to(ft.expand_dims(classes, 1), (len(probs), *_sizes(probs, classes)))
        costs = -self.cost_class * ft.transpose(ft.take_along_axis(probs, chosen, 2), (0, 2, 1))
        costs = costs + self.cost_bbox * ft.sum(ft.absolute(queries - truth), -1)
        found_corners, true_corners = (box_convert(x, "cxcywh", "xyxy") for x in (queries, truth))
        return costs - self.cost_giou * paired_box_iou(found_corners, true_corners, True)


def check_predictions(where: str, logits: Any, boxes: Any) -> None:
    """Raise ShapeError or DTypeError unless there are logits (N, queries, classes + 1) and boxes
    (N, queries, 4), both floating."""
    check_boxes(where, "boxes", boxes, 3)
    if not isinstance(logits, ft.Array) or not logits.dtype.is_floating:
        kind = logits.dtype if isinstance(logits, ft.Array) else type(logits).__name__
        raise ft.DTypeError(f"[{where}] logits are {kind}: give a floating array")
    if logits.ndim != 3 or logits.shape[:2] != boxes.shape[:2] or logits.shape[2] < 2:
        raise ft.ShapeError(
            f"[{where}] logits {logits.shape} and boxes {boxes.shape}: expected "
            "(images, queries, classes + 1) and (images, queries, 4)"
        )


def _sizes(probs: ft.Tensor, classes: ft.Tensor) -> tuple[int, int]:
    return probs.shape[1], classes.shape[1]


def _by_query(pairs: Pairs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (*pairs, np.argsort(pairs[1], kind="stable"))


def _refuse_infinite(logits: ft.Array, boxes: ft.Array) -> None:
    for name, x in (("logits", logits), ("boxes", boxes)):
        bad = np.argwhere(~np.isfinite(host_values("HungarianMatcher", name, x)))
        if len(bad):
            image, query = bad[0][:2]
            raise ft.ArgumentError(
                f"[HungarianMatcher] image {image}: the {name} of query {query} are not finite: "
                "training has diverged; lower the learning rate or clip gradients"
            )
