"""Masks of objects as COCO has them: run lengths down the columns of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import explained
from fl_tensor.arguments import flag_of, int_of, several_of
from fl_vision.detection import masks_kernel as kernels
from fl_vision.detection.checks import host_values
from fl_vision.detection.polygons import polygon_counts

#: Sides and pixels of masks: more is taken for a damaged file.
MOST_SIDE, MOST_PIXELS = 1 << 20, 1 << 28


@dataclass(frozen=True, eq=False)
class RLE:
    """A mask of `height` x `width` pixels as lengths of runs.

    counts  int64: pixels of the background, then of the object, and so on, down the columns

    Raises ArgumentError unless the counts are at least 0 and add up to the number of pixels.
    """

    height: int
    width: int
    counts: np.ndarray

    def __post_init__(self) -> None:
        for name in ("height", "width"):
            side = int_of("RLE", getattr(self, name), name)
            if not 0 <= side <= MOST_SIDE:
                raise ft.ArgumentError(f"[RLE] {name} {side}: expected 0 .. {MOST_SIDE}")
        pixels = self.height * self.width
        if pixels > MOST_PIXELS:
            raise ft.ArgumentError(
                f"[RLE] {self.height} x {self.width} are {pixels} pixels: at most {MOST_PIXELS}"
            )
        counts = host_values("RLE", "counts", self.counts)
        if counts.ndim != 1 or (counts.dtype.kind not in "iu" and counts.size):
            raise ft.ArgumentError(
                f"[RLE] counts are {counts.dtype} {counts.shape}: expected integers (runs,)"
            )
        counts = counts.astype(np.int64)
        total = sum(counts.tolist())  # unlike NumPy's, this sum cannot overflow
        if (counts < 0).any() or total != pixels:
            raise ft.ArgumentError(
                f"[RLE] {len(counts)} counts add up to {total} for {self.height} x {self.width} = "
                f"{pixels} pixels: the mask is damaged, or of an image of another size"
            )
        object.__setattr__(self, "counts", counts if len(counts) else np.zeros(1, np.int64))

    @classmethod
    def encode(cls, mask: ft.Array | np.ndarray) -> RLE:
        """The mask (H, W) of pixels that are not 0. Raises ShapeError, DTypeError."""
        pixels = host_values("RLE.encode", "mask", mask)
        if pixels.ndim != 2:
            raise ft.ShapeError(f"[RLE.encode] mask {pixels.shape}: expected (height, width)")
        flat = np.ascontiguousarray((pixels != 0).T).reshape(-1).view(np.uint8)
        counts = np.empty(len(flat) + 1, np.int64)
        number = kernels.runs_of(flat, counts)
        height, width = pixels.shape
        return cls(height, width, counts[:number].copy())

    @classmethod
    def from_polygons(cls, polygons: Sequence[Sequence[float]], height: int, width: int) -> RLE:
        """The union of polygons, each x1, y1, x2, y2, ... in pixels, at least three points,
        rasterised as pycocotools does. Raises ArgumentError."""
        if not isinstance(polygons, (list, tuple)) or not len(polygons):
            raise ft.ArgumentError(
                f"[RLE.from_polygons] polygons {polygons!r:.60}: expected a sequence of polygons, "
                "at least one"
            )
        blank = cls(height, width, np.array([int(height) * int(width)]))  # checks the size
        size = blank.height, blank.width
        return merge_masks([cls(*size, polygon_counts(one, *size)) for one in polygons])

    @classmethod
    def from_coco(cls, segmentation: Any, height: int, width: int) -> RLE:
        """The mask of an annotation of COCO: polygons, or a mapping with `size` and `counts`, which
        are a list or compressed text. Raises ArgumentError for others and for another size."""
        where = "RLE.from_coco"
        if isinstance(segmentation, (list, tuple)):
            return cls.from_polygons(segmentation, height, width)
        if not isinstance(segmentation, Mapping) or not {"size", "counts"} <= set(segmentation):
            raise ft.ArgumentError(
                f"[{where}] segmentation is a {type(segmentation).__name__}: expected polygons, or "
                "a mapping with 'size' and 'counts'"
            )
        size, counts = segmentation["size"], segmentation["counts"]
        if not isinstance(size, (list, tuple)) or list(size) != [height, width]:
            raise ft.ArgumentError(
                f"[{where}] the mask is of size {size!r:.60} for an image of {height} x {width}"
            )
        if isinstance(counts, (str, bytes)):
            return cls.from_text(counts, height, width)
        return cls(height, width, counts)

    @classmethod
    def from_text(cls, text: str | bytes, height: int, width: int) -> RLE:
        """The mask of COCO's compressed text. Raises ArgumentError for other text."""
        where = "RLE.from_text"
        if not isinstance(text, (str, bytes)):
            raise ft.ArgumentError(f"[{where}] text is a {type(text).__name__}: expected str")
        data = text.encode("utf-8", "replace") if isinstance(text, str) else text
        counts = np.empty(len(data), np.int64)
        number = kernels.read_text(np.frombuffer(data, np.uint8), counts)
        if number < 0:
            raise ft.ArgumentError(
                f"[{where}] {text[:40]!r} is no compressed mask: the file is damaged"
            )
        return cls(height, width, counts[:number].copy())

    def to_text(self) -> str:
        """COCO's compressed text, `counts` of its annotations."""
        text = np.empty(13 * len(self.counts), np.uint8)
        length = kernels.write_text(self.counts, text)
        return text[:length].tobytes().decode("ascii")

    def decode(self) -> np.ndarray:
        """The mask, uint8 (height, width) of 0 and 1."""
        flat = np.zeros(self.height * self.width, np.uint8)
        kernels.fill_runs(self.counts, flat)
        return np.ascontiguousarray(flat.reshape(self.width, self.height).T)

    @property
    def area(self) -> int:
        """The pixels of the object."""
        return int(self.counts[1::2].sum())

    @property
    def box(self) -> tuple[int, int, int, int]:
        """The box around the object, xyxy; zeros of an empty mask."""
        pixels = self.decode()
        x, y = (np.flatnonzero(pixels.any(axis=axis)) for axis in (0, 1))
        if not len(x):
            return (0, 0, 0, 0)
        return int(x[0]), int(y[0]), int(x[-1]) + 1, int(y[-1]) + 1


