"""CTC of a batch on the host: memory for the kernels, and threads."""

from __future__ import annotations

import numpy as np

from fl_nn.extend import in_threads
from fl_speech.criteria.batch import Batch
from fl_speech.criteria.ctc_kernel import ctc_samples
from fl_speech.criteria.ctc_passes import Work
from fl_speech.criteria.ctc_wide import WideWork
from fl_speech.criteria.kernel_rows import values_of

#: States times frames, plus scores, that are worth a thread: about a millisecond.
WORTH = 400_000


def ctc_on_host(
    scores: np.ndarray, batch: Batch, blank: int, grads: np.ndarray | None, zero: bool = False
) -> np.ndarray:
    """The losses (B,), float64, of scores (B, T, N); gradients to the scores into `grads`.

    zero  a loss is 0 instead of infinity
    """
    samples, frames, classes = scores.shape
    losses = np.zeros(samples)
    given = values_of(scores)
    wanted = values_of(np.empty(0, scores.dtype) if grads is None else grads)

    def compute(first: int, last: int) -> int:
        longest = int(max(batch.target_lengths[first:last], default=0))
        return ctc_samples(
            given, wanted, grads is not None, frames, classes, blank, batch.targets.reshape(-1),
            batch.targets.shape[1], batch.input_lengths, batch.target_lengths, losses, first, last,
            _memory(frames, longest, classes), _wide_memory(frames, longest, classes),
        )  # fmt: skip

    in_threads(compute, samples, samples * frames * (classes + 2 * batch.targets.shape[1]) // WORTH)
    return np.where(np.isinf(losses), 0.0, losses) if zero else losses


def _memory(frames: int, labels: int, classes: int) -> Work:
    width = labels + 1
    row, occupied = np.empty(classes), np.zeros(classes)
    shift, blanks, logarithm = (np.empty(frames) for _ in range(3))
    alphas = [np.empty(frames * width) for _ in range(2)]
    betas = [np.empty(width) for _ in range(5)]
    return Work(row, occupied, shift, blanks, np.empty(frames * labels), logarithm, *alphas, *betas)


def _wide_memory(frames: int, labels: int, classes: int) -> WideWork:
    states = 2 * labels + 1
    alpha, beta, here = (np.empty(n) for n in (frames * states, states, states))
    powers = [np.empty(n, np.int64) for n in (frames * states, states, states)]
    return WideWork(np.empty(classes), alpha, powers[0], beta, powers[1], here, powers[2])
