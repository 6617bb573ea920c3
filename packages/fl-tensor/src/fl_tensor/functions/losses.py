"""Public losses over class numbers. Both call the backend's operation ``cross_entropy``, which
takes log-probabilities."""

from __future__ import annotations

from typing import Any, NoReturn

from fl_tensor.arguments import axis_of, refuse
from fl_tensor.dispatch.frontend import ArrayLike, operands_of, run
from fl_tensor.errors import DTypeError, IndexingError, ShapeError

__all__ = ["cross_entropy", "nll_loss"]


def cross_entropy(
    logits: ArrayLike, targets: ArrayLike, axis: int = -1, **foreign: NoReturn
) -> Any:
    """``nll_loss`` of ``log_softmax(logits)``: the cross entropy of classes with unnormalised
    scores, which also takes log-probabilities, since ``log_softmax`` leaves them as they are.

    logits (..., classes, ...) with the classes on ``axis``, floating; targets integers in
    [0, classes), the same shape without that axis, and so is the result. Raises ShapeError,
    DTypeError, IndexingError. Its gradient is softmax minus one-hot."""
    if foreign:
        refuse("cross_entropy", foreign)
    logits, targets, axis = _checked("cross_entropy", "logits", logits, targets, axis)
    log_probs = run("log_softmax", logits, logits._raw, axis)
    return run("cross_entropy", log_probs, log_probs._raw, targets._raw, axis)


def nll_loss(log_probs: ArrayLike, targets: ArrayLike, axis: int = -1, **foreign: NoReturn) -> Any:
    """``-log_probs`` at integer ``targets`` along ``axis``: the negative log-likelihood.

    log_probs (..., classes, ...) with the classes on ``axis``, floating, as ``log_softmax`` gives
    them; targets integers in [0, classes), the same shape without that axis, and so is the result.
    Raises ShapeError, DTypeError, IndexingError."""
    if foreign:
        refuse("nll_loss", foreign)
    log_probs, targets, axis = _checked("nll_loss", "log_probs", log_probs, targets, axis)
    return run("cross_entropy", log_probs, log_probs._raw, targets._raw, axis)


def _checked(
    op: str, name: str, scores: ArrayLike, targets: ArrayLike, axis: int
) -> tuple[Any, Any, int]:
    # The operands as arrays of one class, and the axis counted from the front.
    scores, targets = operands_of(op, "SA", scores, targets)
    axis = axis_of(op, axis, scores.shape)
    classes = scores.shape[axis]
    expected = (*scores.shape[:axis], *scores.shape[axis + 1 :])
    if targets.shape != expected:
        raise ShapeError(
            f"[{op}] {name} {scores.shape} and targets {targets.shape}: targets must be "
            f"{expected} for classes on axis {axis}"
        )
    if not targets.dtype.is_integer:
        raise DTypeError(f"[{op}] targets are {targets.dtype}: expected class numbers")
    if targets.size and targets._backend.has_values:
        low, high = targets.min().item(), targets.max().item()
        if low < 0 or high >= classes:
            raise IndexingError(
                f"[{op}] target {low if low < 0 else high} is outside the {classes} classes of "
                f"{name} {scores.shape}"
            )
    return scores, targets, axis
