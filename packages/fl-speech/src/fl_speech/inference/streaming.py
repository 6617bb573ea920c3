"""Recognition while a recording arrives."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_speech.encoder import ConvResidual
from fl_speech.errors import RecipeError
from fl_speech.inference.decoding import Decoder
from fl_speech.models import AcousticModel
from fl_speech.recogniser import Recogniser

#: Frames of features that an encoder takes at once.
FRAMES = 32


class SpeechStream:
    """`push(samples)` gives what is heard so far, `finish()` the whole transcript, a `Hypothesis`
    of the decoder. All chunks together say what the whole recording says at once.

    The features of the recogniser may not need what comes later: `normalise` is "global", "none",
    or "local" with `local_right` 0. Its criterion is ctc or asg, and its encoder has bounded
    context: ConvResidual, or an `AcousticModel` that streams. Raises `RecipeError` for others.
    """

    def __init__(self, recogniser: Recogniser, decoder: Decoder) -> None:
        recipe = recogniser.recipe
        causal = recipe.normalise == "local" and recipe.local_right == 0
        if recipe.normalise not in ("global", "none") and not causal:
            raise RecipeError(
                f"normalise is {recipe.normalise!r}, which needs what comes later: train with "
                "--normalise local --local-right 0, or with --normalise global"
            )
        if decoder.decoding == "seq2seq":
            raise RecipeError("sequence-to-sequence models do not stream: use ctc or asg")
        recogniser.eval()
        self.recogniser, self.decoder = recogniser, decoder
        self._features = recogniser.features.extractor.stream()
        self._encoder = encoder_stream(recogniser.encoder)
        self._search = decoder.search.begin()
        self._waiting: list[Any] = []
        #: Frames that those to come are normalised by.
        self._before: Any = None
        self._begun = False

    @property
    def text(self) -> str:
        """What is heard so far, without a word in progress."""
        best = self._search.best()
        return "" if best is None else best.text

    def push(self, samples: ft.Array) -> str:
        """Hear samples (n,) at the rate of the recogniser; what is heard so far."""
        if samples.shape[-1]:
            self._begun = True
            self._take(self._features.push(samples))
        return self.text

    def finish(self) -> Any:
        """The best hypothesis of all, or None where none is possible."""
        if self._begun:
            self._take(self._features.finish(), last=True)
        found = self._search.end(n_best=1)
        return found[0] if found else None

    def _take(self, features: ft.Array, last: bool = False) -> None:
        if len(features):
            self._waiting.append(features)
        if not self._waiting or (not last and sum(map(len, self._waiting)) < FRAMES):
            if last:
                self._hear(self._encoder.finish())
            return
        chunk, self._waiting = ft.concatenate(self._waiting, axis=0), []
        chunk = self._normalised(chunk).astype(ft.dtype(self.recogniser.recipe.dtype))
        self._hear(self._encoder.push(chunk))
        if last:
            self._hear(self._encoder.finish())

    def _normalised(self, features: Any) -> Any:
        recipe, frontend = self.recogniser.recipe, self.recogniser.features
        if recipe.normalise != "local":
            return frontend.normalised(features)
        count = len(features)
        if self._before is not None:
            features = ft.concatenate([self._before, features], axis=0)
        self._before = features[max(0, len(features) - recipe.local_left) :]
        return frontend.normalised(features)[len(features) - count :]

    def _hear(self, emissions: Any) -> None:
        if emissions is None or not len(emissions):
            return
        if self.decoder.decoding == "ctc":
            emissions = ft.log_softmax(emissions, -1)
        self._search.step(np.asarray(emissions, np.float32))


def encoder_stream(encoder: nn.Module) -> Any:
    """What encodes features in pieces: `push(features (k, F)) -> (m, N)`, `finish() -> (m, N)`."""
    if isinstance(encoder, AcousticModel):
        return encoder.stream()
    if isinstance(encoder, ConvResidual):
        return ContextStream(encoder)
    raise RecipeError(
        f"{type(encoder).__name__} does not stream: use the residual encoder, or an architecture "
        "of convolutions with bounded context"
    )


class ContextStream:
    """A network whose outputs see `context` frames on each side, over features in pieces: each
    piece runs with the context before it, and gives the outputs that no later frame changes."""

    def __init__(self, encoder: ConvResidual) -> None:
        self.encoder = encoder
        self._kept: Any = None
        self._first = 0  # number of the first frame that is kept, a multiple of the stride
        self._done = 0  # outputs that were given

    def push(self, features: ft.Array) -> Any:
        """The outputs (m, N) that are settled; m may be 0."""
        kept = features if self._kept is None else ft.concatenate([self._kept, features], axis=0)
        self._kept = kept
        stride, context = self.encoder.subsample, self.encoder.context
        settled = max(self._done, (self._first + len(kept) - 1 - context) // stride + 1)
        return self._made(settled)

    def finish(self) -> Any:
        """The outputs that are left."""
        if self._kept is None:
            return None
        stride = self.encoder.subsample
        return self._made(-(-(self._first + len(self._kept)) // stride))

    def _made(self, end: int) -> Any:
        if end <= self._done:
            return None
        stride, context = self.encoder.subsample, self.encoder.context
        start = self._first // stride
        with ag.no_grad():
            output, _ = self.encoder(ft.expand_dims(self._kept, 0))
        found = output[0][self._done - start : end - start]
        self._done = end
        first = max(0, end * stride - context) // stride * stride
        self._kept = self._kept[first - self._first :]
        self._first = first
        return found
