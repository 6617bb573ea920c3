"""The scores of ASG as loops of tensor operations over frames, for any backend and any order of
derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.batch import Batch

#: Stands for a logarithm of 0, so that no difference is NaN.
LOWEST = -1e30


def composed_full_connection(x: Any, trans: Any, lengths: np.ndarray) -> Any:
    """The full-connect score of each sample, (B,)."""
    frames = x.shape[1]
    if not frames:
        return ft.sum(x, axis=(1, 2))
    forward = x[:, 0]
    for t in range(1, frames):
        arrived = ft.logsumexp(ft.expand_dims(forward, 1) + ft.expand_dims(trans, 0), axis=2)
        forward = ft.where(_flags((t < lengths)[:, None], x), x[:, t] + arrived, forward)
    return ft.where(_flags(lengths > 0, x), ft.logsumexp(forward, axis=1), 0.0)


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
    index = _numbers(np.broadcast_to(targets[:, None], (samples, frames, labels)), x)
    picked = ft.take_along_axis(x, index, axis=2)
    flat = ft.reshape(trans, (-1,))
    stay = _pick(flat, targets * classes + targets, x)
    move = _pick(flat, targets * classes + before, x)
    first = _flags(np.broadcast_to(places == 0, targets.shape), x)
    forward = ft.where(first, picked[:, 0], LOWEST)
    for t in range(1, frames):
        moved = ft.where(first, LOWEST, ft.roll(forward, 1, axis=1) + move)
        arrived = ft.logaddexp(forward + stay, moved)
        running = _flags((t < batch.input_lengths)[:, None], x)
        forward = ft.where(running, picked[:, t] + arrived, forward)
    ends = np.maximum(batch.target_lengths - 1, 0)
    found = ft.take_along_axis(forward, _numbers(ends[:, None], x), axis=1)[:, 0]
    return ft.where(_flags(batch.target_lengths > 0, x), found, 0.0)


def _flags(values: np.ndarray, x: Any) -> ft.Tensor:
    return ft.asarray(np.ascontiguousarray(values), ft.bool, x.device, x.backend)


def _numbers(values: np.ndarray, x: Any) -> ft.Tensor:
    return ft.asarray(np.ascontiguousarray(values), ft.int64, x.device, x.backend)


def _pick(flat: Any, index: np.ndarray, x: Any) -> Any:
    """Elements of a vector, in the shape of `index`."""
    return ft.reshape(ft.take(flat, _numbers(index.ravel(), x), axis=0), index.shape)
