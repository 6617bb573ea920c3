"""`fl-vision detect`: VOC, shards of images, folders and streams, reports, best checkpoints."""

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
from fl_vision import read_image
from fl_vision.detectors.sources import BoxSource, data_notes
from fl_vision.errors import UsageError

NUMPY = ["--backend", "numpy"]
TINY = [
    *("--width", 4, "--stages", 3, "--size", 8, "--heads", 2, "--hidden", 16, "--queries", 7),
    *("--encoder-layers", 1, "--decoder-layers", 2, "--batch-size", 2, "--epochs", 1),
    *("--quiet", *NUMPY),
]


@pytest.fixture
def scenes(tmp_path: Path, run: Callable[..., list[str]]) -> Path:
    run("prepare", "scenes", "-o", tmp_path / "data", "--train", 4, "--valid", 2, "--size", 32)
    return tmp_path / "data"


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    """VOC's layout with 4 images of a dog, of which one is difficult, in two splits."""
    root = tmp_path / "VOC2007"
    for folder in ("ImageSets/Main", "Annotations", "JPEGImages"):
        (root / folder).mkdir(parents=True)
    for number in range(4):
        Image.new("RGB", (32, 32), (60 * number, 9, 9)).save(root / f"JPEGImages/{number}.jpg")
        sides = "<xmin>3</xmin><ymin>3</ymin><xmax>20</xmax><ymax>40</ymax>"
        (root / f"Annotations/{number}.xml").write_text(
            f"<annotation><filename>{number}.jpg</filename><size><width>32</width><height>32"
            f"</height></size><object><name>dog</name><difficult>{number // 3}</difficult>"
            f"<bndbox>{sides}</bndbox></object></annotation>"
        )
    (root / "ImageSets/Main/train.txt").write_text("0\n1\n")
    (root / "ImageSets/Main/val.txt").write_text("2\n3\n")
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    return root


def test_voc_is_trained_on_and_measured_by_its_own_rules(
    voc: Path, tmp_path: Path, run: Callable[..., list[str]], refuse: Callable[..., str]
) -> None:
    out, classes = tmp_path / "run", ["--classes", tmp_path / "names.txt"]
    lines = run("detect", "--train", voc, "--valid", f"{voc}:val", *classes, "-o", out, *TINY)
    assert lines[0] == "2 training images, 2 classes"
    assert lines[1].startswith("0 boxes without area left out, 2 cut at the edge")
    assert "1 classes have no training boxes: cat" in lines
    run("detect", "--train", voc, "-o", out, "--resume", "--epochs", 2, "--quiet", *NUMPY)
    figures = tmp_path / "figures.json"
    for year in ("2007", "2010"):
        table = run("detect", out, "--eval", f"{voc}:val", *classes, "--voc", year, "--json",
                    figures, *NUMPY)  # fmt: skip
        assert "class  objects  VOC AP" in table
        assert table[-1].split()[:2] == ["dog", "1"]  # the other one is difficult
        values = json.loads(figures.read_text())["voc"]
        assert 0 <= values["mean_ap"] <= 1 and values["per_class"][0]["ap"] == -1
    assert "val2.txt: no such file" in refuse("detect", out, "--eval", f"{voc}:val2", *classes)
    assert "leave it out" in refuse("detect", out, "--eval", voc, "--image-dir", tmp_path)
    assert len(BoxSource(str(voc)).open().classes) == 20


