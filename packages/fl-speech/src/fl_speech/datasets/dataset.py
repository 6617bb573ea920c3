"""``SpeechDataset``: features, lengths and targets of recordings."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import fl_tensor as ft
from fl_data import CachedTransform, Dataset, EpochDataset, Sample, check_index, mix
from fl_data.extend import Seed
from fl_speech.datasets.sounds import Extracted, Load, Sounds, frame_count, sample_rate
from fl_speech.datasets.targets import TargetGenerator
from fl_speech.datasets.utterance import Utterance
from fl_speech.errors import SpeechDataError
from fl_text import TextError


class SpeechDataset(EpochDataset):
    """Sample `i` is `(features, length, target)` of utterance `i`: float `(T, F)`, the number of
    frames T, int64 `(L,)`. `batches` makes padded batches of them, as `fl_nn.Trainer` takes them.

    features      `features(samples (n,)) -> (T, F)`, with the rate in `features.params.sample_rate`
                  and the number of frames by `features.frame_count(n)`: `FeatureExtractor`,
                  `LogMel`
    targets       a `TargetGenerator`, or a function `targets(words, generator) -> numbers`
    effects       `effects(samples, generator) -> samples`, before features, from epoch
                  `effects_from` on; drawn by seed, epoch and index alone
    normalize     `normalize(features) -> features`, of the same number of frames
    subsampling   frames that become one in the model: a target needs one of these for each token,
                  and one more between equal tokens. 0 does not check it
    downmix       recordings with several channels become their mean; else they are an error
    allow_empty   targets may be empty, and words missing
    load          `load(utterance) -> (samples (n,) or (channels, n), rate)` instead of files
    cache_bytes, cache_folder   features without effects are kept, in memory or in files, at most so
                  many bytes; without both nothing is. They are found by path, size and time of
                  change of the recording, and by `repr(features)`

    Raises `SpeechDataError` naming list file, line, sample and remedy when a sample is asked for
    that cannot be used: no samples, another rate, several channels, a damaged file, features with
    NaN or infinity, an empty target, a target longer than its frames, tokens outside the
    dictionary. With `on_error="skip"` such samples are left out, as far as headers and words show
    it; `scan` decodes everything. `skipped` has their errors.
    """

    def __init__(
        self,
        utterances: Sequence[Utterance],
        features: Callable[[Any], Any],
        targets: TargetGenerator | Callable[..., Sequence[int]],
        *,
        effects: Callable[..., Any] | None = None,
        effects_from: int = 0,
        normalize: Callable[[Any], Any] | None = None,
        subsampling: int = 1,
        downmix: bool = False,
        allow_empty: bool = False,
        on_error: Literal["raise", "skip"] = "raise",
        load: Load | None = None,
        cache_bytes: int | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> None:
        for one in utterances:
            if not isinstance(one, Utterance):
                raise SpeechDataError(f"{one!r} is no Utterance", "give a sequence of utterances")
        if min(subsampling, effects_from) < 0:
            raise SpeechDataError(
                f"subsampling {subsampling} or effects_from {effects_from} is negative",
                "give 0 or more",
            )
        self.features, self.targets = features, targets
        self.effects, self.effects_from = effects, effects_from
        self.normalize, self.subsampling, self.allow_empty = normalize, subsampling, allow_empty
        self.sample_rate = sample_rate(features)
        self._seed = Seed(seed, "SpeechDataset")
        self._sounds = Sounds(tuple(utterances), self.sample_rate, downmix, load)
        self._clean: Dataset | None = None
        if cache_bytes is not None or cache_folder is not None:
            self._clean = CachedTransform(
                self._sounds,
                Extracted(features),
                folder=cache_folder,
                max_bytes=cache_bytes,
                version=f"{features!r} {downmix}",
                key=self._sounds.key,
            )
        #: Sample `i` is number `_rows[i]` of all utterances that were given.
        self._rows = list(range(len(utterances)))
        #: The errors of utterances that were left out.
        self.skipped: list[SpeechDataError] = []
        if on_error == "skip":
            self._leave_out(self._header_problem)

    @property
    def utterances(self) -> list[Utterance]:
        """The utterance of each sample."""
        return [self._sounds.utterances[row] for row in self._rows]

    @property
    def durations(self) -> list[float]:
        """Of each sample, in milliseconds."""
        return [one.duration_ms for one in self.utterances]

    def scan(self) -> SpeechDataset:
        """This dataset without samples that cannot be used: each is decoded once, without effects.
        `skipped` of the result has their errors, too."""
        found = self.with_effects(False)
        found._leave_out(found._problem)
        found.effects = self.effects
        return found

    def with_effects(self, wanted: bool) -> SpeechDataset:
        """This dataset with its effects, or without."""
        found = copy.copy(self)
        found.effects = self.effects if wanted else None
        found.skipped = list(self.skipped)
        return found

    def target(self, index: int) -> list[int]:
        """The token numbers of a sample in this epoch, without its sound."""
        return self._target(self._rows[check_index(index, len(self), "SpeechDataset")])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        return self._sample(self._rows[check_index(index, len(self), "SpeechDataset")])

    def _sample(self, row: int) -> Sample:
        one = self._sounds.utterances[row]
        numbers = self._target(row)
        values = self._features(row)
        if self.normalize is not None and values.shape[0]:
            values = self.normalize(values)
        frames = values.shape[0]
        self._check(one, numbers, frames)
        if not ft.all(ft.isfinite(values)).item():
            raise one.error(
                f"its features {values.shape} hold NaN or infinity",
                "look at recording, effects and normalisation, or leave it out by scan",
            )
        return values, frames, ft.asarray(numbers, dtype=ft.int64)

    def _features(self, row: int) -> Any:
        if self.effects is not None and self.epoch >= self.effects_from:
            samples = self._sounds.samples(row)
            return self.features(self.effects(samples, self._generator(row, 0)))
        if self._clean is not None:
            (values,) = self._clean[row]
            return values
        return self.features(self._sounds.samples(row))

    def _generator(self, row: int, purpose: int) -> ft.Generator:
        return ft.Generator(mix(self._seed.value, self.epoch, row, purpose))

    def _target(self, row: int) -> list[int]:
        one = self._sounds.utterances[row]
        if one.words is None and not self.allow_empty:
            raise one.error("it has no words", "write them, or give allow_empty=True")
        try:
            numbers = list(self.targets(one.words or (), self._generator(row, 1)))
        except SpeechDataError as error:
            raise one.error(error.problem, error.remedy) from error
        except TextError as error:
            raise one.error(str(error), "correct it, or leave it out") from error
        if not numbers and not self.allow_empty:
            raise one.error(
                f"the target of its words {one.text!r} is empty",
                "leave it out, or give allow_empty=True",
            )
        return numbers

    def _check(self, one: Utterance, numbers: Sequence[int], frames: int) -> None:
        if frames == 0:
            raise one.error("it is shorter than one frame", "leave it out")
        if not self.subsampling:
            return
        needed = len(numbers) + sum(a == b for a, b in zip(numbers, numbers[1:], strict=False))
        if needed > frames // self.subsampling:
            raise one.error(
                f"its target of {len(numbers)} tokens needs {needed} frames, one more between "
                f"equal tokens, and of its {frames} the model makes {frames // self.subsampling}",
                "compare recording and words, leave it out, or give subsampling=0",
            )

    def _header_problem(self, row: int) -> None:
        frames = frame_count(self.features, self._sounds.count(row))
        self._check(self._sounds.utterances[row], self._target(row), frames)

    def _problem(self, row: int) -> None:
        self._sample(row)

    def _leave_out(self, check: Callable[[int], None]) -> None:
        kept = []
        for row in self._rows:
            try:
                check(row)
            except SpeechDataError as error:
                self.skipped.append(error)
            else:
                kept.append(row)
        self._rows = kept

    def __repr__(self) -> str:
        return f"SpeechDataset({len(self)} utterances, {self.features!r})"
