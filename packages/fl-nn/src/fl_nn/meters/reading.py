"""Outputs and targets as meters of classification read them."""

from __future__ import annotations

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.values import check_probabilities, tensor_of, widest


def read_classes(
    where: str,
    outputs: ft.Array,
    targets: ft.Array,
    axis: int,
    threshold: float | None,
    ignore_index: int | None,
) -> tuple[ft.Tensor, ft.Tensor]:
    """Predicted and true classes, int64 (N,).

    `outputs` are classes, integers in the shape of `targets`, or scores. Of several scores the
    largest is the prediction; one score is class 1 above `threshold`, else class 0.
    """
    if outputs.shape == targets.shape and not outputs.dtype.is_floating:
        predicted, truth = tensor_of(outputs).flatten(), _whole(where, targets)
    else:
        scores, truth = read_scores(where, outputs, targets, axis)
        if len(scores) > 1:
            predicted = ft.argmax(scores, 0)
        elif threshold is None:
            raise ModuleError(
                f"[{where}] outputs {outputs.shape} hold one score for each of the targets "
                f"{targets.shape}: build the meter with threshold=0.0 for logits, or with "
                "threshold=0.5 for probabilities"
            )
        else:
            predicted = ft.greater(scores[0], threshold)
    if ignore_index is not None:
        kept = ft.not_equal(truth, ignore_index)
        predicted, truth = predicted[kept], truth[kept]
    return predicted.astype(ft.int64), truth


def read_scores(
    where: str,
    outputs: ft.Array,
    targets: ft.Array,
    axis: int,
    ignore_index: int | None = None,
) -> tuple[ft.Tensor, ft.Tensor]:
    """Scores (classes, N) and true classes, int64 (N,), of the targets that count. `outputs` have
    an axis of classes more than `targets`, or hold one score each in their shape: (1, N)."""
    scores, truth = _columns(where, outputs, targets, axis), _whole(where, targets)
    if ignore_index is None:
        return scores, truth
    kept = ft.not_equal(truth, ignore_index)
    return scores[:, kept], truth[kept]


def _columns(where: str, outputs: ft.Array, targets: ft.Array, axis: int) -> ft.Tensor:
    scores = tensor_of(outputs)
    if scores.shape == targets.shape:
        return scores.reshape(1, -1)
    place = axis + scores.ndim if axis < 0 else axis
    rest = (*scores.shape[:place], *scores.shape[place + 1 :])
    if not 0 <= place < scores.ndim or rest != targets.shape:
        raise ft.ShapeError(
            f"[{where}] outputs {scores.shape} and targets {targets.shape}: give outputs in the "
            f"shape of the targets, or scores with an axis of classes more (here axis={axis})"
        )
    columns = ft.moveaxis(scores, place, 0)
    return columns.reshape(columns.shape[0], targets.size)


def read_probabilities(
    where: str,
    outputs: ft.Array,
    targets: ft.Array,
    axis: int,
    logits: bool,
    ignore_index: int | None = None,
) -> tuple[ft.Tensor, ft.Tensor]:
    """Logarithms of probabilities (classes, N) where `outputs` are logits, else the probabilities,
    in the widest dtype, and true classes (N,), of the targets that count. ArgumentError for NaN and
    for others than 0 .. 1."""
    scores, truth = read_scores(where, outputs, targets, axis, ignore_index)
    scores = widest(scores)
    if scores.size and bool(ft.any(ft.isnan(scores)).item()):
        raise ft.ArgumentError(f"[{where}] outputs hold NaN: a score is a number")
    if not logits:
        check_probabilities(f"[{where}] outputs", scores, "build the meter with logits=True")
        return scores, truth
    both = scores if len(scores) > 1 else ft.concatenate([ft.zeros_like(scores), scores])
    return ft.log_softmax(both, 0), truth


def _whole(where: str, targets: ft.Array) -> ft.Tensor:
    """Classes as int64 (N,); those of a binary loss may be floats. DTypeError for fractions."""
    given = tensor_of(targets).flatten()
    truth = given.astype(ft.int64)
    if given.dtype.is_floating and not bool(ft.all(ft.equal(truth, given)).item()):
        raise ft.DTypeError(f"[{where}] targets hold fractions: give whole numbers, the classes")
    return truth
