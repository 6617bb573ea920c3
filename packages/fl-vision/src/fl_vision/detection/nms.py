"""Non-maximum suppression: greedy, by class, and soft."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_tensor.arguments import choice_of, float_of
from fl_vision.detection.checks import check_boxes, host_labels, host_values, refuse_bad_boxes
from fl_vision.detection.nms_kernel import decay_nms, greedy_nms


@explained
def nms(boxes: ft.Array, scores: ft.Array, iou_threshold: float) -> ft.Tensor:
    """The indices (K,), int64, of the boxes that remain, from the highest score down.

    boxes          (N, 4), xyxy
    scores         (N,); of equal scores that with the lowest index comes first
    iou_threshold  a box is removed if its IoU with one that remains is larger; in [0, 1]

    The result is that of torchvision's `nms`, also at the threshold: overlaps of float32 boxes are
    those of float32 arithmetic. Computed on the host. Raises ShapeError, DTypeError, ArgumentError
    for bad boxes and for scores that are NaN.
    """
    return _suppressed("nms", boxes, scores, None, iou_threshold)


@explained
def batched_nms(
    boxes: ft.Array, scores: ft.Array, labels: ft.Array, iou_threshold: float
) -> ft.Tensor:
    """`nms` within each class: boxes of different `labels` (N,), integers, do not remove one
    another. Indices (K,) from the highest score down."""
    if labels is None:
        raise ft.DTypeError("[batched_nms] labels are None: give one for each box, or use nms")
    return _suppressed("batched_nms", boxes, scores, labels, iou_threshold)


@explained
def soft_nms(
    boxes: ft.Array,
    scores: ft.Array,
    method: str = "gaussian",
    iou_threshold: float = 0.3,
    sigma: float = 0.5,
    min_score: float = 1e-3,
) -> tuple[ft.Tensor, ft.Tensor]:
    """Soft-NMS: overlapping boxes lose score instead of being removed.

    boxes, scores  as of `nms`
    method         "linear": a score is multiplied by `1 - iou` above `iou_threshold`; "gaussian":
                   by `exp(-iou**2 / sigma)`
    min_score      boxes are left out once their score is not larger

    Returns the indices (K,), int64, in the order of final scores, and these scores, in the dtype of
    `scores`. Bodla et al., 2017. Raises what `nms` raises.
    """
    where = "soft_nms"
    choice_of(where, method, "method", ("linear", "gaussian"))
    corners, values = _read(where, boxes, scores)
    threshold = _share(where, iou_threshold)
    width, least = float_of(where, sigma, "sigma"), float_of(where, min_score, "min_score")
    if not 0 < width < float("inf"):
        raise ft.ArgumentError(f"[{where}] sigma {width:g}: expected a positive number")
    if not 0 <= least < float("inf"):
        raise ft.ArgumentError(f"[{where}] min_score {least:g}: expected a number of at least 0")
    size = len(values)
    kept, found = np.empty(size, np.int64), np.empty(size)
    count = decay_nms(
        corners.astype(np.float64), values.astype(np.float64), method == "gaussian", threshold,
        width, least, np.empty(1, np.float32), np.empty(size), np.zeros(size, np.int8), kept, found,
    )  # fmt: skip
    return _like(boxes, kept[:count], ft.int64), _like(scores, found[:count], scores.dtype)


def _suppressed(
    where: str, boxes: ft.Array, scores: ft.Array, labels: ft.Array | None, iou_threshold: float
) -> ft.Tensor:
    corners, values = _read(where, boxes, scores)
    size = len(values)
    classes = np.zeros(size, np.int64)
    if labels is not None:
        classes = host_labels(where, "labels", labels, size)
    kept = np.empty(size, np.int64)
    count = greedy_nms(
        corners.astype(np.float64), classes, np.argsort(-values, kind="stable"),
        _share(where, iou_threshold), corners.dtype == np.float32, np.empty(1, np.float32),
        np.empty(size), np.zeros(size, np.int8), kept,
    )  # fmt: skip
    return _like(boxes, kept[:count], ft.int64)


def _read(where: str, boxes: ft.Array, scores: ft.Array) -> tuple[np.ndarray, np.ndarray]:
    check_boxes(where, "boxes", boxes, 2)
    corners, values = host_values(where, "boxes", boxes), host_values(where, "scores", scores)
    if values.dtype.kind != "f":
        raise ft.DTypeError(f"[{where}] scores are {values.dtype}: give floating scores")
    if values.shape != (len(corners),):
        raise ft.ShapeError(
            f"[{where}] scores {values.shape} for boxes {corners.shape}: give one for each box"
        )
    refuse_bad_boxes(where, "boxes", corners)
    if np.isnan(values).any():
        index = int(np.flatnonzero(np.isnan(values))[0])
        raise ft.ArgumentError(
            f"[{where}] the score of box {index} is NaN: the weights of the model may have diverged"
        )
    return corners, values


def _share(where: str, iou_threshold: float) -> float:
    share = float_of(where, iou_threshold, "iou_threshold")
    if not 0 <= share <= 1:
        raise ft.ArgumentError(f"[{where}] iou_threshold {share:g}: expected 0 .. 1")
    return share


def _like(x: ft.Array, values: np.ndarray, dtype: ft.DType) -> ft.Tensor:
    return ft.asarray(values, dtype, x.device, x.backend)
