"""The experiments of `examples/spoken_digits` in miniature: tones in place of digits."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "spoken_digits"
sys.path.insert(0, str(FOLDER))

import results  # noqa: E402 - found on the path above
import tasks  # noqa: E402

SETTINGS = (
    *("--epochs", "1", "--channels", "8", "--blocks", "1"),
    *("--max-output", "4", "--backend", "numpy"),
)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    noise = np.random.default_rng(0)
    time = np.arange(2800) / 8000
    for digit in range(10):
        for speaker in ("ann", "bob"):
            for take in (0, 5, 6):
                hertz = 300 + 200 * digit + noise.uniform(-20, 20)
                sound = 0.3 * np.sin(2 * np.pi * hertz * time) + 0.01 * noise.normal(size=2800)
                soundfile.write(folder / f"{digit}_{speaker}_{take}.wav", sound, 8000)
    return folder


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("name", results.EXPERIMENTS)
def test_an_experiment_gives_figures_and_keeps_its_runs(
    name: str, recordings: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "speakers-torch":
        pytest.importorskip("torch")
    command = [name, "--data", str(recordings), "--out", str(out), "--strings", "10"]
    command += ["--seeds", "1", "--", *SETTINGS]
    status = results.main(command)
    printed = capsys.readouterr().out
    found = json.loads((out / f"{name}.json").read_text())["figures"]
    figures = [tasks.Figure(**each) for each in found]
    assert figures and status == any(each.is_missed for each in figures)
    assert all(f"{each}" in printed for each in figures)
    assert sum(each.bar is not None for each in figures) >= 1
    if name in ("ctc", "connected"):
        assert results.main(command) == status  # the same figures, of runs that are finished
        again = capsys.readouterr().out
        assert "fl-speech train" in printed and "fl-speech" not in again
        assert [f"{each}" in again for each in figures] == [True] * len(figures)


def test_bars() -> None:
    assert tasks.Figure("most", 3.0, bar=2.0).is_missed
    assert not tasks.Figure("most", 2.0, bar=2.0).is_missed
    assert tasks.Figure("least", 0.9, bar=0.95, least=True).is_missed
    assert tasks.Figure("nothing", float("nan"), bar=2.0).is_missed
    assert not tasks.Figure("no bar", 3.0).is_missed
    assert "MISSED" in str(tasks.Figure("most", 3.0, bar=2.0))


def test_nothing_of_the_test_is_trained_on(recordings: Path, out: Path) -> None:
    place = tasks.Place(recordings, out / "of-20", strings=20)
    place.out.mkdir()
    from connected import written

    folder = written(place)
    lines = {n: (folder / f"{n}.lst").read_text().splitlines() for n in ("train", "dev", "test")}
    strings = {name: {" ".join(x.split()[3:]) for x in each} for name, each in lines.items()}
    assert len(lines["train"]) == 20 and len(lines["test"]) == len(lines["dev"]) == 4
    assert not strings["train"] & (strings["test"] | strings["dev"])
    assert set((folder / "train.txt").read_text().splitlines()) == strings["train"]
