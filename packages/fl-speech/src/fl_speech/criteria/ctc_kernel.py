"""CTC for tensors of the host: probabilities that are scaled in each frame, in float64.

The states of a target of U labels are U + 1 blanks and U labels. ``alpha[t]`` holds the probability
of all beginnings of paths that end in a state at frame t, ``beta[t]`` that of the ends that follow
(Graves et al., Connectionist temporal classification, 2006). Their scales are such that the largest
of the frame before is 1.

A small number would become 0, and its paths may be the likely ones. So no number is below
``FLOOR``, and sums are upper bounds. What the floors add to the probability P of the target is at
most ``FLOOR``, for each state and frame, times the largest product of the scales of alpha before a
frame and of beta behind it. Where that is less than ``SHARE`` of P, loss and gradient are right.
`ctc_wide` computes the others.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import fl_tensor as ft
from fl_speech.criteria.ctc_wide import WideWork, ctc_wide
from fl_speech.criteria.kernel_rows import Values, biggest, softmax_row, store_row, summed
from fl_tensor.kernels import Array

FLOOR = 1e-270
SHARE = 1e-15


class Work(NamedTuple):
    """Memory for one sample: T frames, U labels, N classes, W = U + 1."""

    row: Array[ft.float64]  # (N,)
    occupied: Array[ft.float64]  # (N,), zero between frames
    shift: Array[ft.float64]  # (T,) the logarithm that normalises each frame
    blanks: Array[ft.float64]  # (T,) the probability of the blank
    labels: Array[ft.float64]  # (T, U) the probability of each label of the target
    logarithm: Array[ft.float64]  # (T,) of the scale of alpha
    alpha_blank: Array[ft.float64]  # (T, W)
    alpha_label: Array[ft.float64]  # (T, W): label j is at j + 1, and 0 at 0
    beta_blank: Array[ft.float64]  # (W,)
    beta_label: Array[ft.float64]  # (W,)
    next_blank: Array[ft.float64]  # (W,) beta times the probability of the state
    next_label: Array[ft.float64]  # (W,)
    skip: Array[ft.float64]  # (W,) 1 where label j may follow label j - 1 without a blank


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
def fill(x: Values, first: int, last: int, value: float) -> None:
    """``x[first:last]`` becomes ``value``."""
    if x.is_double:
        for i in range(first, last):
            x.double[i] = value
    else:
        for i in range(first, last):
            x.single[i] = value


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
def forward(T: int, U: int, work: Work) -> float:
    """Fills ``alpha``; the logarithm of the probability of the target."""
    W = U + 1
    for j in range(W):
        work.alpha_blank[j] = 0.0
        work.alpha_label[j] = 0.0
    work.alpha_blank[0] = max(work.blanks[0], FLOOR)
    top = work.alpha_blank[0]
    if U > 0:
        work.alpha_label[1] = max(work.labels[0], FLOOR)
        top = max(top, work.alpha_label[1])
    logarithm = math.log(top)
    work.logarithm[0] = logarithm
    for t in range(1, T):
        over = 1.0 / top
        p_blank = work.blanks[t] * over
        before = (t - 1) * W
        now = t * W
        p = t * U
        low = max(0, U - (T - t))
        blanks = min(U + 1, t + 1)
        labels = min(U, t + 1)
        for j in range(low, blanks):
            work.alpha_blank[now + j] = max(
                p_blank * (work.alpha_blank[before + j] + work.alpha_label[before + j]), FLOOR
            )
        work.alpha_label[now + low] = 0.0
        for j in range(low, labels):
            arriving = (
                work.alpha_label[before + j + 1]
                + work.alpha_blank[before + j]
                + work.skip[j] * work.alpha_label[before + j]
            )
            work.alpha_label[now + j + 1] = max(over * work.labels[p + j] * arriving, FLOOR)
        # The next frame reads one state more.
        if blanks < W:
            work.alpha_blank[now + blanks] = 0.0
        if labels < U:
            work.alpha_label[now + labels + 1] = 0.0
        top = max(
            biggest(work.alpha_blank, now + low, now + blanks),
            biggest(work.alpha_label, now + low, now + labels + 1),
        )
        logarithm += math.log(top)
        work.logarithm[t] = logarithm
    end = work.alpha_blank[T * W - 1]
    if U > 0:
        end += work.alpha_label[T * W - 1]
    return logarithm + math.log(end / top)


@ft.kernel
def occupy(t: int, low: int, blanks: int, labels: int, W: int, work: Work) -> float:
    """``next_blank`` and ``next_label`` become alpha times beta; their sum."""
    now = t * W
    for j in range(low, blanks):
        work.next_blank[j] = work.alpha_blank[now + j] * work.beta_blank[j]
    for j in range(low, labels):
        work.next_label[j] = work.alpha_label[now + j + 1] * work.beta_label[j]
    return summed(work.next_blank, low, blanks) + summed(work.next_label, low, labels)


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


@ft.kernel
def backward(t: int, T: int, U: int, work: Work) -> float:
    """``beta`` of frame t becomes that of frame t - 1, with 1 as its largest; what was largest."""
    low = max(0, U - (T - t))
    blanks = min(U + 1, t + 1)
    labels = min(U, t + 1)
    p_blank = work.blanks[t]
    for j in range(low, blanks):
        work.next_blank[j] = p_blank * work.beta_blank[j]
    for j in range(low, labels):
        work.next_label[j] = work.labels[t * U + j] * work.beta_label[j]
    # One state more is possible in the frame before.
    if low > 0:
        low -= 1
        work.next_blank[low] = 0.0
        work.next_label[low] = 0.0
    work.next_label[U] = 0.0
    blanks = min(blanks, t)
    labels = min(labels, t)
    for j in range(low, blanks):
        work.beta_blank[j] = max(work.next_blank[j] + work.next_label[j], FLOOR)
    for j in range(low, labels):
        leaving = (
            work.next_label[j] + work.next_blank[j + 1] + work.skip[j + 1] * work.next_label[j + 1]
        )
        work.beta_label[j] = max(leaving, FLOOR)
    top = max(biggest(work.beta_blank, low, blanks), biggest(work.beta_label, low, labels))
    over = 1.0 / top
    for j in range(low, blanks):
        work.beta_blank[j] *= over
    for j in range(low, labels):
        work.beta_label[j] *= over
    return top
