"""Training of a speech detector from recordings and the seconds that have speech."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_data import mix
from fl_speech.errors import RecipeError, SpeechDataError
from fl_speech.inference.speech_detector import SpeechDetector
from fl_speech.training.data import FRAMES
from fl_tensor.annotations import checked

_BATCH, _LR = 16, 5e-3
_ORDER = 1


@checked
def train_speech_detector(
    recordings: Iterable[tuple[Any, Sequence[tuple[float, float]]]],
    sample_rate: int,
    *,
    epochs: int = 8,
    seed: int = 0,
) -> SpeechDetector:
    """A detector that learned from `recordings`: samples (n,), and starts and ends of speech in
    seconds.

    Each frame is a decision of its own (binary cross-entropy). The same recordings and seed give
    the same weights. The default generator of the caller is left alone. Raises `SpeechDataError`
    for no recordings, for spans that end before they start, and for samples that are not finite.
    """
    if epochs < 1:
        raise RecipeError(f"[train_speech_detector] epochs {epochs}: give at least 1")

    def run() -> SpeechDetector:
        ft.set_default_generator(ft.Generator(seed))
        detector = SpeechDetector(sample_rate)
        found = (_row(detector, number, given) for number, given in enumerate(recordings))
        rows = [row for row in found if len(row[0])]
        if not rows:
            raise SpeechDataError("there is no recording to learn from", "give some")
        _train(detector, rows, epochs, seed)
        detector.eval()
        return detector

    return contextvars.copy_context().run(run)


Row = tuple[np.ndarray, np.ndarray]


def _row(detector: SpeechDetector, number: int, given: Any) -> Row:
    """Features (T, filters) and whether the middle of each 10 ms is in one of the spans."""
    try:
        samples, spans = given
        values, spans = np.asarray(samples, np.float32), [(float(a), float(b)) for a, b in spans]
    except (TypeError, ValueError) as error:
        raise SpeechDataError(
            f"recording {number} is {given!r:.50} ({error})",
            "give pairs of samples and of starts and ends in seconds",
        ) from None
    if values.ndim != 1 or not np.isfinite(values).all():
        raise SpeechDataError(
            f"recording {number} has shape {values.shape}, or values that are not finite",
            "give one channel of finite numbers",
        )
    with ft.use("numpy"):
        features = np.asarray(detector.features(ft.asarray(values)))
    middles = 0.01 * (np.arange(len(features)) + 0.5)
    truth = np.zeros(len(features), np.float32)
    for start, end in spans:
        if not 0 <= start <= end:
            raise SpeechDataError(
                f"recording {number} has speech from {start} to {end} s",
                "give starts and ends in seconds, the start first",
            )
        truth[(start <= middles) & (middles < end)] = 1
    return features, truth


def _train(detector: SpeechDetector, rows: Sequence[Row], epochs: int, seed: int) -> None:
    optimizer = nn.AdamW(detector.parameters(), lr=_LR)
    steps = epochs * -(-len(rows) // _BATCH)
    schedule = nn.OneCycleLR(optimizer, max_lr=_LR, total_steps=steps)
    for epoch in range(epochs):
        order = np.random.default_rng(mix(seed, _ORDER, epoch)).permutation(len(rows))
        for start in range(0, len(rows), _BATCH):
            features, truth, lengths, own = _batch([rows[i] for i in order[start:][:_BATCH]])
            odds = detector(features, lengths)
            loss = nn.binary_cross_entropy_with_logits(odds, truth, "sum", own) / ft.sum(own)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


def _batch(rows: Sequence[Row]) -> tuple[ft.Tensor, ...]:
    """Features, truths, lengths, and 1 where a frame is no padding."""
    lengths = np.array([len(features) for features, _ in rows])
    frames = -(-int(lengths.max()) // FRAMES) * FRAMES
    features = np.zeros((len(rows), frames, rows[0][0].shape[1]), np.float32)
    truth = np.zeros((len(rows), frames), np.float32)
    for place, (values, answers) in enumerate(rows):
        features[place, : len(values)], truth[place, : len(values)] = values, answers
    own = (np.arange(frames) < lengths[:, None]).astype(np.float32)
    found: tuple[ft.Tensor, ...] = tuple(map(ft.asarray, (features, truth, lengths, own)))
    return found
