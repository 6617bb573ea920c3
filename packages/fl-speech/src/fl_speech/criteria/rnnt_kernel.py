"""RNN-T for tensors of the host, in float64 logarithms.

A node (t, u) has taken t frames and u labels. A blank leads to (t + 1, u), label u to (t, u + 1).
``alpha`` is the logarithm of the probability to come to a node, ``beta`` that of what follows
(Graves, Sequence transduction with recurrent neural networks, 2012).
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math
from typing import NamedTuple

import fl_tensor as ft
from fl_speech.criteria.kernel_rows import Values, fill, load_row, softmax_row, store_row, summed
from fl_tensor.kernels import Array


class RnntWork(NamedTuple):
    """Memory for one sample: N classes, T (U + 1) nodes."""

    row: Array[ft.float64]  # (N,)
    shift: Array[ft.float64]  # the logarithm that normalises each node
    blanks: Array[ft.float64]  # the logarithms of the probabilities of the blank and of the label
    labels: Array[ft.float64]
    alpha: Array[ft.float64]
    beta: Array[ft.float64]


@ft.kernel
def log_add(a: float, b: float) -> float:
    """The logarithm of the sum of two probabilities."""
    high = max(a, b)
    if high == -math.inf:
        return high
    return high + math.log1p(math.exp(min(a, b) - high))


@ft.kernel
def rnnt_samples(
    scores: Values,
    grads: Values,
    with_grads: bool,
    frames: int,
    width: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    logit_lengths: Array[ft.int64],
    target_lengths: Array[ft.int64],
    losses: Array[ft.float64],
    first: int,
    last: int,
    w: RnntWork,
) -> None:
    """Losses, and gradients to the scores, of samples ``first`` to ``last - 1``. ``width`` is the
    size of the axis of labels of the scores, 1 more than that of the targets."""
    for sample in range(first, last):
        at = sample * frames * width * classes
        T = logit_lengths[sample]
        U = target_lengths[sample]
        target = sample * (width - 1)
        if with_grads:
            fill(grads, at, at + frames * width * classes, 0.0)
        normal = node_scores(scores, at, T, width, classes, blank, targets, target, U, w)
        loss = math.nan
        if normal:
            loss = -forward_backward(T, U, w)
        losses[sample] = loss
        if with_grads and not normal:
            fill(grads, at, at + T * width * classes, math.nan)
        if with_grads and loss < math.inf:
            node_gradients(
                scores, grads, at, T, width, classes, blank, targets, target, U, -loss, w
            )


@ft.kernel
def node_scores(
    scores: Values,
    at: int,
    T: int,
    width: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    w: RnntWork,
) -> bool:
    """The logarithms of blank and label at each node; whether all scores are numbers."""
    normal = True
    for t in range(T):
        for u in range(U + 1):
            o = at + (t * width + u) * classes
            node = t * (U + 1) + u
            top = softmax_row(scores, o, classes, w.row)
            total = summed(w.row, 0, classes)
            if not total > 0.0:
                normal = False
            w.shift[node] = top + math.log(total)
            load_row(scores, o, classes, w.row)
            w.blanks[node] = w.row[blank] - w.shift[node]
            w.labels[node] = -math.inf
            if u < U:
                w.labels[node] = w.row[targets[target + u]] - w.shift[node]
    return normal


@ft.kernel
def forward_backward(T: int, U: int, w: RnntWork) -> float:
    """Fills ``alpha`` and ``beta``; the logarithm of the probability of the target."""
    W = U + 1
    for t in range(T):
        for u in range(W):
            node = t * W + u
            value = 0.0 if node == 0 else -math.inf
            if t > 0:
                value = w.alpha[node - W] + w.blanks[node - W]
            if u > 0:
                value = log_add(value, w.alpha[node - 1] + w.labels[node - 1])
            w.alpha[node] = value
    for t in range(T - 1, -1, -1):
        for u in range(U, -1, -1):
            node = t * W + u
            value = -math.inf
            if t < T - 1:
                value = w.blanks[node] + w.beta[node + W]
            elif u == U:
                value = w.blanks[node]
            if u < U:
                value = log_add(value, w.labels[node] + w.beta[node + 1])
            w.beta[node] = value
    return w.beta[0]


@ft.kernel
def node_gradients(
    scores: Values,
    grads: Values,
    at: int,
    T: int,
    width: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    total: float,
    w: RnntWork,
) -> None:
    """At each node: the share of paths that come by, times the softmax, minus the shares that
    leave by the blank and by the label."""
    W = U + 1
    for t in range(T):
        for u in range(W):
            o = at + (t * width + u) * classes
            node = t * W + u
            here = w.alpha[node] - total
            share = math.exp(here + w.beta[node])
            load_row(scores, o, classes, w.row)
            for n in range(classes):
                w.row[n] = math.exp(w.row[n] - w.shift[node]) * share
            if t < T - 1:
                w.row[blank] -= math.exp(here + w.blanks[node] + w.beta[node + W])
            elif u == U:
                w.row[blank] -= math.exp(here + w.blanks[node])
            if u < U:
                label = targets[target + u]
                w.row[label] -= math.exp(here + w.labels[node] + w.beta[node + 1])
            store_row(grads, o, classes, w.row, 1.0)