def test_the_report_has_figures_pictures_and_escaped_names(
    voc: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    (tmp_path / "names.txt").write_text("<b>cat\ndog\n")
    out, classes = tmp_path / "run", ["--classes", tmp_path / "names.txt"]
    lines = run("detect", "--train", voc, "--valid", f"{voc}:val", *classes, "-o", out, *TINY)
    assert f"wrote {out / 'report.html'}" in lines
    html = (out / "report.html").read_text()
    assert "&lt;b&gt;cat" in html and "<b>" not in html
    assert "http" not in html and "<script" not in html
    assert html.count("<svg") == 2 and html.count('src="data:image/png;base64,') == 4
    for word in ("AP50", "small objects", "2 cut at the edge", "Settings", "no_object"):
        assert word in html
    # Without validation: neither figures nor their curve.
    run("detect", "--train", voc, *classes, "-o", tmp_path / "alone", *TINY)
    alone = (tmp_path / "alone" / "report.html").read_text()
    assert "Average precision" not in alone and alone.count("<svg") == 1


def test_folders_and_streams_of_images(
    scenes: Path,
    tmp_path: Path,
    run: Callable[..., list[str]],
    refuse: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, images = tmp_path / "run", scenes / "train" / "images"
    run("detect", "--train", scenes / "train", "-o", out, *TINY)
    files = sorted(images.iterdir())
    apply = ["detect", out, "--least", 0, *NUMPY]
    rows = run(*apply, images, "--batch-size", 3, "--threads", 2)
    assert run(*apply, *files, "--batch-size", 3) == rows
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{path}\n" for path in files)))
    single = run(*apply, "-", "--batch-size", 1)
    names = [row["image"] for row in csv.DictReader(rows)]
    assert [row["image"] for row in csv.DictReader(single)] == names
    assert sorted(set(names)) == [str(path) for path in files]
    *_, speed = run(*apply, images, "--times")
    assert re.fullmatch(r"4 images, [\d.]+ images/s", speed)
    (images / "bad.png").write_bytes(b"no image")
    assert "[detect] 1 of 5 files cannot be read" in refuse(*apply, images)
    left = run(*apply, images, "--skip-bad", "--batch-size", 3)
    assert left[: len(rows)] == rows and "left out 1 files that cannot be read:" in left
    (tmp_path / "empty").mkdir()
    assert "no image files" in refuse(*apply, tmp_path / "empty")


def test_the_best_checkpoints_are_kept(
    scenes: Path, tmp_path: Path, run: Callable[..., list[str]], refuse: Callable[..., str]
) -> None:
    out = tmp_path / "run"
    train = ["detect", "--train", scenes / "train", *TINY, "--epochs", 3]
    run(*train, "--valid", scenes / "valid", "--keep-best", 2, "-o", out)
    kept = sorted(out.glob("best-*.safetensors"))
    assert len(kept) == 2
    history = nn.load_checkpoint(out / "checkpoint.safetensors").position["history"]
    assert sorted(history[-1]["best"]) == [path.name for path in kept]
    for more in ([], ["--valid", scenes / "valid", "--validate-every", 2]):
        assert "the best checkpoints" in refuse(*train, *more, "--keep-best", 1, "-o", out / "x")


def test_processes_make_the_same_batches(
    scenes: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    losses = []
    cached = ["--processes", 1, "--cache", tmp_path / "cache"]
    for name, more in (("thread", []), ("process", ["--processes", 1]), ("cached", cached)):
        run("detect", "--train", scenes / "train", "-o", tmp_path / name, *TINY, *more)
        losses.append(
            [
                json.loads(line).get("train_loss")
                for line in (tmp_path / name / "log.jsonl").read_text().splitlines()
            ]
        )
    assert losses[0] == losses[1] == losses[2] and losses[0][-1] > 0
    assert any((tmp_path / "cache").rglob("*"))


def test_tensorboard_has_curves(
    scenes: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    pytest.importorskip("tensorboardX", reason="the extra fl-nn[tensorboard] is not installed")
    train = ["detect", "--train", scenes / "train", "--valid", scenes / "valid", *TINY]
    run(*train, "-o", tmp_path / "run", "--tensorboard")
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert b"epoch/valid_ap50" in events.read_bytes()


def test_images_that_cannot_be_decoded_are_counted_and_left_out(
    scenes: Path, tmp_path: Path, run: Callable[..., list[str]], refuse: Callable[..., str]
) -> None:
    broken = scenes / "train" / "images" / "000002.png"
    broken.write_bytes(broken.read_bytes()[:200])
    path = scenes / "train" / "instances.json"
    content = json.loads(path.read_text())
    entry = {"id": 999, "image_id": 1, "category_id": 1, "bbox": [0, 0, -1, 2]}
    content["annotations"].append(entry)
    path.write_text(json.dumps(content))
    train = ["detect", "--train", scenes / "train", "-o", tmp_path / "run", *TINY]
    assert "a negative size" in refuse(*train)
    lines = run(*train, "--skip-bad", "--overwrite")
    assert lines[0] == "3 training images, 5 classes"
    assert lines[1] == "left out 2 entries or images that cannot be read:"
    assert "(id 999)" in lines[2] and "000002.png" in lines[3]
    source = BoxSource(str(scenes / "train"), skip_bad=True)
    for data in (source.open(), source.open(tmp_path / "cache")):
        assert len(data) == 3 and data_notes(data) == lines[1:4]
        assert [target.image_id for _, target in data] == [1, 2, 4]
        assert data.image(2).tolist() == read_image(broken.with_name("000003.png")).tolist()
    for path in (scenes / "train" / "images").iterdir():
        path.write_bytes(b"no image")
    with pytest.raises(UsageError, match="none of 4 images can be read; the first: "):
        BoxSource(str(scenes / "train"), skip_bad=True).open()


def test_published_weights_of_other_classes_begin_a_run(
    voc: Path, scenes: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    run("detect", "--train", scenes / "train", "-o", tmp_path / "first", *TINY)
    lines = run("detect", "--train", voc, "-o", tmp_path / "second", *TINY, "--weights",
                tmp_path / "first" / "weights.safetensors")  # fmt: skip
    assert any(line.startswith("begun at random: class_embed") for line in lines)
