"""Emissions of recordings: what an encoder says of each frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_speech.audio import load_audio
from fl_speech.encoder import ConvResidual
from fl_speech.errors import AudioError, RecipeError
from fl_speech.recogniser import Recogniser

#: Batches are padded to multiples of so many frames.
FRAMES = 32


class Emissions(NamedTuple):
    """Of one recording: the sample, scores (T', N) float32, and the milliseconds of a frame of
    them. For CTC they are logarithms of probabilities."""

    utterance: Any
    scores: np.ndarray
    frame_ms: float


def emissions_of(
    recogniser: Recogniser,
    utterances: Iterable[Any],
    *,
    batch_size: int = 16,
    on_error: Callable[[Exception], object] | None = None,
) -> Iterator[Emissions]:
    """Emissions of `utterances` (`fl_speech.datasets.Utterance`) one after another, computed in
    batches of neighbours.

    `on_error` is told of a recording that cannot be used, which is left out; by default the error
    is raised.
    """
    waiting = iter(utterances)
    while chunk := list(islice(waiting, batch_size)):
        kept, features = [], []
        for one in chunk:
            try:
                features.append(features_of(recogniser, one))
                kept.append(one)
            except AudioError as error:
                if on_error is None:
                    raise
                on_error(error)
        if kept:
            found = scores_of(recogniser, features)
            ms = frame_ms(recogniser)
            yield from (Emissions(one, scores, ms) for one, scores in zip(kept, found))


def features_of(recogniser: Recogniser, utterance: Any) -> ft.Tensor:
    """Features (T, F) of the recording of an utterance, by NumPy's backend, which has no shapes to
    plan. Raises `AudioError` for a recording that is shorter than a frame."""
    with ft.use("numpy"):
        audio, _ = load_audio(utterance.path, sample_rate=recogniser.recipe.sample_rate)
        features: ft.Tensor = recogniser.features(ft.mean(audio, axis=0))
    if not len(features):
        raise AudioError(
            utterance.path,
            f"its {audio.shape[-1]} samples are fewer than a frame has "
            f"({recogniser.recipe.frame_ms:g} ms)",
            "leave the recording out, or give skip_bad",
        )
    return features.astype(ft.dtype(recogniser.recipe.dtype))


def scores_of(recogniser: Recogniser, features: list[ft.Tensor]) -> list[np.ndarray]:
    """Emissions (T', N) of features (T, F) of several recordings, as a batch."""
    padded, counts = padded_batch(recogniser, features)
    with nn.evaluating(recogniser), ft.reproducible():
        output, lengths = recogniser(padded, counts)
        if recogniser.criterion.decoding == "ctc":
            output = ft.log_softmax(output, -1)
    scores = np.asarray(output, np.float32)
    ends = [scores.shape[1]] * len(scores) if lengths is None else np.asarray(lengths).tolist()
    return [scores[row, :end].copy() for row, end in enumerate(ends)]


def padded_batch(recogniser: Recogniser, features: list[ft.Tensor]) -> tuple[ft.Tensor, ft.Tensor]:
    """Features (T, F) as a batch (B, T, F) of the current backend, and their lengths. Where an
    encoder sees no padding, there is more of it, for fewer shapes."""
    counts = [len(x) for x in features]
    longest = max(counts)
    if isinstance(recogniser.encoder, ConvResidual):
        longest += -longest % FRAMES
    values = np.zeros((len(features), longest, recogniser.features.size), np.float64)
    for row, x in zip(values, features):
        row[: len(x)] = np.asarray(x)
    return ft.asarray(values, ft.dtype(recogniser.recipe.dtype)), ft.asarray(counts, ft.int64)


def frame_ms(recogniser: Recogniser) -> float:
    """Milliseconds of a frame of emissions."""
    return recogniser.recipe.stride_ms * subsampling(recogniser)


def subsampling(recogniser: Recogniser) -> int:
    """How many frames of features make a frame of emissions."""
    encoder = recogniser.encoder
    known = getattr(encoder, "stride", None) or getattr(encoder, "subsample", None)
    if known is not None:
        return int(known)
    steps = 960
    dtype = ft.dtype(recogniser.recipe.dtype)
    with nn.evaluating(recogniser):
        x = ft.zeros((1, steps, recogniser.features.size), dtype)
        output, _ = recogniser(x, ft.asarray([steps], ft.int64))
    if not output.shape[1]:
        raise RecipeError(f"the encoder makes no frames of {steps} frames of features")
    return max(1, round(steps / output.shape[1]))
