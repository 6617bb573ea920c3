"""Images in a grid."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.plot import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MARK = "tab:red"


def images(
    images: Any,
    *,
    titles: Sequence[str] | None = None,
    marked: Collection[int] = (),
    columns: int | None = None,
    limits: tuple[float, float] | None = None,
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """A grid of images, each as large as the others, row by row.

    images   a batch (N, H, W) or (N, C, H, W), or a sequence of images (H, W) or (C, H, W), which
             may differ in size. C is 1 (gray), 3 (RGB) or 4 (RGBA)
    titles   a line above each image
    marked   the numbers of images with a red frame and title, wrong ones for example
    columns  images in a row; by default as many as make the grid a square, and at most 10
    limits   the values of black and white. By default 0 and 255 for uint8, else the least and the
             largest value of all images

    Raises ShapeError for what is no image, and ArgumentError for another number of titles.
    """
    shown = [_image(x) for x in images]
    if not shown:
        raise ft.ArgumentError("[plot.images] there are no images")
    if titles is not None and len(titles) != len(shown):
        raise ft.ArgumentError(f"[plot.images] {len(titles)} titles for {len(shown)} images")
    across = min(math.ceil(math.sqrt(len(shown))), 10) if columns is None else columns
    if across < 1:
        raise ft.ArgumentError(f"[plot.images] columns={columns}: expected 1 or more")
    down = -(-len(shown) // across)
    low, high = _limits(shown) if limits is None else limits
    figure = figures.new("images", max(1.1 * across, 3.0), 1.35 * down + 0.5, title)
    for number, x in enumerate(shown):
        axes = figure.add_subplot(down, across, number + 1)
        # In [0, 1] for colours, of which matplotlib takes no other range.
        levels = ft.clip((x.astype(ft.float32) - low) / ((high - low) or 1), 0, 1)
        options: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": 1} if x.ndim == 2 else {}
        axes.imshow(figures.pixels(levels), interpolation="nearest", **options)
        axes.set_xticks([])
        axes.set_yticks([])
        if titles is not None:
            axes.set_title(titles[number], fontsize=7)
        if number in marked:
            axes.title.set_color(_MARK)
            for spine in axes.spines.values():
                spine.set(color=_MARK, linewidth=2)
    return figures.finished("images", figure, path)


def _image(x: Any) -> ft.Tensor:
    """One image as (H, W) or (H, W, C)."""
    made = figures.array("images", "an image", x, 2, 3)
    if made.ndim == 3:
        if made.shape[0] not in (1, 3, 4):
            raise ft.ShapeError(
                f"[plot.images] an image {made.shape}: expected (H, W), or (C, H, W) with C 1, 3 "
                f"or 4"
            )
        made = made[0] if made.shape[0] == 1 else made.permute(1, 2, 0)
    if 0 in made.shape:
        raise ft.ShapeError(f"[plot.images] an image {made.shape} without pixels")
    return made


def _limits(shown: Sequence[ft.Tensor]) -> tuple[float, float]:
    if all(x.dtype is ft.uint8 for x in shown):
        return 0.0, 255.0
    return min(float(x.min().item()) for x in shown), max(float(x.max().item()) for x in shown)
