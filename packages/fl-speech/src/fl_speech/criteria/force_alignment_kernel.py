"""Kernels of the score of a target: the logarithm of a sum over its alignments, and its gradient.

Scores are logarithms in float64. For each frame and label the forward pass keeps the share of the
paths that stay in the label, so the backward pass needs no exponentials.
"""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

import fl_tensor as ft
from fl_tensor.kernels import Array


@ft.kernel
def force_alignment(
    x: Array[ft.float64],
    lengths: Array[ft.int64],
    frames: int,
    classes: int,
    targets: Array[ft.int64],
    target_lengths: Array[ft.int64],
    labels: int,
    trans: Array[ft.float64],
    work: Array[ft.float64],
    shares: Array[ft.float64],
    scores: Array[ft.float64],
) -> None:
    """Writes the score of each sample; 0 for no frames and no labels, -inf without an alignment.

    ``targets`` are (B, labels), ``shares`` (B, frames, labels), ``work`` holds a label each.
    """
    for sample in range(len(lengths)):
        length = lengths[sample]
        size = target_lengths[sample]
        if size == 0 and length == 0:
            scores[sample] = 0.0
        elif size == 0 or size > length:
            scores[sample] = -math.inf
        else:
            scores[sample] = score_of(
                x, sample * frames * classes, length, classes, targets, sample * labels, size,
                labels, trans, work, shares, sample * frames * labels,
            )  # fmt: skip


@ft.kernel
def score_of(
    x: Array[ft.float64],
    at: int,
    length: int,
    classes: int,
    targets: Array[ft.int64],
    first: int,
    size: int,
    labels: int,
    trans: Array[ft.float64],
    work: Array[ft.float64],
    shares: Array[ft.float64],
    place: int,
) -> float:
    """The score of one sample. Label k is reached in frame k, and left for the others in time."""
    for k in range(size):
        work[k] = -math.inf
    work[0] = x[at + targets[first]]
    for t in range(1, length):
        row = at + t * classes
        low = max(0, size - length + t)
        for k in range(min(t, size - 1), low - 1, -1):
            label = targets[first + k]
            stays = work[k] + trans[label * classes + label]
            moves = -math.inf
            if k > 0:
                moves = work[k - 1] + trans[label * classes + targets[first + k - 1]]
            share = 1.0
            found = stays
            if moves > stays:
                ratio = math.exp(stays - moves)
                share = ratio / (1.0 + ratio)
                found = moves + math.log1p(ratio)
            elif moves > -math.inf:
                ratio = math.exp(moves - stays)
                share = 1.0 / (1.0 + ratio)
                found = stays + math.log1p(ratio)
            elif moves != moves:
                found = moves
            shares[place + t * labels + k] = share
            work[k] = found + x[row + label]
    return work[size - 1]


@ft.kernel
def force_alignment_gradient(
    lengths: Array[ft.int64],
    frames: int,
    classes: int,
    targets: Array[ft.int64],
    target_lengths: Array[ft.int64],
    labels: int,
    shares: Array[ft.float64],
    scores: Array[ft.float64],
    g: Array[ft.float64],
    work: Array[ft.float64],
    to_emissions: Array[ft.float64],
    to_transitions: Array[ft.float64],
) -> None:
    """Adds the gradients of ``sum(g * scores)``. A sample without an alignment has gradient 0.

    ``work`` holds three numbers a label: what is at the label, what stayed there, what moved there.
    """
    for sample in range(len(lengths)):
        length = lengths[sample]
        size = target_lengths[sample]
        if length == 0 or g[sample] == 0.0 or scores[sample] == -math.inf:
            continue
        at = sample * frames * classes
        place = sample * frames * labels
        first = sample * labels
        for k in range(3 * labels):
            work[k] = 0.0
        work[size - 1] = g[sample]
        for t in range(length - 1, 0, -1):
            low = max(0, size - length + t)
            high = min(t, size - 1)
            for k in range(low, high + 1):
                slope = work[k]
                stays = slope * shares[place + t * labels + k]
                moves = slope - stays
                to_emissions[at + t * classes + targets[first + k]] += slope
                work[labels + k] += stays
                work[2 * labels + k] += moves
                work[k] = stays
                if k > 0:
                    work[k - 1] += moves
        to_emissions[at + targets[first]] += work[0]
        for k in range(size):
            row = targets[first + k] * classes
            to_transitions[row + targets[first + k]] += work[labels + k]
            if k > 0:
                to_transitions[row + targets[first + k - 1]] += work[2 * labels + k]
