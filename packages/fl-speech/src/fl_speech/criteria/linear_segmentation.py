"""Linear segmentation: each target stretched over its frames, in equal parts."""

from __future__ import annotations

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.asg import TransitionCriterion
from fl_speech.criteria.asg_scores import asg_loss
from fl_speech.criteria.batch import (
    Whole,
    check_batch,
    check_targets,
    counts_of,
    label_counts,
    whole,
)


def stretch_targets(
    targets: Whole, input_lengths: Whole, target_lengths: Whole | None = None
) -> np.ndarray:
    """The label of each frame where every label of a target lasts equally long, int64 (B, T).

    Frame t of T has label ``floor(t * L / T)`` of the L labels, the first T of them if there are
    more. T is the largest of `input_lengths`, and -1 stands after the end of each sample, and
    everywhere for an empty target. Arguments as in `asg_loss`. Raises ShapeError, DTypeError,
    IndexingError.
    """
    where = "stretch_targets"
    found = check_targets(where, targets)
    lengths = whole(where, "input_lengths", input_lengths)
    frames = int(lengths.max(initial=0))
    lengths = counts_of(
        where, "input_lengths", lengths, len(found), 0, frames, "frames in the longest sample"
    )
    ends = label_counts(where, found, target_lengths)
    return _stretched(found, lengths, ends, frames)


def _stretched(
    targets: np.ndarray, lengths: np.ndarray, ends: np.ndarray, frames: int
) -> np.ndarray:
    stretched = np.full((len(targets), frames), -1, np.int64)
    for row, target, length, end in zip(stretched, targets, lengths, ends, strict=True):
        if end:
            row[:length] = target[np.arange(length) * min(end, length) // max(length, 1)]
    return stretched


class LinearSegmentation(TransitionCriterion):
    """ASG of a fixed alignment: each target is stretched over its frames, in equal parts.

    For the first updates of a training, when alignments by the model itself are still random.
    `stretch_targets` makes the alignment. Targets count with their own labels in `scale_mode`.
    """

    def losses(self, emissions: ft.Array, targets: Whole, lengths: Whole | None) -> ft.Array:
        """The scaled loss of each sample, (B,). Raises what `asg_loss` raises."""
        where = "LinearSegmentation"
        batch = check_batch(where, emissions, targets, lengths)
        too_long = batch.target_lengths > batch.input_lengths
        if self.infeasible != "truncate":  # as an empty target it has no path, too
            batch = batch._replace(target_lengths=np.where(too_long, 0, batch.target_lengths))
        frames = batch.input_lengths
        stretched = _stretched(batch.targets, frames, batch.target_lengths, emissions.shape[1])
        ends = np.where(batch.target_lengths > 0, frames, 0)
        found = asg_loss(
            emissions, stretched, self.transitions, frames, ends,
            infeasible=self.infeasible, reduction="none",
        )  # fmt: skip
        return self._scaled(found, emissions, targets, lengths)