@explained
def merge_masks(masks: Sequence[RLE], intersect: bool = False) -> RLE:
    """The union of masks of one size, or their intersection. Raises ArgumentError for none and for
    masks of different sizes."""
    where = "merge_masks"
    flag_of(where, intersect, "intersect")
    given = several_of(where, masks, "masks", RLE, "a sequence of RLE")
    if not given:
        raise ft.ArgumentError(f"[{where}] there are no masks: give at least one")
    _same_size(where, given)
    counts = given[0].counts
    for other in given[1:]:
        merged = np.empty(len(counts) + len(other.counts) + 1, np.int64)
        number = kernels.merge_runs(counts, other.counts, bool(intersect), merged)
        counts = merged[:number].copy()
    return RLE(given[0].height, given[0].width, counts)


@explained
def mask_iou(
    masks1: Sequence[RLE], masks2: Sequence[RLE], crowd: Sequence[bool] | np.ndarray | None = None
) -> np.ndarray:
    """IoU, float64 (N, M), of each of N masks with each of M. For masks of `masks2` that are
    `crowd` (M,) it is the share of the first mask that lies inside. Raises ArgumentError for masks
    of different sizes, ShapeError."""
    where = "mask_iou"
    first = several_of(where, masks1, "masks1", RLE, "a sequence of RLE")
    second = several_of(where, masks2, "masks2", RLE, "a sequence of RLE")
    _same_size(where, [*first, *second])
    flags = np.zeros(len(second), np.uint8)
    if crowd is not None:
        flags = host_values(where, "crowd", crowd)
        if flags.shape != (len(second),):
            raise ft.ShapeError(
                f"[{where}] crowd {flags.shape}: expected one for each of {len(second)} masks"
            )
        flags = (flags != 0).astype(np.uint8)
    iou = np.zeros((len(first), len(second)))
    if iou.size:
        kernels.overlaps_of_runs(*_packed(first), *_packed(second), flags, iou)
    return iou


def _packed(masks: Sequence[RLE]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ends = np.cumsum([len(mask.counts) for mask in masks], dtype=np.int64)
    areas = np.array([mask.area for mask in masks], np.int64)
    return np.concatenate([mask.counts for mask in masks]), ends, areas


def _same_size(where: str, masks: Sequence[RLE]) -> None:
    sizes = {(mask.height, mask.width) for mask in masks}
    if len(sizes) > 1:
        (a, b), (c, d) = sorted(sizes)[:2]
        raise ft.ArgumentError(
            f"[{where}] masks of {a} x {b} and of {c} x {d} pixels: expected masks of one image"
        )
