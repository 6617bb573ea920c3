"""The pictures that the command draws."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import fl_tensor as ft
from fl_vision.classifier import Classified
from fl_vision.cli import main
from fl_vision.datasets import DataOptions, load_dataset
from fl_vision.report import draw_predictions, draw_run

HISTORY = [
    {"epoch": n + 1, "lr": 0.1, "train_loss": 1 / (n + 1), "valid_loss": 1.1, "seconds": 1.0}
    | {"train_accuracy": 90.0, "valid_accuracy": 80.0}
    for n in range(3)
]


@pytest.fixture
def data(tmp_path: Path, write_digits: Callable[..., None]):
    write_digits("data", "t10k", 80)
    return load_dataset("mnist", DataOptions(data_dir=tmp_path / "data", holdout=20))


def said(data, wrong: int) -> Classified:
    truth = [int(data.test[i][1].item()) for i in range(len(data.test))]
    guess = [(t + 1) % 4 if i < wrong else t for i, t in enumerate(truth)]
    return Classified(guess, [0.9] * len(truth), truth)


@pytest.mark.parametrize(("wrong", "more"), [(0, []), (3, ["mistakes.png"])])
def test_a_run_is_drawn_into_its_folder(data, tmp_path, wrong, more):
    pytest.importorskip("matplotlib")
    names = draw_run(tmp_path, data, said(data, wrong), HISTORY, "test", "seed 1")
    assert names == ["learning_curve.png", "predictions.png", *more]
    for name in names:
        with Image.open(tmp_path / name) as picture:
            assert picture.format == "PNG" and min(picture.size) >= 200


def test_mistakes_are_marked_and_say_what_the_image_is(data, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from fl_nn import plot

    drawn = {}
    monkeypatch.setattr(plot, "images", lambda shown, **how: drawn.update({how["path"].name: how}))
    found = said(data, 2)
    draw_run(tmp_path, data, found, HISTORY, "test", "seed 1")
    grid = drawn["predictions.png"]
    assert grid["marked"] == [0, 1] and len(grid["titles"]) == 20
    assert grid["titles"][0] == f"{found.predicted[0]}  90 %\nis {found.truth[0]}"
    assert grid["titles"][2] == f"{found.predicted[2]}  90 %"
    assert grid["title"] == "mnist: 2 of 20 test images are misclassified"
    assert len(drawn["mistakes.png"]["titles"]) == 2


def test_predictions_of_files_are_drawn_where_they_are_asked_for(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "said.png"
    draw_predictions(path, [(ft.zeros((1, 8, 8), ft.uint8), "a", 0.5)] * 2)
    with Image.open(path) as picture:
        assert picture.format == "PNG"


def test_training_without_matplotlib_says_how_to_get_pictures(
    tmp_path, write_digits, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "fl_memory.plot.notebook_figure", raising=False)
    write_digits("data", "t10k", 80)
    options = ["--dataset", "mnist", "--data-dir", str(tmp_path / "data"), "--holdout", "20"]
    options += ["--epochs", "1", "--batch-size", "16", "--quiet", "--out", str(tmp_path / "run")]
    assert main(["train", *options]) == 0
    printed = capsys.readouterr().out
    assert "no pictures: [plot.curves] needs matplotlib" in printed
    assert "python -m pip install 'fl-nn[plot]'" in printed
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "checkpoint.safetensors",
        "log.jsonl",
        "report.html",
        "run.lock",
    }
    images = [str(tmp_path / "a.png")]
    Image.new("L", (8, 8)).save(images[0])
    command = ["predict", str(tmp_path / "run"), *images, "--out", str(tmp_path / "said.png")]
    assert main(command) == 2
    assert "needs matplotlib" in capsys.readouterr().err
