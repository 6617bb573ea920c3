"""The loss of a dense detector: RetinaNet's."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.arguments import choice_of, float_of, int_of
from fl_vision.detection.anchor_matching import BETWEEN, match_anchors
from fl_vision.detection.anchors import (
    AnchorGenerator,
    check_share,
    decode_boxes,
    encode_boxes,
)
from fl_vision.detection.boxes import paired_box_iou
from fl_vision.detection.checks import check_boxes
from fl_vision.detection.targets import HostObjects, field, read_objects


class DensePrediction(NamedTuple):
    """The outputs of a dense detector for a batch. Other objects with these attributes do too."""

    logits: Any
    """(N, A, classes), or a sequence of these for each level; probabilities by sigmoid."""
    boxes: Any
    """(N, A, 4), or a sequence: offsets to anchors, as `encode_boxes` gives them."""
    anchors: ft.Array
    """(A, 4), xyxy, in pixels of the batch."""


class RetinaNetCriterion(nn.Module):
    """Sigmoid focal loss over all anchors and a box loss over those of objects, each divided by the
    anchors of objects (at least 1) of its image, and averaged over images. Lin et al., 2017.

    classes     number of classes; there is none for the background
    anchors     those of outputs that have none: of `sizes`, the sizes of the features of each level
    box_loss    "smooth_l1" or "l1" of deltas, or "giou" of boxes
    foreground, background  thresholds of `match_anchors`
    alpha, gamma  of the focal loss
    beta        where "smooth_l1" turns from squares to absolute values
    weight_box  factor of the box loss in the sum

    Raises ArgumentError, DTypeError.
    """

    def __init__(
        self,
        classes: int,
        anchors: AnchorGenerator | None = None,
        *,
        box_loss: str = "smooth_l1",
        foreground: float = 0.5,
        background: float = 0.4,
        alpha: float = 0.25,
        gamma: float = 2.0,
        beta: float = 1.0 / 9.0,
        weight_box: float = 1.0,
    ) -> None:
        where = "RetinaNetCriterion"
        self.classes = int_of(where, classes, "classes")
        if self.classes < 1:
            raise ft.ArgumentError(f"[{where}] classes {classes}: expected at least 1")
        if anchors is not None and not isinstance(anchors, AnchorGenerator):
            raise ft.DTypeError(f"[{where}] anchors {anchors!r}: expected an AnchorGenerator")
        self.anchors = anchors or AnchorGenerator()
        self.box_loss = choice_of(where, box_loss, "box_loss", ("smooth_l1", "l1", "giou"))
        self.foreground = check_share(where, "foreground", foreground)
        self.background = check_share(where, "background", background)
        if self.background > self.foreground:
            raise ft.ArgumentError(
                f"[{where}] background {background:g} exceeds foreground {foreground:g}: expected "
                "at most that"
            )
        self.alpha = check_share(where, "alpha", alpha)
        numbers = {"gamma": gamma, "beta": beta, "weight_box": weight_box}
        for name, value in numbers.items():
            number = float_of(where, value, name)
            if not 0 <= number < float("inf") or (name == "beta" and number == 0):
                raise ft.ArgumentError(f"[{where}] {name} {number:g}: expected a positive number")
        self.gamma, self.beta, self.weight_box = float(gamma), float(beta), float(weight_box)

    def forward(self, outputs: Any, targets: Any) -> ft.Array:
        """The weighted sum of `losses`, a scalar."""
        found = self.losses(outputs, targets)
        return found["loss_class"] + self.weight_box * found["loss_box"]

    def losses(self, outputs: Any, targets: Any) -> dict[str, ft.Array]:
        """loss_class and loss_box, scalars.

        outputs  `DensePrediction`, or an object or mapping with its fields, or with `sizes` in
                 place of `anchors`: (height, width) of the features of each level
        targets  one for each image, with `boxes` (T, 4), xyxy, in pixels of the batch, and `labels`
                 (T,); T may be 0

        Raises ShapeError, DTypeError, IndexingError for labels that are no classes, ArgumentError
        for bad boxes; a box needs a positive size.
        """
        where = "RetinaNetCriterion"
        logits, deltas = (
            _joined(field(where, "outputs", outputs, name)) for name in ("logits", "boxes")
        )
        anchors = field(where, "outputs", outputs, "anchors", False)
        if anchors is False:
            anchors = self.anchors(field(where, "outputs", outputs, "sizes"))
            anchors = anchors.to(deltas.backend) if isinstance(deltas, ft.Array) else anchors
        self._check(logits, deltas, anchors)
        objects = read_objects(where, targets, len(logits), self.classes, False)
        _check_sizes(where, objects)
        matches = self._match(objects, anchors)
        counts = np.maximum((matches >= 0).sum(axis=1), 1)
        images = max(len(objects), 1)

        def constant(values: np.ndarray, dtype: ft.DType) -> ft.Tensor:
            return ft.asarray(values, dtype, logits.device, logits.backend)

        # The class of each anchor; the background is a row of zeros.
        classes = np.full(matches.shape, self.classes, np.int64)
        for row, match, one in zip(classes, matches, objects, strict=True):
            row[match >= 0] = one.labels[match[match >= 0]]
        wanted = ft.one_hot(constant(classes, ft.int64), self.classes + 1, logits.dtype)
        focal = nn.focal(logits, wanted[..., :-1], "none", self.alpha, self.gamma)
        shares = (matches != BETWEEN) / counts[:, None] / images
        loss_class = ft.sum(ft.sum(focal, 2) * constant(shares, logits.dtype))
        return {
            "loss_class": loss_class,
            "loss_box": self._box_loss(deltas, anchors, objects, matches, counts * images),
        }

    def _match(self, objects: list[HostObjects], anchors: ft.Array) -> np.ndarray:
        def constant(values: np.ndarray) -> ft.Tensor:
            return ft.asarray(values, anchors.dtype, anchors.device, anchors.backend)

        thresholds = self.foreground, self.background
        found = [match_anchors(constant(o.boxes), anchors, *thresholds) for o in objects]
        return np.array(found, np.int64).reshape(len(objects), len(anchors))

    def _box_loss(
        self,
        deltas: ft.Array,
        anchors: ft.Array,
        objects: list[HostObjects],
        matches: np.ndarray,
        divisors: np.ndarray,
    ) -> ft.Array:
        image, anchor = np.nonzero(matches >= 0)
        boxes = [o.boxes[match[match >= 0]] for o, match in zip(objects, matches, strict=True)]

        def constant(values: np.ndarray, dtype: ft.DType) -> ft.Tensor:
            return ft.asarray(values, dtype, deltas.device, deltas.backend)

        flat = ft.reshape(deltas, (-1, 4))
        found = ft.gather(flat, constant(image * len(anchors) + anchor, ft.int64), 0)
        around = ft.gather(anchors, constant(anchor, ft.int64), 0).astype(deltas.dtype)
        truth = constant(np.concatenate([np.zeros((0, 4), np.float32), *boxes]), deltas.dtype)
        shares = constant(1.0 / divisors[image], deltas.dtype)
        if self.box_loss == "giou":
            overlaps = paired_box_iou(decode_boxes(found, around), truth, generalized=True)
            return ft.sum((1.0 - overlaps) * shares)
        offsets = encode_boxes(truth, around)
        if self.box_loss == "l1":
            losses = nn.mae(found, offsets, "none")
        else:
            losses = nn.huber(found, offsets, "none", self.beta) / self.beta
        return ft.sum(ft.sum(losses, 1) * shares)

    def _check(self, logits: Any, deltas: Any, anchors: Any) -> None:
        where = "RetinaNetCriterion"
        check_boxes(where, "boxes", deltas, 3)
        check_boxes(where, "anchors", anchors, 2)
        if not isinstance(logits, ft.Array) or not logits.dtype.is_floating:
            kind = logits.dtype if isinstance(logits, ft.Array) else type(logits).__name__
            raise ft.DTypeError(f"[{where}] logits are {kind}: give a floating array")
        expected = (deltas.shape[0], len(anchors), self.classes)
        if logits.shape != expected or deltas.shape[1] != len(anchors):
            raise ft.ShapeError(
                f"[{where}] logits {logits.shape}, boxes {deltas.shape} and anchors "
                f"{anchors.shape}: expected (images, anchors, {self.classes}), (images, anchors, "
                "4) and (anchors, 4)"
            )

    def extra_repr(self) -> str:
        return f"{self.classes}, box_loss={self.box_loss}, alpha={self.alpha}, gamma={self.gamma}"


def _joined(levels: Any) -> Any:
    """An array of all levels."""
    if isinstance(levels, (list, tuple)) and levels:
        return ft.concatenate(list(levels), 1)
    return levels


def _check_sizes(where: str, objects: list[HostObjects]) -> None:
    for index, one in enumerate(objects):
        empty = np.flatnonzero(((one.boxes[:, 2:] - one.boxes[:, :2]) == 0).any(axis=1))
        if len(empty):
            raise ft.ArgumentError(
                f"[{where}] target {index}: box {empty[0]} has width or height 0, and no logarithm "
                "of its size; leave such boxes out with remove_small_boxes"
            )
