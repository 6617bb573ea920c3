"""CTC by tensor operations: the specification, for every backend, with every derivative."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.batch import Batch
from fl_speech.criteria.composed import IMPOSSIBLE, constant


def composed_ctc(emissions: ft.Array, batch: Batch, blank: int) -> ft.Array:
    """The losses (B,), in logarithms: one step of tensor operations for each frame.

    Computes in float64 where the backend has it. Infinite where a target has no path.
    """
    samples, frames, _ = emissions.shape
    wide = ft.float64 if ft.float64 in emissions.backend.dtypes else ft.float32
    states, skips = _states(batch, blank)

    scores = ft.log_softmax(emissions.astype(wide), 2)
    places = np.broadcast_to(states[:, None], (samples, frames, states.shape[1]))
    scores = ft.maximum(
        ft.take_along_axis(scores, constant(places, ft.int64, emissions), 2), IMPOSSIBLE
    )
    skip = constant(np.where(skips, 0.0, IMPOSSIBLE), wide, emissions)
    start = np.full(states.shape, IMPOSSIBLE)
    start[:, :2] = 0.0
    start[(batch.target_lengths == 0) | (batch.input_lengths == 0), 1:] = IMPOSSIBLE

    alpha: ft.Array = constant(start, wide, emissions)
    for t in range(frames):
        row = scores[:, t]
        if t == 0:
            following = alpha + row
        else:
            one = ft.pad(alpha[:, :-1], ((0, 0), (1, 0)), value=IMPOSSIBLE)
            two = ft.pad(alpha[:, :-2], ((0, 0), (2, 0)), value=IMPOSSIBLE) + skip
            following = ft.logaddexp(ft.logaddexp(alpha, one), two) + row
        going = constant(t < batch.input_lengths[:, None], ft.bool_, emissions)
        alpha = ft.where(going, following, alpha)

    ends = 2 * batch.target_lengths[:, None] + np.array([0, -1])
    last = ft.take_along_axis(alpha, constant(np.maximum(ends, 0), ft.int64, emissions), 1)
    last = ft.where(constant(ends >= 0, ft.bool_, emissions), last, IMPOSSIBLE)
    total = ft.logaddexp(last[:, 0], last[:, 1])
    return ft.where(total <= IMPOSSIBLE / 2, np.inf, -total)


def _states(batch: Batch, blank: int) -> tuple[np.ndarray, np.ndarray]:
    """The class of each state, (B, 2 L + 1): blanks and labels in turn; and whether a path may go
    there from two states before."""
    samples, labels = batch.targets.shape
    states = np.full((samples, 2 * max(labels, 1) + 1), blank, np.int64)
    states[:, 1 : 2 * labels : 2] = np.where(batch.targets >= 0, batch.targets, blank)
    skips = np.zeros(states.shape, bool)
    skips[:, 3::2] = states[:, 3::2] != states[:, 1:-2:2]
    return states, skips
