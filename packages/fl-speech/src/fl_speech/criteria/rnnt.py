"""The loss of a transducer (RNN-T)."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_nn.extend import check_reduction, in_threads, reduce
from fl_speech.criteria.batch import Whole, check_labels, counts_of, label_counts, whole
from fl_speech.criteria.composed import IMPOSSIBLE, constant
from fl_speech.criteria.ctc import blank_of
from fl_speech.criteria.kernel_rows import values_of
from fl_speech.criteria.outside import (
    host_array,
    kernels_fit,
    needs_gradient,
    outside_tape,
    shares_of,
    widened,
)
from fl_speech.criteria.rnnt_kernel import RnntWork, rnnt_samples
from fl_tensor.annotations import explained

#: Scores that are worth a thread.
WORTH = 200_000


@explained
def rnnt_loss(
    logits: ft.Array,
    targets: Whole,
    logit_lengths: Whole | None = None,
    target_lengths: Whole | None = None,
    *,
    blank: int = -1,
    reduction: str = "mean",
    composed: bool | None = None,
) -> ft.Array:
    """Minus the logarithm of the probability of the targets, by a transducer: of all sequences of
    labels and blanks that, without the blanks, are the target, where each blank leads to the next
    frame and the last symbol is a blank. Graves, Sequence transduction with recurrent neural
    networks, 2012.

    logits          (B, T, U + 1, N), floating: of the joint network, for each frame and each number
                    of labels before; softmax over the classes is part of the loss
    targets         (B, U), integers, without blanks; -1 after the end of each target
    logit_lengths   (B,), the frames of each sample, 1 to T; None: T
    target_lengths  (B,), the labels of each target; None: up to the last that is not -1
    blank           the class of the blank, from the end if negative
    reduction       "mean" over the batch, "sum", or "none": (B,)
    composed        as of `ctc_loss`

    The loss has the dtype of the logits, and float32 for those of 16 bits. Every target has paths.
    Raises ShapeError, DTypeError,
    ArgumentError, and IndexingError, which names the sample, for a class or a length out of range.
    """
    where = "rnnt_loss"
    check_reduction(where, reduction)
    if logits.ndim != 4 or not all(logits.shape[1:]):
        raise ft.ShapeError(f"[{where}] logits {logits.shape}: give (B, T, U + 1, N), none 0")
    if not logits.dtype.is_floating:
        raise ft.DTypeError(f"[{where}] logits are {logits.dtype}: give floating scores")
    samples, frames, width, classes = logits.shape
    blank = blank_of(where, blank, classes)
    labels = whole(where, "targets", targets)
    if labels.shape != (samples, width - 1):
        raise ft.ShapeError(
            f"[{where}] targets {labels.shape} for logits {logits.shape}: give "
            f"({samples}, {width - 1}), padded with -1"
        )
    ends = label_counts(where, labels, target_lengths)
    check_labels(where, labels, ends, classes, blank)
    steps = counts_of(where, "logit_lengths", logit_lengths, samples, 1, frames, "frames of logits")
    logits = widened(logits)
    if not kernels_fit(logits, composed):
        losses = composed_rnnt(logits, labels, steps, ends, blank).astype(logits.dtype)
        return reduce(losses, reduction)
    scores = host_array(logits)
    grads = np.empty_like(scores) if needs_gradient(logits) else None
    found = rnnt_on_host(scores, labels, steps, ends, blank, grads)
    return reduce(outside_tape(where, found, [logits], shares_of(grads)), reduction)


def rnnt_on_host(
    scores: np.ndarray,
    targets: np.ndarray,
    logit_lengths: np.ndarray,
    target_lengths: np.ndarray,
    blank: int,
    grads: np.ndarray | None,
) -> np.ndarray:
    """The losses (B,), float64, of scores (B, T, U + 1, N); gradients to the scores into
    `grads`."""
    samples, frames, width, classes = scores.shape
    losses = np.zeros(samples)
    given = values_of(scores)
    wanted = values_of(np.empty(0, scores.dtype) if grads is None else grads)

    def compute(first: int, last: int) -> None:
        nodes = [np.empty(frames * width) for _ in range(5)]
        rnnt_samples(
            given, wanted, grads is not None, frames, width, classes, blank, targets.reshape(-1),
            logit_lengths, target_lengths, losses, first, last, RnntWork(np.empty(classes), *nodes),
        )  # fmt: skip

    in_threads(compute, samples, scores.size // WORTH)
    return losses


def composed_rnnt(
    logits: ft.Array,
    targets: np.ndarray,
    logit_lengths: np.ndarray,
    target_lengths: np.ndarray,
    blank: int,
) -> ft.Array:
    """The losses (B,) by tensor operations, on every backend: one step for each diagonal of nodes
    with one sum of frames and labels."""
    samples, frames, width, _ = logits.shape
    dtype = ft.float64 if ft.float64 in logits.backend.dtypes else ft.float32

    scores = ft.log_softmax(logits.astype(dtype), 3)
    classes = np.full((samples, frames, width, 2), blank)
    classes[:, :, :-1, 1] = np.where(targets >= 0, targets, blank)[:, None]
    scores = ft.take_along_axis(scores, constant(classes, ft.int64, logits), 3)
    scores = ft.maximum(ft.reshape(scores, (samples, frames * width, 2)), IMPOSSIBLE)

    diagonals = np.arange(frames + width - 1)[:, None]
    times = diagonals - np.arange(width)
    inside = (times >= 0) & (times < frames)
    nodes = np.clip(times, 0, frames - 1) * width + np.arange(width)
    last = (logit_lengths + target_lengths - 1)[:, None]
    ends = np.arange(width) == target_lengths[:, None]

    alpha: ft.Array = constant(np.where(np.arange(width) == 0, 0.0, IMPOSSIBLE), dtype, logits)
    alpha = ft.broadcast_to(alpha, (samples, width))
    found: ft.Array = constant(np.full(samples, IMPOSSIBLE), dtype, logits)
    leave = label = alpha
    for d in range(len(diagonals)):
        if d > 0:
            moved = ft.pad((alpha + label)[:, :-1], ((0, 0), (1, 0)), value=IMPOSSIBLE)
            alpha = ft.logaddexp(alpha + leave, moved)
            alpha = ft.where(constant(inside[d], ft.bool_, logits), alpha, IMPOSSIBLE)
        here = ft.gather(scores, constant(nodes[d], ft.int64, logits), 1)
        leave, label = here[:, :, 0], here[:, :, 1]
        at_end = constant(ends & (last == d), ft.bool_, logits)
        finished = ft.where(at_end, alpha + leave, IMPOSSIBLE)
        found = ft.maximum(found, ft.max(finished, 1))
    return ft.where(found <= IMPOSSIBLE / 2, np.inf, -found)
