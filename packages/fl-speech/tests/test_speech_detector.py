"""A network that finds speech: training, files, the commands, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from runs import NUMPY

import fl_tensor as ft
from fl_speech import save_audio
from fl_speech.cli import main
from fl_speech.datasets import Utterance, write_list_file
from fl_speech.errors import AudioError, RecipeError, SpeechDataError
from fl_speech.inference import SpeechDetector, frame_size
from fl_speech.training import train_speech_detector

RATE = 8000


def recording(seed: int, seconds: float = 2.0) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """Noise, with one stretch of a voiced sound, and when that is."""
    draw = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE)) / RATE
    start = float(draw.uniform(0.2, 0.8))
    end = start + float(draw.uniform(0.5, 1.2))
    voice = sum(np.sin(2 * np.pi * 180 * k * t + k) for k in range(1, 12))
    samples = 0.03 * voice * ((start <= t) & (t < end)) + 0.02 * draw.standard_normal(len(t))
    return samples.astype(np.float32), [(start, end)]


@pytest.fixture(scope="module")
def detector() -> SpeechDetector:
    with ft.use("numpy"):
        return train_speech_detector(map(recording, range(8)), RATE, epochs=5)


def f1(found: np.ndarray, spans: list[tuple[float, float]]) -> float:
    middles = 0.01 * (np.arange(len(found)) + 0.5)
    truth = np.any([(s <= middles) & (middles < e) for s, e in spans], axis=0)
    return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))


def test_it_finds_speech_that_it_has_not_seen(detector: SpeechDetector) -> None:
    with ft.use("numpy"):
        for seed in (100, 101):
            samples, spans = recording(seed)
            found = detector.speech(samples)
            assert found.shape == (len(samples) // frame_size(RATE),)
            assert f1(found, spans) > 0.95
        odds = detector.probabilities(samples)
        assert ((odds > 0.9) <= (odds > 0.5)).all() and (0 <= odds).all() and (odds <= 1).all()


def test_the_same_seed_gives_the_same_weights(detector: SpeechDetector) -> None:
    before = ft.default_generator()
    with ft.use("numpy"):
        first, again = (
            train_speech_detector(map(recording, range(2)), RATE, epochs=1) for _ in range(2)
        )
        other = train_speech_detector(map(recording, range(2)), RATE, epochs=1, seed=1)
    weights = [np.asarray(d.network.last.weight) for d in (first, again, other)]
    assert (weights[0] == weights[1]).all() and (weights[0] != weights[2]).any()
    assert ft.default_generator() is before


def test_files(detector: SpeechDetector, tmp_path: Path) -> None:
    with ft.use("numpy"):
        detector.save(tmp_path / "detector")
        read = SpeechDetector.load(tmp_path / "detector")
        parts = [recording(seed, 3.0) for seed in range(50, 58)]
        samples = np.concatenate([each for each, _ in parts])
        spans = [(3 * i + s, 3 * i + e) for i, (_, each) in enumerate(parts) for s, e in each]
        save_audio(tmp_path / "a.wav", np.stack([samples, samples]), RATE, subtype="FLOAT")
        found = read.speech_in_file(tmp_path / "a.wav")
        assert found.shape == (len(samples) // frame_size(RATE),)
        assert f1(found, spans) > 0.95
        assert (read.speech(parts[0][0]) == detector.speech(parts[0][0])).all()
        assert read.speech(np.zeros(79)).shape == (0,)
        assert not read.speech(np.zeros(100)).any()  # less than a frame of features
        with pytest.raises(AudioError, match="8000 Hz"):
            SpeechDetector(16000).speech_in_file(tmp_path / "a.wav")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times, utterances = {}, []
    for seed in range(8):
        samples, spans = recording(seed)
        path = tmp_path / f"{seed}.wav"
        save_audio(path, samples, RATE, subtype="FLOAT")
        utterances.append(Utterance(str(seed), str(path), 2000.0))
        times[str(seed)] = [["word", 1000 * s, 1000 * e] for s, e in spans]
    write_list_file(tmp_path / "train.lst", utterances)
    (tmp_path / "times.json").write_text(json.dumps(times))
    command = ["detector", "--train", str(tmp_path / "train.lst"), "--data-dir", "/"]
    command += ["--times", str(tmp_path / "times.json"), "-o", str(tmp_path / "found")]
    assert main([*command, "--epochs", "5", *NUMPY]) == 0
    assert "8 recordings, 5 epochs" in capsys.readouterr().out
    file = str(tmp_path / "3.wav")
    assert main(["segments", file, "--model", str(tmp_path / "found"), *NUMPY]) == 0
    ((_, start, end),) = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    ((true_start, true_end),) = recording(3)[1]
    assert abs(float(start) - true_start) < 0.05 and abs(float(end) - true_end) < 0.05

    del times["5"]
    (tmp_path / "times.json").write_text(json.dumps(times))
    assert main([*command, *NUMPY]) == 1
    assert "the file of times has no such sample" in capsys.readouterr().err
    assert main([*command, "--epochs", "1", "--skip-bad", *NUMPY]) == 0
    assert "left out 1 recordings" in capsys.readouterr().err
    (tmp_path / "times.json").write_text('{"0": [["word", "x", 2]]}')
    assert main([*command, *NUMPY]) == 1
    assert "sample 0 has ['word', 'x', 2]: write" in capsys.readouterr().err


def test_what_is_refused(detector: SpeechDetector, tmp_path: Path) -> None:
    with pytest.raises(SpeechDataError, match="no recording to learn from"):
        train_speech_detector([], RATE)
    with pytest.raises(SpeechDataError, match=r"speech from 2\.0 to 1\.0 s"):
        train_speech_detector([(np.zeros(RATE), [(2.0, 1.0)])], RATE)
    with pytest.raises(SpeechDataError, match="recording 0 .* not finite"):
        train_speech_detector([(np.full(RATE, np.nan), [])], RATE)
    with pytest.raises(RecipeError, match="channels 0: give 1 to"):
        SpeechDetector(channels=0)
    with pytest.raises(ft.ShapeError, match="expected one axis"):
        detector.speech(np.zeros((2, RATE)))
    with pytest.raises(RecipeError, match=r"no such file; give the folder of fl-speech detector"):
        SpeechDetector.load(tmp_path)
    for text, problem in (("{", "no JSON"), ("{}", "another version"), ('{"format": 1}', "None")):
        (tmp_path / "detector.json").write_text(text)
        with pytest.raises(RecipeError, match=problem):
            SpeechDetector.load(tmp_path)
