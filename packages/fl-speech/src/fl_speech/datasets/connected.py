"""Connected words: recordings of single words joined to sentences, with times of the words."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fl_tensor as ft
from fl_data import mix
from fl_speech.audio import load_audio
from fl_speech.datasets.list_file import write_list_file
from fl_speech.datasets.utterance import Utterance
from fl_speech.errors import SpeechDataError
from fl_speech.saving import save_audio
from fl_tensor.annotations import Checked, checked

FRAME_MS = 10.0


class WordTime(NamedTuple):
    """A word of a recording and when it is said, in milliseconds."""

    word: str
    start_ms: float
    end_ms: float


class _Plan(NamedTuple):
    """A sentence: its number, its recordings, and the pauses before each and after the last."""

    number: int
    recordings: tuple[Utterance, ...]
    pauses: tuple[float, ...]


class ConnectedWords(Checked):
    """Sentences of recordings of single words, one speaker each.

    Recording `i` says `strings[i]`: recordings of its words by a speaker who has all of them, with
    pauses between them and at both ends, and white noise over all. Speaker, recordings, lengths of
    pauses (`pause_ms`) and ratio of signal to noise (`noise_db`) are drawn evenly, by `seed` and
    `i` alone. `utterances` and `load` are those of a `SpeechDataset`; `write` makes files.

    `words` are utterances of one word each, as `read_digits` gives them, of one rate. Raises
    `SpeechDataError` where no speaker says all words of a string.
    """

    def __init__(
        self,
        words: Sequence[Utterance],
        strings: Iterable[Sequence[str]],
        *,
        pause_ms: tuple[float, float] = (0.0, 300.0),
        noise_db: tuple[float, float] | None = (10.0, 30.0),
        seed: int = 0,
        name: str = "connected",
    ) -> None:
        self._pause, self._noise = pause_ms, noise_db
        for low, high in (pause_ms, noise_db or (0.0, 0.0)):
            if not (low <= high and np.isfinite((low, high)).all()) or pause_ms[0] < 0:
                raise SpeechDataError(
                    f"pause_ms {pause_ms} or noise_db {noise_db} is no range",
                    "give (smallest, largest), pauses from 0 on",
                )
        self._seed = seed
        recordings: dict[str, dict[str, list[Utterance]]] = defaultdict(dict)
        for one in words:
            if not isinstance(one, Utterance) or len(one.words or ()) != 1:
                raise SpeechDataError(
                    f"{one!r} has not one word", "give recordings of single words"
                )
            recordings[one.speaker].setdefault(one.text, []).append(one)
        self._plans: dict[str, _Plan] = {}
        self.utterances: list[Utterance] = []
        for number, string in enumerate(strings):
            self._add(f"{name}-{number:05d}", number, tuple(string), recordings)

    def load(self, utterance: Utterance) -> tuple[Any, int]:
        """`(samples, rate)` of one of `utterances`: a float32 Tensor `(n,)`, and Hz."""
        samples, rate, _ = self._joined(utterance)
        return ft.asarray(samples), rate

    def times(self, utterance: Utterance) -> list[WordTime]:
        """When each word of one of `utterances` is said: from the first to the last frame of its
        recording that `word_bounds` finds."""
        return self._joined(utterance)[2]

    def write(self, folder: str | os.PathLike[str]) -> list[Utterance]:
        """Write `folder`: a WAV file for each sentence, `list.lst`, and `times.json` with
        `{id: [[word, start_ms, end_ms], ...]}`; the utterances of the files."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        written = []
        times = {}
        for one in self.utterances:
            samples, rate, found = self._joined(one)
            path = place / f"{one.id}.wav"
            save_audio(path, ft.asarray(samples), rate)
            written.append(
                Utterance(one.id, os.fspath(path), one.duration_ms, one.words, one.speaker)
            )
            times[one.id] = found
        write_list_file(place / "list.lst", written)
        (place / "times.json").write_text(json.dumps(times, indent=0), encoding="utf-8")
        return written

    def _add(
        self,
        id: str,
        number: int,
        string: tuple[str, ...],
        recordings: Mapping[str, Mapping[str, list[Utterance]]],
    ) -> None:
        speakers = sorted(s for s, said in recordings.items() if said.keys() >= set(string))
        if not speakers or not string:
            raise SpeechDataError(
                f"no speaker says all of {' '.join(string)!r}",
                "give recordings of these words by one speaker",
                id=id,
            )
        draw = _generator(self._seed, number, 0)
        speaker = speakers[draw.integers(len(speakers))]
        said = recordings[speaker]
        chosen = tuple(said[word][draw.integers(len(said[word]))] for word in string)
        pauses = tuple(float(draw.uniform(*self._pause)) for _ in range(len(string) + 1))
        duration = sum(one.duration_ms for one in chosen) + sum(pauses)
        self._plans[id] = _Plan(number, chosen, pauses)
        self.utterances.append(Utterance(id, "", duration, string, speaker))

    def _joined(self, utterance: Utterance) -> tuple[np.ndarray, int, list[WordTime]]:
        if utterance.id not in self._plans:
            raise utterance.error("it is none of these utterances", "take one of .utterances")
        plan = self._plans[utterance.id]
        pieces: list[np.ndarray] = []
        times = []
        rate, place = 0, 0
        for one, pause in zip(plan.recordings, plan.pauses, strict=False):
            audio, found = load_audio(one.path)
            samples = np.asarray(audio).mean(axis=0)
            if rate not in (0, found):
                raise one.error(
                    f"its rate is {found} Hz, that of another word {rate} Hz", "convert one"
                )
            rate = found
            silence = np.zeros(round(pause * rate / 1000), np.float32)
            start, end = word_bounds(samples, rate)
            place += len(silence)
            offset = 1000 * place / rate
            times.append(WordTime(one.text, offset + start, offset + end))
            pieces += [silence, samples]
            place += len(samples)
        pieces.append(np.zeros(round(plan.pauses[-1] * rate / 1000), np.float32))
        joined = np.concatenate(pieces)
        if self._noise is not None:
            draw = _generator(self._seed, plan.number, 1)
            decibels = draw.uniform(*self._noise)
            power = np.mean(joined.astype(np.float64) ** 2) / 10 ** (decibels / 10)
            noise = draw.standard_normal(len(joined)) * np.sqrt(power)
            joined = np.clip(joined + noise, -1, 1).astype(np.float32)
        return joined, rate, times

    def __len__(self) -> int:
        return len(self.utterances)

    def __repr__(self) -> str:
        return f"ConnectedWords({len(self)} sentences)"


