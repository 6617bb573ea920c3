"""The commands `fl-vision detect` and `fl-vision prepare`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fl_vision.cli import main

TINY = [
    *("--width", 4, "--stages", 3, "--size", 8, "--heads", 2, "--hidden", 16, "--queries", 7),
    *("--encoder-layers", 1, "--decoder-layers", 2, "--batch-size", 2, "--epochs", 1),
    *("--quiet", "--backend", "numpy"),
]


@pytest.fixture
def run(streams: Callable[..., tuple[list[str], list[str]]]) -> Callable[..., list[str]]:
    """run(*arguments) -> the lines on standard output; the command must succeed."""
    return lambda *arguments: streams(*arguments)[0]


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """refuse(*arguments) -> the one line on standard error; the status must be 2."""

    def refuse(*arguments: Any) -> str:
        assert main([str(argument) for argument in arguments]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return refuse


@pytest.fixture
def data(tmp_path: Path, run: Callable[..., list[str]]) -> Path:
    """4 training and 2 validation scenes of 32 pixels."""
    out = tmp_path / "data"
    lines = run("prepare", "scenes", "-o", out, "--train", 4, "--valid", 2, "--size", 32)
    assert lines[0] == f"wrote 4 scenes to {out / 'train' / 'instances.json'}"
    return out


def test_from_boxes_to_boxes(data: Path, tmp_path: Path, run: Callable[..., list[str]]) -> None:
    out, pictures = tmp_path / "run", tmp_path / "pictures"
    lines = run("detect", "--train", data / "train", "--valid", data / "valid", "-o", out, *TINY)
    assert lines[-1].startswith("AP ") and lines[-1].endswith("in epoch 1, the best")
    names = {path.name for path in out.iterdir()}
    assert {"checkpoint.safetensors", "detector.json", "weights.safetensors"} <= names
    assert {"learning_curve.png", "predictions.png", "log.jsonl"} <= names

    resumed = run(
        *("detect", "--train", data / "train", "-o", out, "--resume", "--epochs", 2),
        *("--quiet", "--backend", "numpy"),
    )
    assert any("trained 2 epochs" in line for line in resumed)

    figures = tmp_path / "figures.json"
    table = run("detect", out, "--eval", data / "valid", "--json", figures, "--backend", "numpy")
    assert table[0] == "2 images" and table[1].split() == [
        *("class", "objects", "AP", "AP50", "AP75", "AR100"),
    ]
    assert any(line.startswith("ap_small") for line in table)
    assert set(json.loads(figures.read_text())) >= {"ap", "ap50", "ar100", "per_class"}

    image = data / "valid" / "images" / "000000.png"
    boxes, rows = tmp_path / "boxes.json", tmp_path / "boxes.csv"
    printed = run("detect", out, image, "--least", 0, "--backend", "numpy")
    run(
        *("detect", out, image, "--least", 0, "--json", boxes, "--csv", rows),
        *("--pictures", pictures, "--attention", "--backend", "numpy"),
    )
    (record,) = json.loads(boxes.read_text())
    assert (record["width"], record["height"]) == (32, 32) and record["boxes"]
    assert rows.read_text().splitlines() == printed
    read = list(csv.DictReader(printed))
    assert read[0]["image"] == str(image) and len(read) == len(record["boxes"])
    assert float(read[0]["score"]) == max(float(one["score"]) for one in read)
    assert {path.name for path in pictures.iterdir()} == {
        "000000.png",
        "000000-attention.png",
    }


def test_bad_input_is_one_line(
    data: Path, tmp_path: Path, run: Callable[..., list[str]], refuse: Callable[..., str]
) -> None:
    out, train = tmp_path / "run", data / "train"
    assert "give one of" in refuse("detect")
    assert "give one of" in refuse("detect", out, "--train", train, "--eval", train)
    assert "give -o RUN" in refuse("detect", "--train", train, *TINY)
    assert "detector.json: no such file" in refuse("detect", out, "--eval", train)
    assert "no run to resume" in refuse("detect", "--train", train, "-o", out, "--resume")
    assert "unknown settings" in refuse(
        *("detect", "--train", train, "-o", out, "--recipe", _file(tmp_path, '{"batchsize": 2}'))
    )
    assert "no JSON" in refuse(
        *("detect", "--train", train, "-o", out, "--recipe", _file(tmp_path, "{"))
    )
    run("detect", "--train", train, "-o", out, *TINY)
    assert "holds a run already" in refuse("detect", "--train", train, "-o", out, *TINY)
    again = refuse("detect", "--train", train, "-o", out, "--resume", "--lr", 1)
    assert "--lr was" in again
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    assert "bad.png" in refuse("detect", out, bad, "--backend", "numpy")
    good = train / "images" / "000001.png"
    lines = run("detect", out, bad, good, "--skip-bad", "--least", 1, "--backend", "numpy")
    assert any("left out 1 files" in line for line in lines)
    (out / "detector.json").write_text('{"format": 1, "classes": ["a"], "recipe": {"size": -1}}')
    assert "size is -1" in refuse("detect", out, good)


def _file(folder: Path, text: str) -> Path:
    path = folder / "recipe.json"
    path.write_text(text)
    return path
