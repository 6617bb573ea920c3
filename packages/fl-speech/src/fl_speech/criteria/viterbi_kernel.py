"""Kernels of the most likely path, free or through the labels of a target."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

import fl_tensor as ft
from fl_tensor.kernels import Array


@ft.kernel
def viterbi(
    x: Array[ft.float64],
    lengths: Array[ft.int64],
    frames: int,
    classes: int,
    by_source: Array[ft.float64],
    work: Array[ft.float64],
    back: Array[ft.int64],
    paths: Array[ft.int64],
) -> None:
    """Writes the path of each sample, (B, frames); of equal ones that with the lowest classes at
    the end.

    ``by_source`` holds the scores of transitions as (from, to), ``work`` two numbers a class,
    ``back`` (frames, classes).
    """
    for sample in range(len(lengths)):
        length = lengths[sample]
        if length == 0:
            continue
        at = sample * frames * classes
        for i in range(classes):
            work[i] = x[at + i]
        for t in range(1, length):
            row = t * classes
            for i in range(classes):
                work[classes + i] = work[0] + by_source[i]
                back[row + i] = 0
            for j in range(1, classes):
                score = work[j]
                for i in range(classes):
                    value = score + by_source[j * classes + i]
                    better = value > work[classes + i]
                    work[classes + i] = value if better else work[classes + i]
                    back[row + i] = j if better else back[row + i]
            for i in range(classes):
                work[i] = work[classes + i] + x[at + row + i]
        best = 0
        for i in range(1, classes):
            if work[i] > work[best]:
                best = i
        for t in range(length - 1, -1, -1):
            paths[sample * frames + t] = best
            if t > 0:
                best = back[t * classes + best]


@ft.kernel
def forced_viterbi(
    x: Array[ft.float64],
    lengths: Array[ft.int64],
    frames: int,
    classes: int,
    targets: Array[ft.int64],
    target_lengths: Array[ft.int64],
    labels: int,
    trans: Array[ft.float64],
    work: Array[ft.float64],
    moved: Array[ft.int8],
    places: Array[ft.int64],
) -> None:
    """Writes the place in the target for each frame, (B, frames); of equal ones that which stays.

    Targets fit their frames. ``work`` holds a number a label, ``moved`` (frames, labels).
    """
    for sample in range(len(lengths)):
        length = lengths[sample]
        size = target_lengths[sample]
        if length == 0:
            continue
        at = sample * frames * classes
        first = sample * labels
        for k in range(size):
            work[k] = -math.inf
        work[0] = x[at + targets[first]]
        for t in range(1, length):
            low = max(0, size - length + t)
            for k in range(min(t, size - 1), low - 1, -1):
                label = targets[first + k]
                score = work[k] + trans[label * classes + label]
                moved[t * labels + k] = 0
                if k > 0:
                    moves = work[k - 1] + trans[label * classes + targets[first + k - 1]]
                    # Before frame k there is no way to label k, and none to stay in it.
                    if moves > score or k == t:
                        score = moves
                        moved[t * labels + k] = 1
                work[k] = score + x[at + t * classes + label]
        k = size - 1
        for t in range(length - 1, -1, -1):
            places[sample * frames + t] = k
            if t > 0:
                k -= moved[t * labels + k]
