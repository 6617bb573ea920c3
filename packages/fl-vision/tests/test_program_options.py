"""Options of `fl-vision train | eval | predict` that leave files behind, and ImageNet's layout."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import fl_tensor as ft
from fl_data import as_dataset
from fl_vision import DataOptions, UsageError, load_dataset, read_image
from fl_vision.recipe import Recipe
from fl_vision.training.optimisation import build_loss

SMALL = ["--batch-size", 8, "--epochs", 1, "--quiet", "--backend", "numpy"]


@pytest.fixture
def pictures(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    for index in range(5):
        write_image(f"pictures/day/{index}.png", (200 + index, 210, 230), size=(16, 16))
        write_image(f"pictures/night/{index}.png", (10, 5 + index, 40), size=(16, 16))
    return tmp_path / "pictures"


@pytest.fixture
def trained(pictures: Path, tmp_path: Path, run: Callable[..., list[str]]) -> Path:
    run("train", pictures, "-o", tmp_path / "run", *SMALL)
    return tmp_path / "run"


def test_eval_draws_the_confusion_matrix_and_batches_change_nothing(
    trained: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    out = tmp_path / "confusion.png"
    lines = run("eval", trained, "--confusion", out, "--batch-size", 1)
    assert f"wrote {out}" in lines and lines[-1] == run("eval", trained)[-1]
    with Image.open(out) as picture:
        assert min(picture.size) > 100


def test_predict_says_how_fast_it_was(
    trained: Path, pictures: Path, run: Callable[..., list[str]]
) -> None:
    *_, last = run("predict", trained, pictures, "--times", "--batch-size", 4)
    assert re.fullmatch(r"10 images, [\d.]+ images/s", last)


def test_tensorboard_has_curves(
    pictures: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    pytest.importorskip("tensorboardX", reason="the extra fl-nn[tensorboard] is not installed")
    run("train", pictures, "-o", tmp_path / "run", *SMALL, "--tensorboard")
    (events,) = (tmp_path / "run" / "tensorboard").iterdir()
    assert b"epoch/valid_accuracy" in events.read_bytes()


def test_predict_shows_where_a_vision_transformer_looks(
    pictures: Path, trained: Path, tmp_path: Path, run: Callable[..., list[str]],
    refuse: Callable[..., str],
) -> None:  # fmt: skip
    vit = ["--network", "vit_ti", "--patch", 8]
    run("train", pictures, "-o", tmp_path / "vit", *SMALL, *vit)
    shown = tmp_path / "shown"
    run("predict", tmp_path / "vit", pictures / "day", pictures / "night" / "0.png",
        "--attention", shown, "--batch-size", 4)  # fmt: skip
    names = {path.name for path in shown.iterdir()}
    assert names == {"0.png", "0-2.png", "1.png", "2.png", "3.png", "4.png"}
    with Image.open(shown / "0.png") as picture:
        assert picture.size == (2 * 224, 224)
    said = refuse("predict", trained, pictures, "--attention", shown)
    assert "the network is a cnn" in said


def test_classes_count_by_their_frequency(
    tmp_path: Path, write_image: Callable[..., Path], run: Callable[..., list[str]]
) -> None:
    # Class a has 2 of 10 samples: in the mean its loss counts four times as much as that of b.
    samples = [(ft.zeros((1,)), ft.asarray(int(index > 1))) for index in range(10)]
    loss = build_loss(Recipe(class_weights=1.0), as_dataset(samples), 2)
    scores = ft.asarray([[1.0, 0.0], [3.0, 0.0]])
    each = [math.log1p(math.exp(-1)), 3 + math.log1p(math.exp(-3))]
    found = loss(scores, ft.asarray([0, 1])).item()
    assert found == pytest.approx((4 * each[0] + each[1]) / 5, rel=1e-5)
    for index in range(10):
        write_image(f"few/{'a' if index < 2 else 'b'}/{index}.png", (20 * index, 9, 9), (8, 8))
    losses = []
    for power in (0, 1):
        out = tmp_path / f"run{power}"
        run("train", tmp_path / "few", "-o", out, *SMALL, "--class-weights", power)
        losses.append(json.loads((out / "log.jsonl").read_text().splitlines()[-1])["train_loss"])
    assert losses[0] != losses[1]


@pytest.fixture
def imagenet(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    """Two synsets with pictures of mixed sizes."""
    for index in range(6):
        for split in ("train", "val"):
            name = f"net/{split}/n0{index % 2}/{split}{index}.png"
            path = write_image(name, (40 * index, 100, 250 - 40 * index), (40 + index, 60))
            path.rename(path.with_suffix(".JPEG"))
    (tmp_path / "net" / "labels.txt").write_text("n00,tench\nn01,goldfish, or carp\n")
    return tmp_path / "net"


def test_the_layout_of_imagenet_is_loaded(imagenet: Path, tmp_path: Path) -> None:
    options = DataOptions(data_dir=imagenet, image_size=(32, 32), cache=tmp_path / "cache")
    data = load_dataset("imagenet", options)
    assert data.classes == ("tench", "goldfish, or carp") and data.image_shape == (3, 32, 32)
    sizes = [image.shape for image, _ in data.train]
    assert sizes[:2] == [(3, 40, 60), (3, 42, 60)]  # as they are, for transforms that cut
    assert {image.shape for image, _ in data.test} == {(3, 32, 32)}  # the middle of each
    assert [label.item() for _, label in data.test] == [0, 0, 0, 1, 1, 1]
    assert data.fit is not None and data.fit(data.train[0][0]).shape == (3, 32, 32)
    assert any((tmp_path / "cache").iterdir())
    assert load_dataset("imagenet", DataOptions(data_dir=imagenet)).image_shape == (3, 224, 224)


def test_images_for_testing_are_the_middle_of_a_picture(imagenet: Path) -> None:
    # Of 256 x 300 pixels the shorter side stays for a window of 224, which is cut out.
    path = imagenet / "val" / "n00" / "photo.JPEG"
    Image.effect_noise((300, 256), 90).convert("RGB").save(path, "PNG")
    data = load_dataset("imagenet", DataOptions(data_dir=imagenet))
    number = sorted(path.parent.glob("*.JPEG")).index(path)
    found, _ = data.test[number]
    assert found.tolist() == read_image(path)[:, 16:240, 38:262].tolist()


def test_imagenet_is_refused_without_folders_and_with_options_of_others(imagenet: Path) -> None:
    with pytest.raises(UsageError, match="which folder"):
        load_dataset("imagenet")
    with pytest.raises(UsageError, match="--grayscale, --skip-bad has no meaning here"):
        load_dataset("imagenet", DataOptions(data_dir=imagenet, grayscale=True, skip_bad=True))
    (imagenet / "labels.txt").write_text("n00,tench\n")
    with pytest.raises(UsageError, match="'n01', which .*labels.txt does not name"):
        load_dataset("imagenet", DataOptions(data_dir=imagenet))


@pytest.mark.parametrize("recipe", ["resnet34", "vit-b"])
def test_recipes_of_imagenet_train_on_its_layout(
    recipe: str, imagenet: Path, tmp_path: Path, run: Callable[..., list[str]]
) -> None:
    small = (
        ["--network", "resnet18", "--width", 2] if recipe == "resnet34" else ["--network", "vit_ti"]
    )
    lines = run("train", imagenet, "--recipe", recipe, "-o", tmp_path / "run", *small,
                "--image-size", "32x32", "--epochs", 1, "--batch-size", 3, "--quiet")  # fmt: skip
    assert lines[0] == "6 training images, 6 test images, 2 classes"
    assert run("eval", tmp_path / "run")[-1] == lines[-1]


def test_a_file_of_pictures_that_breaks_is_counted_and_left_out(
    trained: Path, pictures: Path, run: Callable[..., list[str]], refuse: Callable[..., str]
) -> None:
    for name in ("bad", "worse"):
        (pictures / "day" / f"{name}.png").write_bytes(b"no image")
    lines = run("predict", trained, pictures, "--skip-bad")
    assert len([line for line in lines if line.endswith(")")]) == 10
    assert "left out 2 files that cannot be read:" in lines
    said = refuse("predict", trained, pictures)
    assert "[predict] 2 of 12 files cannot be read" in said
