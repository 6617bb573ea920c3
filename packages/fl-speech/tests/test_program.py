"""The command fl-speech, from recordings to transcripts and times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fl_speech.cli import main
from fl_speech.recogniser import load_recogniser
from spoken_tones import write_task

SMALL = (
    *("--backend", "numpy", "--sample-rate", "8000", "--filters", "20", "--channels", "24"),
    *("--blocks", "1", "--kernel", "3", "--dropout", "0", "--batch-size", "8", "--lr", "0.01"),
    *("--quiet", "--norm", "layer"),
)


def train(folder: Path, out: str, *options: str) -> int:
    return main(
        [
            "train",
            *("--train", str(folder / "train.lst"), "--valid", f"test:{folder / 'test.lst'}"),
            *("--tokens", str(folder / "tokens.txt"), "--lexicon", str(folder / "lexicon.txt")),
            *("--out", str(folder / out), *SMALL, *options),
        ]
    )


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tones")
    write_task(folder)
    return folder


@pytest.fixture(scope="module")
def run(task: Path) -> Path:
    assert train(task, "run", "--epochs", "12") == 0
    return task / "run"


def test_training_learns_and_leaves_a_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {path.name for path in run.iterdir()}
    assert {"checkpoint.safetensors", "log.jsonl", "recogniser.json", "weights.safetensors"} <= files
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    epochs = [record for record in records if record["event"] == "epoch"]
    assert epochs[-1]["test_wer"] <= 10.0 < epochs[0]["test_wer"]


def test_error_rates_of_a_list(run: Path, task: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(run), str(task / "test.lst"), "--beam", "--backend", "numpy"]) == 0
    assert "8 recordings, WER 0.00 %" in capsys.readouterr().out
