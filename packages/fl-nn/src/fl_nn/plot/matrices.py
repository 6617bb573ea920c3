"""A matrix as colours, with names along its sides: what confusion and attention have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.plot import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(
    axes: Axes, matrix: ft.Tensor, rows: Sequence[str] | None, columns: Sequence[str] | None
) -> Any:
    """The image of ``matrix``, from 0 (white) to its largest value."""
    high = float(matrix.max().item()) or 1.0
    image = axes.imshow(figures.pixels(matrix), cmap="Blues", vmin=0.0, vmax=high, aspect="auto")
    if columns is not None:
        turned = 90 if max(map(len, columns), default=0) > 3 else 0
        axes.set_xticks(range(len(columns)), columns, rotation=turned)
    if rows is not None:
        axes.set_yticks(range(len(rows)), rows)
    return image


def names(op: str, what: str, given: Sequence[str] | None, count: int) -> list[str] | None:
    """The names of ``count`` rows or columns; ArgumentError for another number of them."""
    if given is None:
        return None
    if len(given) != count:
        raise ft.ArgumentError(f"[plot.{op}] {len(given)} {what} for {count} of the matrix")
    return [str(name) for name in given]
