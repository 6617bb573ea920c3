"""Folders of blobs: written by `fl-vision prepare blobs`, read by `fl-vision train`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fl_vision import DataFileError, DataMissingError, DataOptions, UsageError
from fl_vision.cli import main
from fl_vision.datasets import load_blobs, load_dataset, write_blobs


@pytest.fixture
def pictures(tmp_path: Path, write_image: Callable[..., Path]) -> Path:
    for split, count in (("train", 4), ("val", 2), ("test", 1)):
        for index in range(count):
            write_image(f"data/{split}/a/{index}.png", (200, 9 * index, 0), size=(8, 10))
            write_image(f"data/{split}/b/{index}.png", (0, 9 * index, 200), size=(8, 10))
    return tmp_path / "data"


def test_a_folder_of_blobs_has_the_samples_of_the_folders(pictures: Path, tmp_path: Path) -> None:
    written = write_blobs(pictures, tmp_path / "blobs")
    assert {path.name: count for path, count in written.items()} == {
        "train.blob": 8, "val.blob": 4, "test.blob": 2,
    }  # fmt: skip
    found = load_dataset("blobs", DataOptions(data_dir=tmp_path / "blobs"))
    plain = load_dataset("folder", DataOptions(data_dir=pictures))
    assert found.classes == plain.classes and found.image_shape == plain.image_shape
    for ours, theirs in ((found.train, plain.train), (found.test, plain.test),
                         (found.valid, plain.valid)):  # fmt: skip
        assert ours is not None and theirs is not None
        assert [(i.tolist(), n.item()) for i, n in ours] == [
            (i.tolist(), n.item()) for i, n in theirs
        ]
    small = DataOptions(data_dir=tmp_path / "blobs", image_size=(4, 4), grayscale=True)
    assert load_blobs(small).train[0][0].shape == (1, 4, 4)


def test_the_program_writes_and_trains_on_them(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blobs, last = tmp_path / "blobs", {}
    assert main(["prepare", "blobs", "--from", str(pictures), "-o", str(blobs)]) == 0
    assert f"wrote 8 images to {blobs / 'train.blob'}" in capsys.readouterr().out
    for name, data in (("folder", pictures), ("blobs", blobs)):
        options = ["--epochs", "2", "--quiet", "--batch-size", "4", "--backend", "numpy"]
        assert main(["train", str(data), "-o", str(tmp_path / name), *options]) == 0
        assert main(["eval", str(tmp_path / name), "--backend", "numpy"]) == 0
        last[name] = capsys.readouterr().out.splitlines()[-1]
        weights = tmp_path / name / "checkpoint.safetensors"
        assert weights.is_file()
    assert last["folder"] == last["blobs"]
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in last]
    assert len(logs[0]) == len(logs[1])
    assert main(["prepare", "blobs", "-o", str(blobs)]) == 2
    assert "Give --from FOLDER" in capsys.readouterr().err


def test_synsets_become_blobs(tmp_path: Path, write_image: Callable[..., Path]) -> None:
    for split in ("train", "val"):
        for synset in ("n01", "n02"):
            path = write_image(f"net/{split}/{synset}/x.png", size=(6, 7))
            path.rename(path.with_suffix(".JPEG"))
    (tmp_path / "net/labels.txt").write_text("n02,tench\nn01,hen\n")
    write_blobs(tmp_path / "net", tmp_path / "blobs")
    assert load_blobs(DataOptions(data_dir=tmp_path / "blobs")).classes == ("tench", "hen")


def test_what_is_missing_or_does_not_fit(pictures: Path, tmp_path: Path) -> None:
    with pytest.raises(DataMissingError, match="no train/ beside one of test/, val/"):
        write_blobs(pictures / "train", tmp_path / "out")
    with pytest.raises(UsageError, match="give a folder to write into"):
        write_blobs(pictures, pictures / "train" / "a" / "0.png")
    with pytest.raises(UsageError, match="which folder"):
        load_blobs(DataOptions())
    with pytest.raises(DataMissingError, match="no train.blob beside test.blob"):
        load_blobs(DataOptions(data_dir=pictures))
    with pytest.raises(UsageError, match="--skip-bad has no meaning"):
        load_blobs(DataOptions(data_dir=pictures, skip_bad=True))
    write_blobs(pictures, tmp_path / "blobs")
    (pictures / "train" / "a").rename(pictures / "train" / "c")
    (pictures / "test" / "a").rename(pictures / "test" / "c")
    (pictures / "val" / "a").rename(pictures / "val" / "c")
    write_blobs(pictures, tmp_path / "others")
    (tmp_path / "others/test.blob").rename(tmp_path / "blobs/test.blob")
    with pytest.raises(DataFileError, match="test.blob: has other classes than train.blob"):
        load_blobs(DataOptions(data_dir=tmp_path / "blobs"))
