"""Folders of images as people have them: layouts, counts, bad files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fl_vision import DataOptions, ImageFolder, UsageError, load_dataset
from fl_vision.__main__ import main

ImageWriter = Callable[..., Path]


@pytest.mark.defect("P1")
@pytest.mark.parametrize("name", ["test", "val", "valid", "validation"])
def test_the_usual_layouts_are_recognised(
    tmp_path: Path, write_image: ImageWriter, name: str
) -> None:
    for file in ("train/cat/1.png", "train/dog/1.png", f"{name}/dog/1.png"):
        write_image(file)
    data = load_dataset("folder", DataOptions(data_dir=tmp_path))
    assert data.classes == ("cat", "dog") and (len(data.train), len(data.test)) == (2, 1)


@pytest.mark.defect("P1")
def test_folders_of_folders_of_classes_are_refused(
    tmp_path: Path, write_image: ImageWriter
) -> None:
    for part in ("learn", "held"):
        for name in ("cat", "dog"):
            write_image(f"{part}/{name}/1.png")
    with pytest.raises(UsageError, match=r"held, learn hold no images, only folders: give .*held"):
        ImageFolder(tmp_path)
    write_image("learn/0.png")  # deeper folders of a class are fine
    assert len(ImageFolder(tmp_path)) == 5


@pytest.fixture
def pictures(tmp_path: Path, write_image: ImageWriter) -> Path:
    """Eight images of each of two classes; two files more are none."""
    for name, colour in (("cat", (250, 0, 0)), ("dog", (0, 0, 250))):
        for number in range(8):
            write_image(f"pictures/{name}/{number}.png", colour, size=(8, 8))
    (tmp_path / "pictures/cat/0bad.png").write_bytes(b"no image")
    good = tmp_path / "pictures/dog/1.png"
    (tmp_path / "pictures/dog/0cut.png").write_bytes(good.read_bytes()[:40])
    return tmp_path / "pictures"


@pytest.mark.defect("P13")
def test_bad_files_are_listed_and_left_out(pictures: Path) -> None:
    folder = ImageFolder(pictures, size=(8, 8))
    names = [error.path.name for error in folder.bad_files()]
    assert names == ["0bad.png", "0cut.png"] and len(folder) == 18
    good = ImageFolder(pictures, skip_bad=True)
    assert (len(good), len(good.skipped)) == (16, 2) and good[0][0].shape == (3, 8, 8)
    assert "ImageFolder('" in repr(good) and "16 images, 2 classes" in repr(good)


@pytest.mark.defect("P5")
@pytest.mark.defect("P13")
def test_commands_count_images_and_leave_bad_ones_out(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = str(tmp_path / "run"), tmp_path / "other"
    learn = ["train", "--dataset", "folder", "--data-dir", str(pictures), "--out", run]
    assert main([*learn, "--epochs", "1", "--quiet"]) == 2
    assert "[image]" in capsys.readouterr().err
    assert main([*learn, "--epochs", "1", "--quiet", "--skip-bad"]) == 0
    said = capsys.readouterr().out
    assert "13 training images, 3 test images, 2 classes" in said
    assert "left out 2 files that cannot be read:" in said and "0cut.png" in said

    (pictures / "cat/0bad.png").unlink()
    (pictures / "dog/0cut.png").unlink()
    pictures.rename(other)
    assert main(["eval", run, "--data-dir", str(other)]) == 0
    assert "16 test images, 2 classes" in capsys.readouterr().out

    bad = other / "bad.png"
    bad.write_bytes(b"no image")
    files = [str(other / "cat/1.png"), str(bad), str(other / "none.png"), str(other / "dog/1.png")]
    files.append(files[0])
    assert main(["predict", run, *files]) == 2
    said = capsys.readouterr()
    assert said.out.count(": ") == 3, "the good ones are classified"
    assert "2 of 5 files cannot be read" in said.err and "none.png: no such file" in said.err
    assert main(["predict", run, *files, "--skip-bad"]) == 0
    assert "left out 2 files" in capsys.readouterr().out


@pytest.mark.defect("P15")
def test_a_picture_in_place_of_a_folder_is_refused_before_the_work(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ["--data-dir", "pictures", "--skip-bad", "--epochs", "1", "--quiet"]
    assert main(["train", "--dataset", "folder", *options, "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["predict", "run", "pictures/cat/1.png", "--out", "."]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert "--out .: it is a folder; name the picture, such as predictions.png" in shown.err


@pytest.mark.defect("P15")
@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes there")
def test_names_beyond_ascii_under_any_locale(tmp_path: Path, write_image: ImageWriter) -> None:
    """A run of one locale is evaluated under another, and printing a name never fails."""
    for name, colour in (("käse", (250, 0, 0)), ("brot", (0, 0, 250))):
        for number in range(8):
            write_image(f"bücher/{name}/ü{number}.png", colour, size=(8, 8))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def run(arguments: str, settings: Mapping[str, str]) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fl_vision", *arguments.split()],
            cwd=tmp_path, env={**environment, **settings}, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("utf-8")

    train = "train --dataset folder --data-dir bücher --epochs 1 --quiet --out "
    accuracy = run(train + "rün", {"PYTHONUTF8": "1"}).splitlines()[-1]
    assert run("eval rün", ascii).splitlines()[-1] == accuracy
    shown = run("predict rün bücher/käse/ü0.png", ascii)
    assert shown.startswith(r"b\xfccher/k\xe4se/\xfc0.png: ")
    assert run(train + "anders", ascii).splitlines()[-1] == accuracy
    assert run("eval anders", {"PYTHONUTF8": "1"}).splitlines()[-1] == accuracy


@pytest.mark.defect("P13")
def test_a_training_names_all_bad_files_and_logs_those_left_out(
    pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["train", "--dataset", "folder", "--data-dir", str(pictures), "--epochs", "1"]
    options += ["--image-size", "8x8", "--quiet", "--out"]
    assert main([*options, str(tmp_path / "refused")]) == 2
    shown = capsys.readouterr().err
    assert "2 files cannot be read (--skip-bad leaves them out)" in shown
    assert "0bad.png" in shown and "0cut.png" in shown
    assert main([*options, str(tmp_path / "run"), "--skip-bad"]) == 0
    start = json.loads((tmp_path / "run" / "log.jsonl").read_text().splitlines()[0])
    assert start["metadata"]["fl_vision"]["skipped_files"] == 2
