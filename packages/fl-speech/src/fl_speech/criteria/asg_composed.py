"""The scores of ASG as loops of tensor operations over frames, for any backend and any order of
derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.batch import Batch
from fl_speech.criteria.composed import IMPOSSIBLE, constant


def composed_full_connection(x: Any, trans: Any, lengths: np.ndarray) -> Any:
    """The full-connect score of each sample, (B,)."""
    frames = x.shape[1]
    if not frames:
        return ft.sum(x, axis=(1, 2))
    forward = x[:, 0]
    for t in range(1, frames):
        arrived = ft.logsumexp(ft.expand_dims(forward, 1) + ft.expand_dims(trans, 0), axis=2)
        running = constant((t < lengths)[:, None], ft.bool_, x)
        forward = ft.where(running, x[:, t] + arrived, forward)
    return ft.where(constant(lengths > 0, ft.bool_, x), ft.logsumexp(forward, axis=1), 0.0)


def composed_force_alignment(x: Any, trans: Any, batch: Batch) -> Any:
    """The score of each target, (B,). Targets fit their frames."""
    samples, frames, classes = x.shape
    labels = batch.targets.shape[1]
    if not frames or not labels:
        return ft.sum(x, axis=(1, 2)) * 0.0
    places = np.arange(labels)
    known = places < batch.target_lengths[:, None]
    targets = np.where(known, batch.targets, 0)
    before = np.concatenate([targets[:, :1], targets[:, :-1]], axis=1)
    index = constant(np.broadcast_to(targets[:, None], (samples, frames, labels)), ft.int64, x)
    picked = ft.take_along_axis(x, index, axis=2)
    flat = ft.reshape(trans, (-1,))
    stay = _pick(flat, targets * classes + targets, x)
    move = _pick(flat, targets * classes + before, x)
    first = constant(np.broadcast_to(places == 0, targets.shape), ft.bool_, x)
    forward = ft.where(first, picked[:, 0], IMPOSSIBLE)
    for t in range(1, frames):
        moved = ft.where(first, IMPOSSIBLE, ft.roll(forward, 1, axis=1) + move)
        arrived = ft.logaddexp(forward + stay, moved)
        running = constant((t < batch.input_lengths)[:, None], ft.bool_, x)
        forward = ft.where(running, picked[:, t] + arrived, forward)
    ends = np.maximum(batch.target_lengths - 1, 0)
    found = ft.take_along_axis(forward, constant(ends[:, None], ft.int64, x), axis=1)[:, 0]
    return ft.where(constant(batch.target_lengths > 0, ft.bool_, x), found, 0.0)


def _pick(flat: Any, index: np.ndarray, x: Any) -> Any:
    """Elements of a vector, in the shape of `index`."""
    return ft.reshape(ft.take(flat, constant(index.ravel(), ft.int64, x), axis=0), index.shape)
