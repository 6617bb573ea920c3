"""The forward and the backward pass of CTC: scaled probabilities of each frame, in float64.

The states of a target of U labels are U + 1 blanks and U labels. ``alpha[t]`` holds the probability
of all beginnings of paths that end in a state at frame t, ``beta[t]`` that of the ends that follow
(Graves et al., Connectionist temporal classification, 2006). Their scales are such that the largest
of the frame before is 1.

A small number would become 0, and its paths may be the likely ones. So no number is below
``FLOOR``, and sums are upper bounds.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import fl_tensor as ft
from fl_speech.criteria.kernel_rows import biggest, summed
from fl_tensor.kernels import Array

FLOOR = 1e-270


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
