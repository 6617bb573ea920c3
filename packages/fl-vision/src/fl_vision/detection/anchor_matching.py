"""Anchors that stand for objects, by overlap."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_tensor.annotations import explained
from fl_tensor.arguments import flag_of
from fl_vision.detection.anchors import check_share
from fl_vision.detection.boxes import box_iou
from fl_vision.detection.checks import check_boxes, host_values

#: Matches of anchors that have no object.
BACKGROUND, BETWEEN = -1, -2


@explained
def match_anchors(
    boxes: ft.Array,
    anchors: ft.Array,
    foreground: float = 0.5,
    background: float = 0.4,
    keep_best: bool = True,
) -> np.ndarray:
    """For each anchor the index of its box, int64 (A,): of the box with the largest IoU if that is
    at least `foreground`; -1 if it is below `background`; -2 between, where an anchor counts for
    nothing.

    boxes, anchors  (T, 4) and (A, 4), xyxy; T may be 0
    keep_best       anchors with the largest IoU of any box, and those that equal it, keep their
                    best box whatever the IoU, so that every box has an anchor

    Lin et al., "Focal loss for dense object detection", 2017. Raises ShapeError, DTypeError,
    ArgumentError.
    """
    where = "match_anchors"
    check_boxes(where, "boxes", boxes, 2)
    check_boxes(where, "anchors", anchors, 2)
    high = check_share(where, "foreground", foreground)
    low = check_share(where, "background", background)
    flag_of(where, keep_best, "keep_best")
    if low > high:
        raise ft.ArgumentError(
            f"[{where}] background {low:g} exceeds foreground {high:g}: expected at most that"
        )
    if not len(boxes) or not len(anchors):
        return np.full(len(anchors), BACKGROUND, np.int64)
    iou = host_values(where, "boxes", box_iou(tensor_of(boxes), tensor_of(anchors)))
    best = iou.argmax(axis=0).astype(np.int64)
    most = iou.max(axis=0)
    found = np.where(most < low, BACKGROUND, np.where(most < high, BETWEEN, best))
    if keep_best:
        at_best = (iou == iou.max(axis=1, keepdims=True)).any(axis=0)
        found = np.where(at_best, best, found)
    return found
