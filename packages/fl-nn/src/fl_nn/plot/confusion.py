"""Confusion matrices: which classes are taken for which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn.meters import ConfusionMeter
from fl_nn.plot import figures, matrices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: With more classes than this, cells hold no numbers.
_NUMBERED = 20


def confusion(
    truth: Any,
    predicted: Any = None,
    classes: Sequence[str] | None = None,
    *,
    normalise: bool = False,
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """How often each class (a row) was taken for each class (a column).

    truth, predicted  vectors of class numbers, from 0 on; or a ``ConfusionMeter`` alone
    classes           the names of all classes; by default the numbers that occur
    normalise         shares of the row, which is the recall on the diagonal, in place of counts

    Raises ShapeError where the vectors differ in length or are empty, ArgumentError for a number
    without a class, and for another number of names than the meter has classes.
    """
    if isinstance(truth, ConfusionMeter):
        if predicted is not None:
            raise ft.ArgumentError("[plot.confusion] a meter stands alone: name classes=")
        count = truth.classes
        counts = ft.asarray(truth.value)
        matrices.names("confusion", "classes", classes, count)
    else:
        count, counts = _counted(truth, predicted, classes)
    named = list(map(str, range(count) if classes is None else classes))
    matrix = counts
    if normalise:
        matrix = counts / ft.maximum(counts.sum(axis=1, keepdims=True), 1)
    side = max(0.42 * count + 1.6, 3.2)
    figure = figures.new("confusion", side + 0.8, side, title)
    axes = figure.add_subplot()
    image = matrices.draw(axes, matrix, named, named)
    axes.set_xlabel("predicted")
    axes.set_ylabel("truth")
    figure.colorbar(image, ax=axes)
    if count <= _NUMBERED:
        half = float(matrix.max().item()) / 2
        for row, values in enumerate(matrix.tolist()):
            for column, value in enumerate(values):
                if value:
                    axes.text(
                        column,
                        row,
                        f"{value:.2f}" if normalise else str(value),
                        ha="center",
                        va="center",
                        fontsize=7,
                        color="white" if value > half else "black",
                    )
    return figures.finished("confusion", figure, path)


def _counted(truth: Any, predicted: Any, classes: Sequence[str] | None) -> tuple[int, ft.Tensor]:
    """How many classes there are, and the matrix of two vectors."""
    true = figures.array("confusion", "truth", truth, 1)
    guess = figures.array("confusion", "predicted", predicted, 1)
    if true.shape != guess.shape or not true.size:
        raise ft.ShapeError(
            f"[plot.confusion] truth {true.shape} and predicted {guess.shape}: expected two "
            f"vectors of one length, not empty"
        )
    for name, x in (("truth", true), ("predicted", guess)):
        if not x.dtype.is_integer:
            raise ft.DTypeError(f"[plot.confusion] {name} {x.dtype}: expected class numbers")
    true, guess = true.astype(ft.int64), guess.astype(ft.int64)
    low = int(ft.minimum(true.min(), guess.min()).item())
    most = int(ft.maximum(true.max(), guess.max()).item())
    count = most + 1 if classes is None else len(classes)
    if low < 0 or most >= count:
        wrong = low if low < 0 else most
        raise ft.ArgumentError(f"[plot.confusion] class {wrong}: expected 0 to {count - 1}")
    counts = ft.bincount(true * count + guess, minlength=count * count)
    return count, counts.reshape(count, count)
