"""Voice activity by level, and recordings of many minutes in the memory of a piece."""

from __future__ import annotations

import os
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from runs import NUMPY
from spoken_tones import RATE, say

import fl_tensor as ft
from fl_speech import save_audio
from fl_speech.cli import main
from fl_speech.datasets import ConnectedWords, Grammar, read_digits
from fl_speech.errors import AudioError, SpeechDataError
from fl_speech.inference import (
    Decoder,
    frame_size,
    speech_by_level,
    speech_in_file,
    speech_segments,
    transcribe_long,
)
from fl_speech.recogniser import load_recogniser
from fl_text.decoder import DecoderOptions

#: 150 strings and ten minutes, for a session of its own.
WHOLE = "FL_PROGRAM_WHOLE" in os.environ


def f1(found: np.ndarray, truth: np.ndarray) -> float:
    return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))


def bursts(seconds: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A voiced sound in the middle 0.4 s of each second, and the truth of frames."""
    draw = np.random.default_rng(seed)
    t = np.arange(seconds * RATE) / RATE
    said = np.abs(t % 1 - 0.5) < 0.2
    voice = sum(np.sin(2 * np.pi * 200 * k * t + k * k) for k in range(1, 16))
    samples = 0.03 * said * voice + noise * draw.standard_normal(len(t))
    return samples, said.reshape(-1, RATE // 100).mean(1) > 0.5


def test_connected_digits_in_noise_of_10_to_30_decibels(recordings: Path) -> None:
    with ft.use("numpy"):
        strings = Grammar().strings(150 if WHOLE else 40, seed=2)
        joined = ConnectedWords(read_digits(recordings, "test"), strings, seed=2)
        every, true = [], []
        for one in joined.utterances:
            samples, rate = joined.load(one)
            every.append(speech_by_level(samples.numpy(), rate))
            centre = (np.arange(len(every[-1])) + 0.5) * 1000 * frame_size(rate) / rate
            inside = [(centre >= w.start_ms) & (centre < w.end_ms) for w in joined.times(one)]
            true.append(np.any(inside, axis=0))
    assert f1(np.concatenate(every), np.concatenate(true)) > 0.94


def test_the_noise_may_change() -> None:
    quiet, first = bursts(30, 0.001)
    loud, second = bursts(30, 0.03, seed=1)
    found = speech_by_level(np.concatenate([quiet, loud]), RATE)
    assert f1(found[:3000], first) > 0.95
    # Five seconds later it is known. Of the noise of the quiet half, all would be speech.
    assert f1(found[3500:], second[500:]) > 0.88


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100])
def test_segments_are_seconds_of_any_rate(rate: int) -> None:
    draw = np.random.default_rng(0)
    t = np.arange(5 * rate) / rate
    samples = 0.1 * np.sin(2 * np.pi * 500 * t) * ((t > 3.0) & (t < 3.5))
    samples += 0.001 * draw.standard_normal(len(t))
    flags = speech_by_level(samples, rate)
    ((start, end),) = speech_segments(flags, rate)
    assert flags.shape == (len(t) // frame_size(rate),)
    assert abs(start - 3.0) < 0.03 and abs(end - 3.5) < 0.03


def test_pauses_short_speech_and_hangover() -> None:
    samples, truth = bursts(3, 0.001)
    found = speech_by_level(samples, RATE)
    assert len(speech_segments(found, RATE)) == 3
    assert len(speech_segments(speech_by_level(samples, RATE, pause_ms=700), RATE)) == 1
    assert not speech_by_level(samples, RATE, least_ms=500).any()
    longer = speech_by_level(samples, RATE, hangover_ms=100)
    assert longer.sum() == found.sum() + 30 and not (found & ~longer).any()


def test_silence_and_nothing() -> None:
    assert not speech_by_level(np.zeros(RATE), RATE).any()
    assert speech_by_level([], RATE).shape == speech_by_level([0.5] * 79, RATE).shape == (0,)
    assert speech_segments([], RATE) == []
    assert speech_segments([True, True, False, True], RATE) == [(0.0, 0.02), (0.03, 0.04)]


def test_files_are_read_in_blocks(tmp_path: Path) -> None:
    samples, _ = bursts(37, 0.01)
    save_audio(tmp_path / "a.wav", np.stack([samples, samples]), RATE, subtype="FLOAT")
    found = speech_in_file(tmp_path / "a.wav")
    assert (found == speech_by_level(samples.astype(np.float32), RATE)).all()
    with pytest.raises(AudioError, match=r"missing\.wav: no such file"):
        speech_in_file(tmp_path / "missing.wav")


def test_arguments_are_checked() -> None:
    with pytest.raises(SpeechDataError, match="a rate of 999 Hz"):
        speech_by_level([0.0], 999)
    with pytest.raises(SpeechDataError, match=r"\(-1, 30.*give a rate from 1000 Hz on"):
        speech_by_level([0.0], RATE, pause_ms=-1)
    with pytest.raises(SpeechDataError, match=r"shape \(2, 2\).*give one channel"):
        speech_by_level([[0.0, 0.0]] * 2, RATE)
    with pytest.raises(SpeechDataError, match="not finite"):
        speech_by_level([float("nan")], RATE)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples, _ = bursts(3, 0.001)
    path = tmp_path / "a.wav"
    save_audio(path, ft.asarray(samples, ft.float32), RATE)
    missing = str(tmp_path / "missing.wav")
    assert main(["segments", missing, str(path), "--skip-bad", *NUMPY]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == [str(path)] * 3
    for second, (_, start, end) in enumerate(lines):
        assert abs(float(start) - second - 0.3) < 0.03
        assert abs(float(end) - second - 0.7) < 0.03
    assert main(["segments", missing, *NUMPY]) == 1


def spoken(seconds: float, folder: Path) -> tuple[Path, list[str]]:
    """A sentence again and again, with pauses; the words of one."""
    words = ["ab", "cab", "bc"]
    samples = say(words, random.Random(3))[0]
    again = round(seconds * RATE / len(samples))
    path = folder / f"{again}.wav"
    save_audio(path, ft.asarray(samples * again, ft.float32), RATE)
    return path, words * again


def test_long_recordings_need_the_memory_of_a_piece(run: Path, tmp_path: Path) -> None:
    with ft.use("numpy"):
        recogniser = load_recogniser(run)
        decoder = Decoder(recogniser, recogniser.lexicon, None, DecoderOptions(beam_size=10))
        peaks = []
        for seconds in (60, 600) if WHOLE else (20, 80):
            path, words = spoken(seconds, tmp_path)
            tracemalloc.start()
            said = [each.word for each in transcribe_long(recogniser, path, decoder, 10.0)]
            speech = speech_in_file(path)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert said == words
            assert 0.5 < speech.mean() < 0.9
            del speech
        assert peaks[1] < 1.1 * peaks[0] + 1e6
