"""`Target`, the boxes of one image, and batches of images of unequal size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import fl_tensor as ft
from fl_data import Sample, join
from fl_tensor.annotations import Checked, checked
from fl_vision.errors import UsageError


@dataclass(frozen=True, eq=False)
class Target(Checked):
    """The objects in one image, `n` of them; `n` may be 0.

    The fields are for the image as the data set gives it: where it was shrunk, boxes, areas and
    masks are too. `original_size` is the size before.
    """

    #: (n, 4) float32: left, top, right, bottom in pixels, from the corner of the image.
    boxes: ft.Tensor
    #: (n,) int64, indices into the classes of the data set.
    labels: ft.Tensor
    #: (n,) float32, in pixels: of the mask where the source has one, otherwise of the box.
    areas: ft.Tensor
    #: (n,) bool: the box holds a group of objects. Evaluation forgives detections in it.
    crowd: ft.Tensor
    #: What the source calls the image.
    image_id: int | str
    #: (height, width) of the stored image.
    original_size: tuple[int, int]
    #: (n, H, W) bool, where masks were asked for.
    masks: ft.Tensor | None = None
    #: COCO's `segmentation` of each object as it is in the file, for the stored image.
    segmentations: tuple[Any, ...] | None = None
    #: (n,) bool, of VOC: objects that are hard to recognise, and do not count.
    difficult: ft.Tensor | None = None

    def __len__(self) -> int:
        return self.boxes.shape[0]


def image_and_target(sample: Sample) -> tuple[ft.Tensor, Target]:
    """The two fields of a sample for detection. Raises `UsageError` for other samples."""
    match sample:
        case (ft.Tensor() as image, Target() as target) if image.ndim == 3:
            return image, target
    raise UsageError(
        "[detection] a sample is a pair (image (C, H, W), Target), got "
        f"{_kinds(sample)}: give a data set with boxes"
    )


@checked
def detection_collate(samples: Sequence[Sample]) -> tuple[ft.Tensor, ft.Tensor, list[Target]]:
    """Samples `(image, Target)` as `(images (N, C, H, W), mask (N, H, W) bool, targets)`.

    H and W are those of the largest image in the batch. Images are padded with 0 below and to the
    right, so boxes stay as they are. The mask is True where a pixel belongs to the image, as in
    `key_mask` of `fl_nn`. For `Batch(ds, size, collate=detection_collate)`.

    Raises `UsageError` for no samples, samples of another kind, and images that differ in channels
    or dtype.
    """
    if not samples:
        raise UsageError("[detection] no samples: a batch needs at least one")
    pairs = [image_and_target(sample) for sample in samples]
    images = [image for image, _ in pairs]
    for number, image in enumerate(images):
        if (image.shape[0], image.dtype) != (images[0].shape[0], images[0].dtype):
            raise UsageError(
                f"[detection] image {number} of the batch is {image.shape} {image.dtype}, image 0 "
                f"is {images[0].shape} {images[0].dtype}: bring them to one dtype and number of "
                "channels"
            )
    inside = [ft.ones(image.shape[1:], dtype=ft.bool) for image in images]
    return join(images), join(inside), [target for _, target in pairs]


def _kinds(sample: object) -> str:
    if isinstance(sample, tuple):
        return f"({', '.join(type(field).__name__ for field in sample)})"
    return type(sample).__name__
