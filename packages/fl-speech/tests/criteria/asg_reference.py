"""ASG by sums over all paths, one after the other, in float64."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    emissions: np.ndarray
    targets: np.ndarray
    transitions: np.ndarray
    lengths: np.ndarray
    target_lengths: np.ndarray


def random_case(seed: int) -> Case:
    """1-3 samples of up to 6 frames and 4 classes; targets may be empty or too long, and neighbours
    equal. Some have wide scores, which probabilities cannot hold."""
    rng = np.random.default_rng(seed)
    samples, frames, classes = rng.integers(1, 4), rng.integers(1, 7), rng.integers(1, 5)
    labels = rng.integers(1, frames + 2)
    width = rng.choice([0.5, 3.0, 400.0], p=[0.5, 0.3, 0.2])
    lengths = rng.integers(0 if rng.random() < 0.2 else 1, frames + 1, samples)
    target_lengths = rng.integers(0, labels + 1, samples)
    targets = rng.integers(0, classes, (samples, labels))
    targets[np.arange(labels) >= target_lengths[:, None]] = -1
    return Case(
        rng.normal(size=(samples, frames, classes)) * width,
        targets,
        rng.normal(size=(classes, classes)) * rng.choice([0.0, 1.0, width]),
        lengths,
        target_lengths,
    )


class Sum(NamedTuple):
    """The logarithm of a sum over paths, its gradients, and the best path."""

    score: float
    to_emissions: np.ndarray
    to_transitions: np.ndarray
    best: list[int] | None


def all_paths(frames: int, classes: int) -> list[list[int]]:
    return [list(path) for path in itertools.product(range(classes), repeat=frames)]


def alignments(frames: int, target: list[int]) -> list[list[int]]:
    """Every way to spend `frames` on the labels in order, each for at least one frame."""
    if not target:
        return [[]] if not frames else []
    found = []
    for cuts in itertools.combinations(range(1, frames), len(target) - 1):
        ends = np.diff([0, *cuts, frames])
        found.append([label for label, n in zip(target, ends, strict=True) for _ in range(n)])
    return found if frames else []


def summed(x: np.ndarray, transitions: np.ndarray, paths: list[list[int]]) -> Sum:
    """`x` (T, N): log of the sum of exp(score) over `paths`; gradient 0 where there is none."""
    scores = [
        sum(x[t, k] for t, k in enumerate(path))
        + sum(transitions[m, n] for n, m in itertools.pairwise(path))
        for path in paths
    ]
    to_x, to_transitions = np.zeros_like(x), np.zeros_like(transitions)
    if not scores:
        return Sum(-math.inf, to_x, to_transitions, None)
    high = max(scores)
    total = high + math.log(math.fsum(math.exp(score - high) for score in scores))
    for path, score in zip(paths, scores, strict=True):
        share = math.exp(score - total)
        for t, k in enumerate(path):
            to_x[t, k] += share
        for n, m in itertools.pairwise(path):
            to_transitions[m, n] += share
    return Sum(total, to_x, to_transitions, paths[int(np.argmax(scores))])
