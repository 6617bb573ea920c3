"""Targets as a decoder sees them: with end tokens, without padding tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.batch import Whole, check_batch, label_counts, whole


class Labels(NamedTuple):
    """Int64 on the host. U is the length of the longest target, with its end token."""

    expected: np.ndarray
    """(B, U): the target, the end token, -1"""
    counts: np.ndarray
    """(B,): how many of them, with the end token"""
    frames: np.ndarray
    """(B,): frames of the encoder's output"""


def labels_of(
    where: str,
    encoded: ft.Array,
    targets: Whole,
    lengths: Whole | None,
    classes: int,
    eos: int,
    pad: int | None,
) -> Labels:
    """The targets of a batch, each with one end token. Raises as `check_batch`."""
    found = unpadded(where, targets, pad)
    batch = check_batch(where, encoded, found, lengths, classes=classes)
    ends = batch.target_lengths
    rows = np.arange(len(ends))
    expected = np.full((len(ends), batch.targets.shape[1] + 1), -1, np.int64)
    expected[:, :-1] = batch.targets
    ended = (ends > 0) & (expected[rows, ends - 1] == eos)
    counts = ends + ~ended
    expected[rows, counts - 1] = eos
    return Labels(expected[:, : counts.max(initial=1)], counts, batch.input_lengths)


def unpadded(where: str, targets: Whole, pad: int | None) -> np.ndarray:
    """The targets (B, L), with -1 in place of `pad` after their ends."""
    found = whole(where, "targets", targets)
    if pad is None or found.ndim != 2:
        return found
    ends = label_counts(where, np.where(found == pad, -1, found), None)
    return np.where(np.arange(found.shape[1]) < ends[:, None], found, -1)