@checked
def word_bounds(
    samples: Any, sample_rate: int, *, below_db: float = 35.0, frame_ms: float = FRAME_MS
) -> tuple[float, float]:
    """When speech begins and ends in `samples (n,)`, in milliseconds: the start of the first and
    the end of the last frame whose root mean square is above `-below_db` dB of the loudest frame's.

    Frames of `frame_ms` stand side by side; the last one may be shorter. `(0, n)` in milliseconds
    for silence. Raises `SpeechDataError` for more than one axis and for frames without a sample.
    """
    try:
        values = np.asarray(samples, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SpeechDataError(f"samples are no array ({error})", "give numbers") from error
    usual = np.isfinite((frame_ms, below_db)).all() and np.isfinite(values).all()
    size = round(sample_rate * frame_ms / 1000) if usual else 0
    if values.ndim != 1 or size < 1 or not below_db >= 0:
        raise SpeechDataError(
            f"samples {values.shape} at {sample_rate} Hz, frames of {frame_ms} ms, below_db "
            f"{below_db}",
            "give one axis of finite numbers, frames of at least one sample, decibels from 0 on",
        )
    starts = np.arange(0, len(values), size)
    whole = 1000 * len(values) / sample_rate
    if not len(values) or not np.any(values):
        return 0.0, whole
    counts = np.diff(np.append(starts, len(values)))
    power = np.add.reduceat(values**2, starts) / counts
    loud = np.flatnonzero(power > power.max() * 10 ** (-below_db / 10))
    end = 1000 * (loud[-1] + 1) * size / sample_rate
    return float(1000 * loud[0] * size / sample_rate), float(min(end, whole))


def _generator(seed: int, number: int, purpose: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(mix(seed, number, purpose)))
