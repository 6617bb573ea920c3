"""The sound of utterances: loaded, checked, as features."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from fl_data import Dataset, Sample, check_index
from fl_speech.audio import audio_info, load_audio
from fl_speech.datasets.utterance import Utterance
from fl_speech.errors import AudioError, SpeechDataError

Load = Callable[[Utterance], tuple[Any, int]]


class Sounds(Dataset):
    """Sample `i` is `(samples (n,),)` of utterance `i`, at `rate` Hz.

    Raises `SpeechDataError` naming the utterance for a file that cannot be read, no samples,
    another rate, and several channels unless `downmix` makes them their mean.
    """

    def __init__(
        self, utterances: Sequence[Utterance], rate: int, downmix: bool, load: Load | None
    ) -> None:
        self.utterances, self._rate, self._downmix = utterances, rate, downmix
        self._load = load

    def __len__(self) -> int:
        return len(self.utterances)

    def __getitem__(self, index: int) -> Sample:
        return (self.samples(index),)

    def samples(self, index: int) -> Any:
        """The samples of a recording, `(n,)`."""
        one = self.utterances[check_index(index, len(self), "Sounds")]
        try:
            samples, rate = load_audio(one.path) if self._load is None else self._load(one)
        except AudioError as error:
            raise _unreadable(one, error) from error
        channels = 1 if samples.ndim == 1 else samples.shape[0]
        self._check(one, rate, channels, samples.shape[-1])
        if samples.ndim > 1:
            samples = samples[0] if channels == 1 else samples.mean(axis=0)
        return samples

    def count(self, index: int) -> int:
        """How many samples a recording has, by its header."""
        if self._load is not None:
            return int(self.samples(index).shape[0])
        one = self.utterances[index]
        try:
            info = audio_info(one.path)
        except AudioError as error:
            raise _unreadable(one, error) from error
        self._check(one, info.sample_rate, info.channels, info.samples)
        return info.samples

    def key(self, index: int) -> str:
        """A name that another recording, or a changed one, does not have."""
        one = self.utterances[index]
        if self._load is not None:
            return f"{one.source} {one.id} {one.duration_ms}"
        try:
            found = os.stat(one.path)
        except (OSError, ValueError):
            return one.path  # loading it explains what is wrong
        return f"{os.path.abspath(one.path)} {found.st_size} {found.st_mtime_ns}"

    def _check(self, one: Utterance, rate: int, channels: int, samples: int) -> None:
        if rate != self._rate:
            raise one.error(
                f"its rate is {rate} Hz and the features are for {self._rate} Hz",
                "convert the recording, or use features for its rate",
            )
        if channels != 1 and not self._downmix:
            raise one.error(
                f"it has {channels} channels", "give downmix=True for their mean, or convert it"
            )
        if samples == 0:
            raise one.error("it has 0 samples", "record it again, or leave it out")


class Extracted:
    """`(samples,)` to `(features,)`, for a cache; may be pickled."""

    def __init__(self, features: Callable[[Any], Any]) -> None:
        self._features = features

    def __call__(self, sample: Any) -> Sample:
        return (self._features(sample[0]),)


def _unreadable(one: Utterance, error: AudioError) -> SpeechDataError:
    return one.error(str(error), "or leave it out")


def sample_rate(features: Any) -> int:
    """The rate that features are for."""
    rate = getattr(getattr(features, "params", features), "sample_rate", None)
    if not isinstance(rate, int):
        raise SpeechDataError(
            f"the features {features!r} have no rate", "give them params.sample_rate, in Hz"
        )
    return rate


def frame_count(features: Any, samples: int) -> int:
    """How many frames features have for so many samples."""
    count = getattr(features, "frame_count", None) or features.params.frames
    return int(count(samples))
