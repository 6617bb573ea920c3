"""``SpeechDetector``: a small network that tells speech from noise, frame by frame."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_speech.audio import audio_info, load_audio
from fl_speech.encoder import ConvResidual
from fl_speech.errors import RecipeError
from fl_speech.features import FeatureExtractor, FeatureParams, normalize
from fl_speech.inference.voice_activity import frame_size
from fl_tensor import untrusted_json
from fl_tensor.files import open_regular, replacing

DESCRIPTION, WEIGHTS = "detector.json", "weights.safetensors"
_FORMAT = 1
_MAX_BYTES = 1 << 16
_MOST = {"sample_rate": 1 << 20, "filters": 1024, "channels": 1 << 14, "blocks": 64}
#: Seconds of a file that are judged at a time, and seconds on both sides that are seen with them.
_BLOCK_S, _AROUND_S = 20, 2
#: The least deviation of a feature.
_FLOOR = 1e-3


class SpeechDetector(nn.Module):
    """Whether each 10 ms of samples at `sample_rate` have speech.

    `filters` logarithms of mel energies, which are normalised over a recording, go through
    `blocks` residual convolutions of `channels`. `fl_speech.training.train_speech_detector` trains
    one, and `speech_segments` turns its answers into seconds.
    """

    def __init__(
        self, sample_rate: int = 16000, filters: int = 40, channels: int = 32, blocks: int = 4
    ) -> None:
        self.sizes = dict(
            sample_rate=sample_rate, filters=filters, channels=channels, blocks=blocks
        )
        for name, most in _MOST.items():
            if not 1 <= self.sizes[name] <= most:
                raise RecipeError(f"[SpeechDetector] {name} {self.sizes[name]}: give 1 to {most}")
        self.sample_rate = sample_rate
        self.extractor = FeatureExtractor(FeatureParams(sample_rate=sample_rate, filters=filters))
        self.network = ConvResidual(
            filters, 1, channels, blocks, subsample=1, dropout=0.1, dilation=3
        )

    def features(self, samples: ft.Array) -> Any:
        """Samples (n,) to normalised features (frames, filters)."""
        return normalize(self.extractor(samples), threshold=_FLOOR)

    def forward(self, features: ft.Array, lengths: Any = None) -> ft.Array:
        """Features (B, T, filters) to the logarithm of the odds of speech, (B, T)."""
        return self.network(features, lengths)[0][..., 0]

    @ag.no_grad()
    def probabilities(self, samples: Any) -> np.ndarray:
        """The probability of speech in each frame of `samples` (n,), float32 (n // s,), where a
        frame has `s = frame_size(sample_rate)` samples. What is too short for a frame of features
        has none."""
        given = ft.asarray(samples, ft.float32)
        if given.ndim != 1:
            raise ft.ShapeError(f"[SpeechDetector] samples {given.shape}: expected one axis")
        found = np.zeros(given.shape[0] // frame_size(self.sample_rate), np.float32)
        with nn.evaluating(self):
            features = self.features(given)
            if len(features):
                odds = np.asarray(self(ft.expand_dims(features, 0)))[0, : len(found)]
                found[: len(odds)] = 1 / (1 + np.exp(-odds))
        return found

    def speech(self, samples: Any, threshold: float = 0.5) -> np.ndarray:
        """Whether each frame of `samples` (n,) has speech, bool (n // s,), as `speech_by_level`."""
        return self.probabilities(samples) > threshold

    def speech_in_file(self, path: str | os.PathLike[str], threshold: float = 0.5) -> np.ndarray:
        """The same of the mean of the channels of a file, which is read in blocks of seconds.
        Raises `AudioError` for a file that cannot be read, or of another rate."""
        info, size = audio_info(path), frame_size(self.sample_rate)
        found = np.zeros(info.samples // size, bool)
        block, around = (seconds * 100 for seconds in (_BLOCK_S, _AROUND_S))
        for start in range(0, len(found), block):
            low, high = max(0, start - around), min(len(found), start + block + around)
            audio, _ = load_audio(
                path, start=low * size, samples=(high - low) * size, sample_rate=self.sample_rate
            )
            speech = self.speech(ft.mean(audio, axis=0), threshold)
            end = min(start + block, len(found))
            found[start:end] = speech[start - low : end - low]
        return found

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `detector.json` and `weights.safetensors` into a folder."""
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        with replacing(path / DESCRIPTION) as file:
            file.write(json.dumps({"format": _FORMAT, **self.sizes}, indent=1).encode() + b"\n")
        nn.save_weights(path / WEIGHTS, self)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> SpeechDetector:
        """The detector that `save` wrote, in evaluation mode. Raises `RecipeError` for a folder
        without one or a damaged description, `fl_nn.CheckpointError` for weights that do not
        fit."""
        path = Path(folder) / DESCRIPTION
        if not path.is_file():
            raise RecipeError(f"{path}: no such file; give the folder of fl-speech detector -o")
        with open_regular(path) as file:
            text = file.read(_MAX_BYTES)
        try:
            found = untrusted_json.parse(text)
        except ValueError as error:
            raise RecipeError(f"{path}: no JSON ({error}); train it again") from error
        if not isinstance(found, Mapping) or found.get("format") != _FORMAT:
            raise RecipeError(f"{path}: not the description of a detector, or of another version")
        sizes = {name: found.get(name) for name in _MOST}
        if not all(type(value) is int for value in sizes.values()):
            raise RecipeError(f"{path}: {sizes} in place of four numbers; train it again")
        detector = cls(**sizes)  # type: ignore[arg-type]
        nn.load_weights(Path(folder) / WEIGHTS, detector)
        detector.eval()
        return detector
