"""Infeasible targets, which no path spells: longer than their frames, or empty."""

from __future__ import annotations

import numpy as np

from fl_speech.criteria.batch import Batch
from fl_speech.errors import TargetError

#: Values of the argument `infeasible` of criteria.
INFEASIBLE = ("truncate", "inf", "zero")


def fit_targets(where: str, batch: Batch, infeasible: str) -> tuple[Batch, np.ndarray]:
    """A batch whose targets fit their frames, and which samples have a path, bool (B,).

    "truncate" cuts targets to their frames. Raises TargetError for an empty target with frames,
    which it cannot help.
    """
    frames, labels = batch.input_lengths, batch.target_lengths
    possible = (labels <= frames) & ((labels > 0) | (frames == 0))
    if infeasible == "truncate":
        empty = np.flatnonzero((labels == 0) & (frames > 0))
        if empty.size:
            raise TargetError(
                where,
                int(empty[0]),
                f"its target is empty, and no path of {frames[empty[0]]} frames spells nothing",
                'put a silence token into it, leave the sample out, or use infeasible="zero"',
            )
        possible = np.ones(len(labels), bool)
    return batch._replace(target_lengths=np.minimum(labels, frames)), possible


def check_fit(where: str, batch: Batch) -> None:
    """Raise TargetError for a target that is empty or has more labels than frames."""
    frames, labels = batch.input_lengths, batch.target_lengths
    wrong = np.flatnonzero((labels > frames) | ((labels == 0) & (frames > 0)))
    if wrong.size:
        sample = int(wrong[0])
        raise TargetError(
            where,
            sample,
            f"{labels[sample]} labels cannot be aligned with {frames[sample]} frames",
            "leave the sample out, or give a target of 1 label up to one for each frame",
        )
