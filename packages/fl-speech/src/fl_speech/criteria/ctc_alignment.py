"""The most likely path of a target, for CTC: Viterbi over blanks and labels."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import math

import numpy as np

import fl_tensor as ft
from fl_speech.criteria.batch import Batch
from fl_speech.criteria.ctc_wide import may_skip
from fl_speech.criteria.kernel_rows import Values, load_row, values_of
from fl_speech.errors import TargetError
from fl_tensor.kernels import Array


def ctc_paths(scores: np.ndarray, batch: Batch, blank: int) -> list[np.ndarray]:
    """The best path of each sample, int64 (T,); raises TargetError where there is none."""
    samples, frames, classes = scores.shape
    states = 2 * batch.targets.shape[1] + 1
    steps = np.empty(frames * states, np.int8)
    row, best = np.empty(classes), np.empty(states)
    given, targets = values_of(scores), batch.targets.reshape(-1)
    found = []
    for b in range(samples):
        path = np.empty(batch.input_lengths[b], np.int64)
        exists = ctc_path(
            given, b * frames * classes, classes, blank, targets, b * batch.targets.shape[1],
            int(batch.target_lengths[b]), steps, row, best, path,
        )  # fmt: skip
        if not exists:
            raise TargetError(
                "CTC",
                b,
                f"no path of {len(path)} frames spells its target of {batch.target_lengths[b]} "
                "labels with a score above minus infinity",
                'give more frames, or infeasible="truncate"',
            )
        found.append(path)
    return found


@ft.kernel
def ctc_path(
    scores: Values,
    at: int,
    classes: int,
    blank: int,
    targets: Array[ft.int64],
    target: int,
    U: int,
    steps: Array[ft.int8],
    row: Array[ft.float64],
    best: Array[ft.float64],
    path: Array[ft.int64],
) -> bool:
    """Fills ``path`` with classes; whether there is one. ``steps`` say how many states back each
    state's best predecessor is: the fewest of those that are equal."""
    T = len(path)
    S = 2 * U + 1
    for t in range(T):
        load_row(scores, at + t * classes, classes, row)
        for s in range(S - 1, -1, -1):
            step = 0
            score = best[s] if t > 0 else (0.0 if s < 2 else -math.inf)
            if t > 0 and s > 0:
                if best[s - 1] > score:
                    score = best[s - 1]
                    step = 1
                if may_skip(targets, target, s) and best[s - 2] > score:
                    score = best[s - 2]
                    step = 2
            steps[t * S + s] = step
            best[s] = score + row[targets[target + (s >> 1)] if s & 1 else blank]
    if T == 0:
        return U == 0
    s = S - 1
    if U > 0 and best[S - 2] > best[S - 1]:
        s = S - 2
    if not best[s] > -math.inf:
        return False
    for t in range(T - 1, -1, -1):
        path[t] = targets[target + (s >> 1)] if s & 1 else blank
        s -= steps[t * S + s]
    return True
