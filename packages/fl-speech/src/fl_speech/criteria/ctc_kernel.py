"""CTC for tensors of the host: losses and gradients of samples.

``ctc_scaled`` computes with scaled probabilities that have a floor (`ctc_passes`). Floors add to
the probability P of the target at most ``FLOOR``, for each state and frame, times the largest
product of the scales of alpha before a frame and of beta behind it. Where that is less than
``SHARE`` of P, loss and gradient are right. `ctc_wide` computes the others.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

import fl_tensor as ft
from fl_speech.criteria.ctc_passes import FLOOR, Work, backward, forward, occupy
from fl_speech.criteria.ctc_wide import WideWork, ctc_wide
from fl_speech.criteria.kernel_rows import Values, fill, softmax_row, store_row, summed
from fl_tensor.kernels import Array

SHARE = 1e-15


@ft.kernel
def ctc_samples(
    scores: Values,
    grads: Values,
    with_grads: bool,
    frames: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    width: int,
    input_lengths: Array[ft.int64],
    target_lengths: Array[ft.int64],
    losses: Array[ft.float64],
    first: int,
    last: int,
    work: Work,
    wide: WideWork,
) -> int:
    """Losses, and gradients to the scores, of samples ``first`` to ``last - 1``; returns how many
    of them `ctc_wide` computed."""
    fallbacks = 0
    for sample in range(first, last):
        at = sample * frames * classes
        T = input_lengths[sample]
        U = target_lengths[sample]
        target = sample * width
        normal = normalise(
            scores, grads, with_grads, at, T, classes, blank, targets, target, U, work
        )
        if normal:
            loss = ctc_scaled(grads, with_grads, at, T, classes, blank, targets, target, U, work)
            if loss != loss:
                fallbacks += 1
                normalise(
                    scores, grads, with_grads, at, T, classes, blank, targets, target, U, work
                )
                loss = ctc_wide(
                    scores, work.shift, grads, with_grads, at, T, classes, blank, targets, target,
                    U, work.occupied, wide,
                )  # fmt: skip
        else:
            loss = math.nan
        losses[sample] = loss
        if with_grads:
            # Without a path the loss is infinite, and nothing lowers it: the gradient is 0.
            start = 0 if loss == math.inf else T
            fill(grads, at + start * classes, at + frames * classes, 0.0)
            if loss != loss:
                fill(grads, at, at + T * classes, math.nan)
    return fallbacks


@ft.kernel
def normalise(
    scores: Values,
    grads: Values,
    with_grads: bool,
    at: int,
    T: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    work: Work,
) -> bool:
    """Softmax of each frame: into ``grads``, and of the classes of the target into ``work``;
    whether all scores are numbers."""
    normal = True
    for t in range(T):
        o = at + t * classes
        top = softmax_row(scores, o, classes, work.row)
        total = summed(work.row, 0, classes)
        if not total > 0.0:
            normal = False
        over = 1.0 / total
        work.shift[t] = top + math.log(total)
        work.blanks[t] = work.row[blank] * over
        for j in range(U):
            work.labels[t * U + j] = work.row[targets[target + j]] * over
        if with_grads:
            store_row(grads, o, classes, work.row, over)
    return normal


@ft.kernel
def ctc_scaled(
    grads: Values,
    with_grads: bool,
    at: int,
    T: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    work: Work,
) -> float:
    """The loss of one sample, after `normalise`; NaN where floors may matter."""
    if T == 0:
        return 0.0 if U == 0 else math.inf
    W = U + 1
    for j in range(W):
        work.skip[j] = 0.0
        if j > 0 and j < U and targets[target + j] != targets[target + j - 1]:
            work.skip[j] = 1.0
    logarithm = forward(T, U, work)
    most = logarithm + math.log(SHARE / FLOOR) - math.log(2.0 * W * T)
    for j in range(W):
        work.beta_blank[j] = 0.0
        work.beta_label[j] = 0.0
        work.next_label[j] = 0.0
    work.beta_blank[U] = 1.0
    if U > 0:
        work.beta_label[U - 1] = 1.0
    scale = 0.0
    for t in range(T - 1, -1, -1):
        low = max(0, U - (T - t))
        blanks = min(U + 1, t + 1)
        labels = min(U, t + 1)
        if not scale + (work.logarithm[t - 1] if t > 0 else 0.0) < most:
            return math.nan
        total = occupy(t, low, blanks, labels, W, work)
        if with_grads:
            o = at + t * classes
            subtract(grads, o, blank, targets, target, low, blanks, labels, 1.0 / total, work)
        if t > 0:
            scale += math.log(backward(t, T, U, work))
    return -logarithm


@ft.kernel
def subtract(
    grads: Values,
    o: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    low: int,
    blanks: int,
    labels: int,
    over: float,
    work: Work,
) -> None:
    """The gradient of a frame: its softmax minus the share of each class in all paths."""
    for j in range(low, labels):
        work.occupied[targets[target + j]] += work.next_label[j]
    work.occupied[blank] = summed(work.next_blank, low, blanks)
    if grads.is_double:
        for j in range(low, labels):
            n = targets[target + j]
            grads.double[o + n] -= work.occupied[n] * over
            work.occupied[n] = 0.0
        grads.double[o + blank] -= work.occupied[blank] * over
    else:
        for j in range(low, labels):
            n = targets[target + j]
            grads.single[o + n] -= work.occupied[n] * over
            work.occupied[n] = 0.0
        grads.single[o + blank] -= work.occupied[blank] * over
    work.occupied[blank] = 0.0
