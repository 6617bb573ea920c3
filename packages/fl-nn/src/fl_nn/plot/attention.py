"""Attention maps: which keys each query looks at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.plot import figures, matrices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Inches for the name of a row or column.
_NAME = 0.17


def attention(
    weights: Any,
    *,
    queries: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """Weights (queries, keys), or axes for each head of (heads, queries, keys).

    queries, keys  names of the rows and columns, tokens for example

    Raises ShapeError for other shapes, ArgumentError for another number of names.
    """
    found = figures.array("attention", "weights", weights, 2, 3)
    if 0 in found.shape:
        raise ft.ShapeError(f"[plot.attention] weights {found.shape}: an axis has size 0")
    heads = [found] if found.ndim == 2 else [found[i] for i in range(found.shape[0])]
    rows = matrices.names("attention", "queries", queries, found.shape[-2])
    columns = matrices.names("attention", "keys", keys, found.shape[-1])
    across = min(len(heads), 4)
    down = math.ceil(len(heads) / across)
    width = max(3.6, _NAME * len(columns or ()) + 1.4)
    height = max(3.2, _NAME * len(rows or ()) + 1.2)
    figure = figures.new("attention", width * across, height * down, title)
    for number, head in enumerate(heads):
        axes = figure.add_subplot(down, across, number + 1)
        image = matrices.draw(axes, head, rows, columns)
        axes.set_xlabel("keys")
        axes.set_ylabel("queries")
        if len(heads) > 1:
            axes.set_title(f"head {number}")
        figure.colorbar(image, ax=axes)
    return figures.finished("attention", figure, path)
