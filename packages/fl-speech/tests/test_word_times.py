"""Times of words that agree with voice activity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runs import NUMPY

from fl_speech.cli import main
from fl_speech.errors import SpeechDataError
from fl_speech.inference import fit_to_speech


def flags(*runs: tuple[int, int], frames: int = 100) -> np.ndarray:
    found = np.zeros(frames, bool)
    for start, end in runs:
        found[start:end] = True
    return found


def near(spans: list[tuple[float, float]]) -> list[object]:
    return [pytest.approx(span) for span in spans]


def test_words_grow_to_the_speech_around_them() -> None:
    speech = flags((10, 40), (60, 90))
    assert fit_to_speech([(0.2, 0.3), (0.7, 0.75)], speech) == near([(0.1, 0.4), (0.6, 0.9)])


def test_words_shrink_to_the_speech_inside_them() -> None:
    assert fit_to_speech([(0.05, 0.6)], flags((10, 50))) == near([(0.1, 0.5)])


def test_the_longest_pause_separates_words() -> None:
    # The closure of a "t" inside a word is a short pause.
    speech = flags((10, 40), (44, 50), (70, 90))
    assert fit_to_speech([(0.2, 0.3), (0.75, 0.8)], speech) == near([(0.1, 0.5), (0.7, 0.9)])


def test_words_without_a_pause_meet_in_the_middle() -> None:
    assert fit_to_speech([(0.2, 0.3), (0.5, 0.6)], flags((10, 90))) == near(
        [(0.1, 0.4), (0.4, 0.9)]
    )


def test_speech_everywhere_and_nowhere() -> None:
    assert fit_to_speech([], flags((10, 20))) == []
    ((start, end),) = fit_to_speech([(0.2, 0.4)], np.ones(50, bool))
    assert (start, end) == (0.0, 0.5)
    assert fit_to_speech([(0.2, 0.4)], np.zeros(0, bool)) == near([(0.2, 0.4)])


def test_frames_of_another_length() -> None:
    assert fit_to_speech([(0.4, 0.6)], flags((10, 40)), 0.02) == near([(0.2, 0.8)])


def test_starts_and_ends_stay_in_order() -> None:
    draw = np.random.default_rng(0)
    for _ in range(300):
        times = np.sort(draw.uniform(0, 1, 8)).reshape(4, 2)
        found = fit_to_speech([(a, b) for a, b in times.tolist()], draw.random(100) > 0.5)
        inside = [moment for span in found for moment in span]
        assert inside == sorted(inside)


def test_what_is_refused() -> None:
    with pytest.raises(SpeechDataError, match=r"a word from 0\.5 to 0\.2 s"):
        fit_to_speech([(0.5, 0.2)], flags())
    with pytest.raises(SpeechDataError, match="after one that ends at 0.5"):
        fit_to_speech([(0.1, 0.5), (0.4, 0.6)], flags())
    with pytest.raises(SpeechDataError, match="one axis of frames"):
        fit_to_speech([(0.1, 0.5)], np.zeros((2, 2)))


def test_the_command(
    run: Path, task: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["align", str(run), str(task / "test.lst"), *NUMPY]
    assert main(command) == 0
    assert "$" in capsys.readouterr().out
    # Of speech everywhere, words leave no silence.
    monkeypatch.setattr("fl_speech.cli.inputs.speech_in_file", lambda path: np.ones(42, bool))
    assert main([*command, "--speech", "level"]) == 0
    assert all(line.split()[2] == "0.000" for line in capsys.readouterr().out.splitlines()[:1])
    assert main([*command, "--speech", str(run)]) == 1
    assert "detector.json: no such file" in capsys.readouterr().err
