"""`fl-vision` on a folder of images: networks, figures, formats, pictures, faults."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import fl_nn as nn
from fl_vision.cli import main
from fl_vision.models.by_name import create_network

NETWORK = ["--network", "resnet18", "--width", 4, "--small-stem", "--lr", 0.01]
QUICK = [*NETWORK, "--epochs", 2, "--batch-size", 8, "--quiet"]


@pytest.fixture
def pictures(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Two classes of ten pictures; the name of one class is HTML."""
    for index in range(10):
        write_image(f"pictures/<b>day/{index}.png", (200 + index, 210, 230), size=(8, 8))
        write_image(f"pictures/night/{index}.png", (10, 5 + index, 40), size=(8, 8))
    return tmp_path / "pictures"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    def run(*arguments: object) -> list[str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return captured.out.splitlines()

    return run


def test_four_commands_make_a_documented_classifier(
    tmp_path: Path, pictures: Path, run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    assert run("info", pictures, "--counts")[:2] == [
        "data set folder", "16 training images, 4 test images, 2 classes",
    ]  # fmt: skip
    printed = run("train", pictures, "-o", out, *QUICK)
    said = run("eval", out, "--per-class", "--json", tmp_path / "figures.json")
    assert said[-1] == printed[-1]
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["images"] == 4 and set(figures["classes"]) == {"<b>day", "night"}
    assert f"test accuracy {figures['top1']:.4f}" == said[-1]
    assert any(re.fullmatch(r"night +[\d.]+ +[\d.]+ +[\d.]+ +2", line) for line in said)

    files = sorted(pictures.rglob("*.png"))
    text = run("predict", out, pictures, "--batch-size", 3, "--threads", 3)
    assert [line.split(": ")[0] for line in text] == [str(path) for path in files]
    assert run("predict", out, pictures, "--compiled", "--batch-size", 20) == text
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{path}\n" for path in files)))
    assert run("predict", out, "-", "--batch-size", 1) == text
    rows = list(csv.DictReader(run("predict", out, pictures, "--format", "csv", "--top", 2)))
    assert len(rows) == 40 and rows[0]["file"] == str(files[0]) and rows[1]["place"] == "2"
    values = [json.loads(line) for line in run("predict", out, files[0], "--format", "json")]
    assert values[0]["best"][0]["class"] == rows[0]["class"]

    lines = run("info", out)
    assert lines[0] == "network resnet18" and "classes 2: <b>day, night" in lines
    count = nn.num_total_params(create_network("resnet18", 2, (3, 8, 8), {"width": 4}))
    assert any(line.startswith("parameters ") for line in lines) and count > 0


def test_the_report_is_one_file_with_everything_escaped(
    tmp_path: Path, pictures: Path, run: Callable[..., list[str]]
) -> None:
    run("train", pictures, "-o", tmp_path / "run", *QUICK, "--epochs", 1)
    html = (tmp_path / "run" / "report.html").read_text()
    assert "&lt;b&gt;day" in html and "<b>" not in html
    assert html.count("<svg") == 2 and html.count('src="data:image/png;base64,') >= 4
    assert "http" not in html and "<script" not in html
    for word in ("Learning curves", "Confusion matrix", "Predictions", "Settings", "small_stem"):
        assert word in html


def test_everything_at_once_resumes_to_the_bit(
    tmp_path: Path, pictures: Path, run: Callable[..., list[str]]
) -> None:
    chain = tmp_path / "chain.json"
    chain.write_text('{"transforms": [{"type": "RandomHorizontalFlip"}]}')
    more = ["--augment", chain, "--erase", 0.5, "--mixup", 0.8, "--cutmix", 1, "--repeats", 2,
            "--label-smoothing", 0.1, "--class-weights", 1, "--optimizer", "sgd",
            "--nesterov", "--weight-decay", 0.001, "--ema", 0.9,
            "--rates", "conv1=0.1"]  # fmt: skip
    whole = run("train", pictures, *QUICK, *more, "--epochs", 3, "-o", tmp_path / "whole")
    run("train", pictures, *QUICK, *more, "--epochs", 1, "-o", tmp_path / "parts")
    chain.unlink()
    options = ["--resume", "--epochs", 3, "--quiet", "--prefetch", 2, "-o", tmp_path / "parts"]
    assert run("train", *options)[-1] == whole[-1]
    one, two = (_losses(tmp_path / name) for name in ("whole", "parts"))
    assert one == two and len(one) == 3


def test_two_ranks_are_one(tmp_path: Path, pictures: Path, run: Callable[..., list[str]]) -> None:
    # Statistics of batch normalisation are a rank's own, so this is a network without.
    data = ["train", pictures, "--epochs", 5, "--batch-size", 4, "--dropout", 0, "--quiet"]
    data += ["--dtype", "float64", "--optimizer", "sgd", "--schedule", "cosine", "--augment",
             "affine", "--erase", 0.5, "--label-smoothing", 0.1]  # fmt: skip
    run(*data, "-o", tmp_path / "one")
    run(*data, "-o", tmp_path / "two", "--ranks", 2, "--communicator", "threads")
    one, two = (_losses(tmp_path / name) for name in ("one", "two"))
    assert one == pytest.approx(two, rel=1e-9) and len(one) == 5  # of 4 steps


def _losses(folder: Path) -> list[float]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [record["train_loss"] for record in records if record["event"] == "epoch"]


def test_published_weights_of_other_classes_begin_a_run(
    tmp_path: Path, pictures: Path, run: Callable[..., list[str]], refuse: Callable[..., str]
) -> None:
    weights = tmp_path / "weights.safetensors"
    options = {"width": 4, "small_stem": True}
    published = create_network("resnet18", 7, (3, 8, 8), options)
    nn.save_weights(weights, published)
    out = tmp_path / "run"
    tuned = ["train", pictures, *QUICK, "--weights", weights, "--freeze", "C3"]
    run(*tuned, "--epochs", 1, "-o", out)
    before = published.state_dict()
    after = nn.load_checkpoint(out / "checkpoint.safetensors").model
    for name, learns in (("layer2.0.conv1.weight", False), ("layer3.0.conv1.weight", True)):
        assert (after[name].tolist() != before[name].tolist()) == learns
    weights.unlink()
    run("train", "--resume", "--epochs", 2, "--quiet", "-o", out)
    assert "weights.safetensors" in refuse(*tuned, "-o", tmp_path / "other")


def test_a_validation_folder_chooses_and_the_test_folder_is_left_alone(
    tmp_path: Path, write_image: Callable[..., Path], run: Callable[..., list[str]]
) -> None:
    for split, count in (("train", 6), ("val", 3), ("test", 2)):
        for index in range(count):
            write_image(f"data/{split}/a/{index}.png", (200, 9 * index, 0), size=(8, 8))
            write_image(f"data/{split}/b/{index}.png", (0, 9 * index, 200), size=(8, 8))
    info = run("info", tmp_path / "data")
    assert info[1:3] == ["12 training images, 4 test images, 2 classes", "6 validation images"]
    out = tmp_path / "run"
    cache = ["--cache", tmp_path / "cache", "--processes", 1]
    run("train", tmp_path / "data", "-o", out, "--epochs", 1, "--quiet", "--keep-best", 1, *cache)
    assert any((tmp_path / "cache").iterdir())
    assert "validation" in (out / "report.html").read_text()


def test_a_picture_of_changes(
    tmp_path: Path, pictures: Path, run: Callable[..., list[str]]
) -> None:
    image, out = pictures / "night" / "1.png", tmp_path / "grid.png"
    printed = run("augment", image, "--augment", "pad_crop", "--count", 8, "-o", out)
    assert printed == [f"wrote {out}: the image and 8 draws of 2 changes"]
    first = out.read_bytes()
    run("augment", image, "--augment", "pad_crop", "--count", 8, "-o", out)
    assert out.read_bytes() == first
    with Image.open(out) as picture:
        assert picture.size == (36, 36)
    run("augment", image, "--recipe", "vit-b", "--size", "16x16", "--count", 3, "-o", out)


def test_networks_are_described_and_timed(run: Callable[..., list[str]]) -> None:
    lines = run("info", "resnet50")
    assert "parameters 25,557,032" in lines
    assert any(line.startswith("multiply-adds 4,0") for line in lines)
    options = ["--batch-size", 1, "--warm-up", 1, "--steps", 1, "--classes", 3]
    table = run("bench", "resnet18", "--image-size", "64x64", *options)
    assert table[0].startswith("| network | batch | images/s | batch, ms | forward, ms")
    assert table[2].startswith("| resnet18 | 1 |")
    printed = run("bench", "detr_small", "--image-size", 32, *options, "--json")
    (row,) = json.loads("\n".join(printed))
    assert row["network"] == "detr_small" and row["criterion"] > 0 < row["images_per_second"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "absent"], "absent: is no folder and no data set; give a folder"),
        (["train", "--recipe", "absent"], "absent: no such file; the recipes"),
        (["train", "--augment", "absent"], "augment is 'absent': give one of none"),
        (["train", "--network", "vit_ti"], "takes square colour images, (3, N, N)"),
        (["train", "--normalise", "imagenet"], "for colour images, and these are (1, 8, 8)"),
        (["train", "--cache", "here"], "[digits] --cache has no meaning here"),
        (["train", "--network", "resnet18", "--width", "2", "--freeze", "C9"], "'C9'"),
        (["train", "--network", "resnet18", "--rates", "head=2"], "no parameter begins with"),
        (["train", "--weights", "absent"], "Sequential does not say in head_names"),
        (["predict", "absent", "-", "--format", "xml"], "invalid choice: 'xml'"),
        (["augment", "absent.png", "-o", "grid.png"], "no such file"),
        (["augment", "absent.png", "-o", "grid.txt"], "name a picture, such as grid.png"),
        (["augment", "absent.png", "-o", "a.png", "--erase", "2"], "--erase"),
        (["info", "absent"], "absent: is no folder and no data set"),
        (["bench", "absent"], "invalid choice: 'absent'"),
    ],
)
def test_bad_requests(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refuse: Callable[..., str],
    arguments: list[str],
    message: str,
) -> None:
    pytest.importorskip("sklearn", reason="the extra fl-vision[digits] is not installed")
    monkeypatch.chdir(tmp_path)
    assert message in refuse(*arguments)


@pytest.mark.parametrize(
    "network",
    [
        "resnet18",
        {"name": "resnet19"},
        {"name": "resnet18", "width": 10**9},
        {"name": "resnet18", "width": 0.5},
        {"name": "resnet18", "depth": 1},
        {"name": "vit_ti", "patch": 16},
        {"name": "resnet152", "width": 4096},
    ],
)
def test_a_forged_network_is_refused_without_being_built(
    tmp_path: Path, refuse: Callable[..., str], network: object
) -> None:
    described = {
        **{"format": 1, "classes": ["a", "b"], "image_shape": [1, 8, 8], "peak": 16},
        **{"mean": [4.0], "std": [6.0], "dtype": "float32", "network": network},
    }
    path = tmp_path / "checkpoint.safetensors"
    nn.save_checkpoint(path, create_network("cnn", 2, (1, 8, 8)), metadata={"fl_vision": described})
    assert re.search(r"checkpoint.safetensors: (its network|has \d+ weights)", refuse("info", path))
