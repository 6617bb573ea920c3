"""The loss of a set predictor: DETR's."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_tensor.arguments import float_of, int_of
from fl_vision.detection.assignment import Pairs
from fl_vision.detection.boxes import box_convert, paired_box_iou
from fl_vision.detection.matcher import HungarianMatcher, check_predictions
from fl_vision.detection.targets import HostObjects, field, read_objects


class SetCriterion(nn.Module):
    """Cross entropy of all queries, L1 and generalised IoU of matched boxes, for the last layer and
    each auxiliary one. Carion et al., 2020.

    classes       without "no object", which is the last class of the logits
    matcher       `HungarianMatcher()` if None; the pairs of each layer are its own
    weight_ce, weight_bbox, weight_giou  factors in the sum over losses
    no_object     the weight of class "no object" in the cross entropy
    communicator  box losses are divided by the mean number of boxes over these ranks, at least 1,
                  and the cross entropy by the mean weight of all queries. Give it the communicator
                  of the Trainer: with equal shares the gradients are those of one rank

    Raises ArgumentError, DTypeError.
    """

    def __init__(
        self,
        classes: int,
        matcher: HungarianMatcher | None = None,
        *,
        weight_ce: float = 1.0,
        weight_bbox: float = 5.0,
        weight_giou: float = 2.0,
        no_object: float = 0.1,
        communicator: dist.Communicator | None = None,
    ) -> None:
        self.classes = int_of("SetCriterion", classes, "classes")
        if self.classes < 1:
            raise ft.ArgumentError(f"[SetCriterion] classes {classes}: expected at least 1")
        if matcher is not None and not isinstance(matcher, HungarianMatcher):
            raise ft.DTypeError(f"[SetCriterion] matcher {matcher!r}: expected a HungarianMatcher")
        if communicator is not None and not isinstance(communicator, dist.Communicator):
            raise ft.DTypeError(
                f"[SetCriterion] communicator {communicator!r}: expected a Communicator of fl_dist"
            )
        self.matcher, self.communicator = matcher or HungarianMatcher(), communicator
        self.weight_ce = _weight("weight_ce", weight_ce)
        self.weight_bbox = _weight("weight_bbox", weight_bbox)
        self.weight_giou = _weight("weight_giou", weight_giou)
        self.no_object = _weight("no_object", no_object)

    def forward(self, outputs: Any, targets: Any) -> ft.Array:
        """The weighted sum of `losses`, a scalar."""
        weights = {"ce": self.weight_ce, "bbox": self.weight_bbox, "giou": self.weight_giou}
        terms = [
            loss * weights[name.split("_")[1]]
            for name, loss in self.losses(outputs, targets).items()
        ]
        return ft.sum(ft.stack(terms))

    def losses(self, outputs: Any, targets: Any) -> dict[str, ft.Array]:
        """Unweighted losses by name: loss_ce, loss_bbox, loss_giou, and the same with _0, _1, ...
        for auxiliary layers.

        outputs  an object or a mapping with `logits` (N, queries, classes + 1), `boxes`
                 (N, queries, 4), cxcywh as shares of the image, and optionally `auxiliary`, a
                 sequence of the same
        targets  one for each image, with `boxes` (T, 4), cxcywh, and `labels` (T,); T may be 0

        Raises what `HungarianMatcher` raises.
        """
        where = "SetCriterion"
        auxiliary = field(where, "outputs", outputs, "auxiliary", ())
        layers = {"": outputs, **{f"_{k}": layer for k, layer in enumerate(auxiliary)}}
        read: list[tuple[ft.Array, ft.Array]] = []
        for ending, layer in layers.items():
            what = f"outputs.auxiliary[{ending[1:]}]" if ending else "outputs"
            logits, boxes = (field(where, what, layer, name) for name in ("logits", "boxes"))
            check_predictions(f"{where}: {what}" if ending else where, logits, boxes)
            if logits.shape[2] != self.classes + 1:
                raise ft.ShapeError(
                    f"[{where}] {what}: logits {logits.shape} for {self.classes} classes: expected "
                    f"{self.classes + 1} on the last axis, one for 'no object'"
                )
            read.append((logits, boxes))
        logits = read[0][0]
        objects = read_objects(where, targets, len(logits), self.classes, True)
        number, weight = self._per_rank(objects, logits)
        found: dict[str, ft.Array] = {}
        pairs = self.matcher.match(read, objects)
        for ending, layer, matched in zip(layers, read, pairs, strict=True):
            for name, loss in self._layer(*layer, matched, objects, number, weight).items():
                found[name + ending] = loss
        return found

    def _layer(
        self,
        logits: ft.Array,
        boxes: ft.Array,
        pairs: list[Pairs],
        objects: list[HostObjects],
        number: float,
        weight: float,
    ) -> dict[str, ft.Array]:
        images, queries = boxes.shape[:2]
        # Of each query: the class, whether it is matched, and the true box, or else any box. Shapes
        # do not depend on the number of objects: backends that compile see the same step again.
        classes = np.full((images, queries), self.classes, np.int64)
        is_matched = np.zeros((images, queries))
        truth = np.full((images, queries, 4), 0.5)
        for image, ((chosen, rows), one) in enumerate(zip(pairs, objects, strict=True)):
            classes[image, chosen] = one.labels[rows]
            is_matched[image, chosen] = 1
            truth[image, chosen] = one.boxes[rows]

        def constant(values: np.ndarray, dtype: ft.DType) -> ft.Tensor:
            return ft.asarray(values, dtype, boxes.device, boxes.backend)

        weights = np.ones(self.classes + 1)
        weights[-1] = self.no_object
        ce = nn.cross_entropy(
            logits,
            constant(classes, ft.int64),
            "sum",
            axis=2,
            weight=constant(weights, logits.dtype),
        )
        matched, true = (constant(x, boxes.dtype) for x in (is_matched, truth))
        corners, true_corners = (box_convert(x, "cxcywh", "xyxy") for x in (boxes, true))
        giou = ft.sum((1.0 - paired_box_iou(corners, true_corners, True)) * matched)
        bbox = ft.sum(ft.absolute(boxes - true) * ft.expand_dims(matched, 2))
        return {"loss_ce": ce / weight, "loss_bbox": bbox / number, "loss_giou": giou / number}

    def _per_rank(self, objects: list[HostObjects], logits: ft.Array) -> tuple[float, float]:
        """Boxes, and weights of all queries in the cross entropy: the mean over ranks."""
        queries = logits.shape[1]
        matched = sum(min(len(one.labels), queries) for one in objects)
        counts = [sum(len(one.labels) for one in objects), matched, len(objects) * queries]
        ranks = 1
        world = self.communicator
        if world is not None and world.world_size > 1:
            ranks = world.world_size
            total = ft.asarray(counts, ft.int64, logits.device, logits.backend)
            counts = world.all_reduce(total, "sum").tolist()
        number, matched, everything = counts
        weight = matched + (everything - matched) * self.no_object
        return max(number / ranks, 1.0), weight / ranks or 1.0

    def extra_repr(self) -> str:
        return (
            f"{self.classes}, weight_ce={self.weight_ce}, weight_bbox={self.weight_bbox}, "
            f"weight_giou={self.weight_giou}, no_object={self.no_object}"
        )


def _weight(name: str, value: float) -> float:
    weight = float_of("SetCriterion", value, name)
    if not 0 <= weight < float("inf"):
        raise ft.ArgumentError(f"[SetCriterion] {name} {weight:g}: expected a number of at least 0")
    return weight
