"""The scores of ASG on the host: memory for the kernels, and threads."""

from __future__ import annotations

import numpy as np

from fl_nn.extend import in_threads
from fl_speech.criteria.batch import Batch
from fl_speech.criteria.force_alignment_kernel import force_alignment, force_alignment_gradient
from fl_speech.criteria.full_connection_gradient_kernel import full_connection_gradient
from fl_speech.criteria.full_connection_kernel import Lattice, Transitions, full_connection
from fl_speech.criteria.outside import Slopes

#: Steps from class to class that are worth a thread, and steps of alignments: about a millisecond.
WORTH, WORTH_ALIGNED = 1_000_000, 40_000

#: Gradients of transitions are sums over samples: of so many parts, whatever the threads, so that
#: these change nothing.
PARTS = 16


def full_connection_on_host(
    x: np.ndarray, transitions: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, Slopes]:
    """The full-connect scores (B,) of float64 emissions (B, T, N), and the rule of gradients to
    emissions and transitions."""
    samples, frames, classes = x.shape
    trans = _tables(transitions)
    exps = np.reshape(trans.exps, (classes, classes))
    forward, arrived = np.empty(x.shape), np.empty(x.shape)
    scaled, scores = np.zeros(samples, np.int64), np.empty(samples)
    worth = x.size * classes // WORTH

    def lattice(here: slice) -> Lattice:
        return Lattice(forward[here].reshape(-1), arrived[here].reshape(-1), scaled[here])

    def compute(first: int, last: int) -> None:
        here = slice(first, last)
        full_connection(x[here], lengths[here], frames, classes, trans, lattice(here), scores[here])

    in_threads(compute, samples, worth)

    def slopes(g: np.ndarray) -> list[np.ndarray]:
        parts = _parts(samples)
        to_x = np.zeros(x.shape)
        to_trans, products = (np.zeros((len(parts), classes, classes)) for _ in range(2))

        def compute(first: int, last: int) -> None:
            work = np.empty(frames * classes)
            for part in range(first, last):
                here = parts[part]
                full_connection_gradient(
                    lengths[here], frames, classes, trans, lattice(here), scores[here], g[here],
                    work, to_x[here], products[part], to_trans[part],
                )  # fmt: skip

        in_threads(compute, len(parts), worth)
        return [to_x, to_trans.sum(0) + products.sum(0) * exps]

    return scores, slopes


def force_alignment_on_host(
    x: np.ndarray, transitions: np.ndarray, batch: Batch
) -> tuple[np.ndarray, Slopes]:
    """The scores (B,) of targets that fit their frames, and the rule of gradients to float64
    emissions (B, T, N) and transitions."""
    samples, frames, classes = x.shape
    labels = batch.targets.shape[1]
    shares, scores = np.empty((samples, frames * labels)), np.empty(samples)
    worth = shares.size // WORTH_ALIGNED

    def compute(first: int, last: int) -> None:
        here = slice(first, last)
        force_alignment(
            x[here], batch.input_lengths[here], frames, classes, batch.targets[here],
            batch.target_lengths[here], labels, transitions, np.empty(labels), shares[here],
            scores[here],
        )  # fmt: skip

    in_threads(compute, samples, worth)

    def slopes(g: np.ndarray) -> list[np.ndarray]:
        parts = _parts(samples)
        to_x, to_trans = np.zeros(x.shape), np.zeros((len(parts), classes, classes))

        def compute(first: int, last: int) -> None:
            work = np.empty(3 * labels)
            for part in range(first, last):
                here = parts[part]
                force_alignment_gradient(
                    batch.input_lengths[here], frames, classes, batch.targets[here],
                    batch.target_lengths[here], labels, shares[here], scores[here], g[here], work,
                    to_x[here], to_trans[part],
                )  # fmt: skip

        in_threads(compute, len(parts), worth)
        return [to_x, to_trans.sum(0)]

    return scores, slopes


def _parts(samples: int) -> list[slice]:
    count = min(samples, PARTS)
    bounds = [samples * k // max(count, 1) for k in range(count + 1)]
    return [slice(first, last) for first, last in zip(bounds[:-1], bounds[1:], strict=True)]


def _tables(scores: np.ndarray) -> Transitions:
    tops = scores.max(axis=1)
    with np.errstate(invalid="ignore", over="ignore"):
        exps = np.exp(scores - tops[:, None])
        spread = float((tops - scores.min(axis=1)).max())
    if np.isneginf(scores).any() and not np.isnan(scores).any():
        spread = np.inf  # also for a row of -inf only, whose range is NaN
    turned = np.ascontiguousarray(exps.T)
    return Transitions(scores.ravel(), exps.ravel(), turned.ravel(), tops, spread)
