"""The chains of transforms that DETR is trained and evaluated with (Carion et al., 2020)."""

from __future__ import annotations

from fl_tensor.annotations import checked
from fl_vision.transforms.flips import RandomHorizontalFlip
from fl_vision.transforms.random_crops import RandomSizeCrop
from fl_vision.transforms.resize import RandomResize, ResizeShortestSide
from fl_vision.transforms.transform import Compose, RandomSelect

SIZES = tuple(range(480, 801, 32))
"""Lengths in pixels of the shorter side in training."""


@checked
def detection_training(
    sizes: tuple[int, ...] = SIZES,
    max_size: int = 1333,
    crop_sizes: tuple[int, ...] = (400, 500, 600),
    crop: tuple[int, int] = (384, 600),
) -> Compose:
    """A flip with probability 1/2; then, equally likely, a resize of the shorter side to one of
    `sizes`, or one to one of `crop_sizes`, a crop of `crop[0]` to `crop[1]` pixels each way, and a
    resize to one of `sizes`. No longer side exceeds `max_size` in the end."""
    resize = RandomResize(sizes, max_size)
    cropped = Compose((RandomResize(crop_sizes), RandomSizeCrop(*crop), resize))
    return Compose((RandomHorizontalFlip(), RandomSelect(resize, cropped)))


@checked
def detection_evaluation(size: int = 800, max_size: int = 1333) -> Compose:
    """The shorter side resized to `size`, and the longer one to `max_size` at most."""
    return Compose((ResizeShortestSide(size, max_size),))
