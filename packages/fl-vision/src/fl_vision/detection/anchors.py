"""Anchors of feature pyramids, and boxes coded relative to them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_tensor.arguments import float_of, ints_of
from fl_vision.detection.checks import check_boxes

#: Decoded widths and heights are at most so many times those of the anchor.
MOST_GROWTH = 1000.0 / 16.0


def _retinanet_sizes() -> tuple[tuple[float, ...], ...]:
    # Whole pixels, as torchvision has them.
    scales = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))
    return tuple(tuple(float(int(size * s)) for s in scales) for size in (32, 64, 128, 256, 512))


@dataclass(frozen=True)
class AnchorGenerator:
    """Boxes of several sizes and shapes around every cell of every level of a feature pyramid.

    sizes          for each level the square roots of areas, in pixels. The default is that of
                   RetinaNet: 32 to 512, each times 1, 2^(1/3) and 2^(2/3). Lin et al., 2017
    aspect_ratios  heights by widths, for all levels
    strides        for each level the pixels from cell to cell

    Raises ArgumentError for numbers that are not positive, and unless there is a stride for each
    level.
    """

    sizes: Sequence[Sequence[float]] = _retinanet_sizes()
    aspect_ratios: Sequence[float] = (0.5, 1.0, 2.0)
    strides: Sequence[int] = (8, 16, 32, 64, 128)

    def __post_init__(self) -> None:
        where = "AnchorGenerator"
        try:
            sizes = tuple(tuple(map(float, level)) for level in self.sizes)
            ratios = tuple(map(float, self.aspect_ratios))
        except (TypeError, ValueError):
            raise ft.ArgumentError(
                f"[{where}] sizes {self.sizes!r} and aspect_ratios {self.aspect_ratios!r}: give "
                "sizes as a sequence for each level, and ratios as a sequence of numbers"
            ) from None
        numbers = [*ratios, *(size for level in sizes for size in level)]
        if not ratios or not sizes or not all(sizes) or not all(0 < x < math.inf for x in numbers):
            raise ft.ArgumentError(
                f"[{where}] sizes {sizes} and aspect_ratios {ratios}: expected positive numbers, "
                "at least one of each"
            )
        strides = ints_of(where, self.strides, "strides")
        if len(strides) != len(sizes) or min(strides) < 1:
            raise ft.ArgumentError(
                f"[{where}] strides {strides} for sizes of {len(sizes)} levels: expected a number "
                "of pixels for each level"
            )
        object.__setattr__(self, "strides", strides)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "aspect_ratios", ratios)

    @property
    def per_cell(self) -> tuple[int, ...]:
        """Anchors around a cell of each level."""
        return tuple(len(level) * len(self.aspect_ratios) for level in self.sizes)

    def __call__(
        self, feature_sizes: Sequence[Sequence[int]], image_size: Sequence[int] | None = None
    ) -> ft.Tensor:
        """The anchors (A, 4), xyxy, float32, of all levels in order: by row, column, ratio and
        size. They may exceed the image.

        feature_sizes  height and width of each level's features
        image_size     height and width, in pixels: strides are the whole quotients of it and of
                       sizes of features, as in torchvision. None: `strides`

        Raises ShapeError, DTypeError.
        """
        where = "AnchorGenerator"
        image = None if image_size is None else _pair(where, "image_size", image_size)
        if not hasattr(feature_sizes, "__len__"):
            raise ft.DTypeError(
                f"[{where}] feature_sizes {feature_sizes!r}: expected a pair for each level"
            )
        if len(feature_sizes) != len(self.sizes):
            raise ft.ShapeError(
                f"[{where}] features of {len(feature_sizes)} levels for sizes of "
                f"{len(self.sizes)}: give one size of features for each level"
            )
        found = []
        for level, (sizes, features) in enumerate(zip(self.sizes, feature_sizes, strict=True)):
            rows, columns = _pair(where, f"feature_sizes[{level}]", features)
            down = across = self.strides[level]
            if image is not None:
                down, across = image[0] // rows, image[1] // columns
            if not down or not across:
                raise ft.ShapeError(
                    f"[{where}] level {level} has {rows} x {columns} cells for an image of "
                    f"{image} pixels: features are not larger than the image"
                )
            y, x = np.arange(rows) * down, np.arange(columns) * across
            corners = np.stack(np.broadcast_arrays(x, y[:, None]), -1)[:, :, None]
            around = _around_zero(sizes, self.aspect_ratios)
            anchors = np.concatenate([corners, corners], -1) + around
            found.append(anchors.reshape(-1, 4).astype(np.float32))
        return ft.asarray(np.concatenate(found))


@explained
def encode_boxes(boxes: ft.Array, anchors: ft.Array) -> ft.Array:
    """Offsets of centres in units of the anchor's size, and logarithms of the ratios of sizes,
    (..., 4), of xyxy boxes (..., 4) to their anchors. Girshick et al., "R-CNN", 2014. Sizes must be
    positive. Raises ShapeError, DTypeError."""
    check_boxes("encode_boxes", "boxes", boxes)
    check_boxes("encode_boxes", "anchors", anchors)
    centre, size = _centre_and_size(boxes)
    anchor, scale = _centre_and_size(anchors)
    return ft.concatenate([(centre - anchor) / scale, ft.log(size / scale)], -1)


@explained
def decode_boxes(deltas: ft.Array, anchors: ft.Array) -> ft.Array:
    """The inverse of `encode_boxes`; boxes are at most 62.5 times as wide or high as their anchors.
    Raises ShapeError, DTypeError."""
    check_boxes("decode_boxes", "deltas", deltas)
    check_boxes("decode_boxes", "anchors", anchors)
    anchor, scale = _centre_and_size(anchors)
    centre = deltas[..., :2] * scale + anchor
    half = ft.exp(ft.minimum(deltas[..., 2:], math.log(MOST_GROWTH))) * scale * 0.5
    return ft.concatenate([centre - half, centre + half], -1)


def _centre_and_size(boxes: ft.Array) -> tuple[ft.Array, ft.Array]:
    size = boxes[..., 2:] - boxes[..., :2]
    return boxes[..., :2] + 0.5 * size, size


def _around_zero(sizes: Sequence[float], ratios: Sequence[float]) -> np.ndarray:
    """Anchors around the origin, rounded to whole pixels: (ratios * sizes, 4)."""
    root = np.sqrt(np.asarray(ratios, np.float32))
    scale = np.asarray(sizes, np.float32)
    high = (root[:, None] * scale).reshape(-1)
    wide = ((1 / root)[:, None] * scale).reshape(-1)
    return np.round(np.stack([-wide, -high, wide, high], 1) / 2)


def _pair(where: str, name: str, value: Sequence[int]) -> tuple[int, int]:
    found = ints_of(where, value, name)
    if len(found) != 2 or min(found) < 1:
        raise ft.ShapeError(f"[{where}] {name} {found}: expected height and width, at least 1")
    return found[0], found[1]


def check_share(where: str, name: str, value: float) -> float:
    """A number in 0 .. 1. Raises ArgumentError, DTypeError."""
    share = float_of(where, value, name)
    if not 0 <= share <= 1:
        raise ft.ArgumentError(f"[{where}] {name} {share:g}: expected 0 .. 1")
    return share
