"""Data sets by name: the digits, MNIST from local files, and what is said when there is none."""

from __future__ import annotations

import gzip
import hashlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fl_tensor as ft
from fl_data import DataError, TensorDataset
from fl_vision import (
    DataFileError,
    DataMissingError,
    DataOptions,
    ExtraMissingError,
    UsageError,
    dataset_names,
    load_dataset,
)
from fl_vision.datasets import mnist
from fl_vision.download import download

DigitsWriter = Callable[..., None]


def test_the_built_in_names() -> None:
    assert {"digits", "mnist", "folder"} <= set(dataset_names())


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(UsageError, match="unknown data set 'cifar'; choose one of digits, mnist"):
        load_dataset("cifar")


def test_a_split_is_stratified_disjoint_and_seeded() -> None:
    labels = [0] * 50 + [1] * 20 + [2] * 3
    rows = TensorDataset(ft.arange(73))

    def split(seed: int) -> list[list[int]]:
        parts = DataOptions(split_seed=seed).split(rows, labels)
        return [[sample[0].item() for sample in part] for part in parts]

    train, test = split(0)
    assert sorted(train + test) == list(range(73))
    assert [sum(labels[i] == c for i in test) for c in range(3)] == [10, 4, 1]
    assert split(0) == [train, test] != split(1)


def test_what_cannot_be_split() -> None:
    rows = TensorDataset(ft.arange(3))
    with pytest.raises(DataError, match="class 1 has 1 sample for 2 parts"):
        DataOptions().split(rows, [0, 0, 1])
    for fraction in (0.0, 1.0, 1.2):
        with pytest.raises(UsageError, match="give one between 0 and 1"):
            DataOptions(test_fraction=fraction).split(rows, [0, 0, 0])


def test_digits_are_the_real_ones() -> None:
    pytest.importorskip("sklearn", reason="the extra fl-vision[digits] is not installed")
    data = load_dataset("digits")
    assert (len(data.train), len(data.test)) == (1438, 359)
    assert data.image_shape == (1, 8, 8)
    image, label = data.train[0]
    assert image.dtype == ft.uint8
    assert label.dtype == ft.int64
    assert image.tolist()[0][0] == [0, 0, 0, 4, 15, 12, 0, 0]
    counts = [0] * 10
    for index in range(len(data.test)):
        counts[int(data.test[index][1].item())] += 1
    assert min(counts) >= 34
    assert max(counts) <= 37


def test_digits_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ExtraMissingError, match=r"pip install 'fl-vision\[digits\]'"):
        load_dataset("digits")


def test_options_without_meaning_are_refused() -> None:
    with pytest.raises(UsageError, match="--data-dir, --holdout has no meaning"):
        load_dataset("digits", DataOptions(data_dir=Path("x"), holdout=3))


def test_mnist_takes_both_pairs(tmp_path: Path, write_digits: DigitsWriter) -> None:
    write_digits("m", "train", 12)
    write_digits("m", "t10k", 5)
    data = load_dataset("mnist", DataOptions(data_dir=tmp_path / "m"))
    assert (len(data.train), len(data.test)) == (12, 5)
    assert data.image_shape == (1, 8, 8)
    image, label = data.train[1]
    assert image.tolist()[0][2] == [254] * 8
    assert int(label.item()) == 1


@pytest.mark.parametrize("prefix", ["t10k", "train"])
def test_holdout_takes_the_last_samples_of_one_pair(
    tmp_path: Path, write_digits: DigitsWriter, prefix: str
) -> None:
    write_digits("m", prefix, 11)
    data = load_dataset("mnist", DataOptions(data_dir=tmp_path / "m", holdout=3))
    assert (len(data.train), len(data.test)) == (8, 3)
    assert [int(data.test[i][1].item()) for i in range(3)] == [0, 1, 2]


def test_holdout_must_leave_something(tmp_path: Path, write_digits: DigitsWriter) -> None:
    write_digits("m", "t10k", 5)
    with pytest.raises(UsageError, match="holdout 5 leaves nothing.*has 5 images"):
        load_dataset("mnist", DataOptions(data_dir=tmp_path / "m", holdout=5))


def test_labels_of_another_set(
    tmp_path: Path, write_digits: DigitsWriter, write_idx: Callable[..., Path]
) -> None:
    write_digits("m", "t10k", 5)
    write_idx("m/t10k-labels-idx1-ubyte", 8, (4,), bytes(4))
    with pytest.raises(DataFileError, match=r"labels are uint8 \(4,\) for 5 images"):
        load_dataset("mnist", DataOptions(data_dir=tmp_path / "m", holdout=1))
    write_idx("m/t10k-labels-idx1-ubyte", 8, (5,), bytes([1, 2, 3, 4, 10]))
    with pytest.raises(DataFileError, match="has the label 10"):
        load_dataset("mnist", DataOptions(data_dir=tmp_path / "m", holdout=1))


def test_without_files_and_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mnist, "MIRRORS", (f"{(tmp_path / 'no-mirror').as_uri()}/",))
    folder = tmp_path / "empty"
    with pytest.raises(DataMissingError, match="train-images-idx3-ubyte") as caught:
        load_dataset("mnist", DataOptions(data_dir=folder))
    assert "put the file into" in str(caught.value)
    assert "--holdout N" in str(caught.value)
    assert list(folder.iterdir()) == []
    with pytest.raises(DataMissingError, match="or allow the download"):
        load_dataset("mnist", DataOptions(data_dir=folder, download=False))


def test_mnist_files_are_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_digits: DigitsWriter
) -> None:
    mirror = tmp_path / "mirror"
    write_digits("mirror", "train", 6)
    for path in list(mirror.iterdir()):
        if path.suffix != ".gz":
            mirror.joinpath(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    digests = [
        hashlib.sha256(gzip.decompress((mirror / f"train-{kind}-ubyte.gz").read_bytes()))
        for kind in ("images-idx3", "labels-idx1")
    ]
    pair = mnist._Pair("train", digests[0].hexdigest(), digests[1].hexdigest())
    monkeypatch.setattr(mnist, "TRAIN", pair)
    monkeypatch.setattr(mnist, "MIRRORS", ("file:///nowhere/", f"{mirror.as_uri()}/"))
    options = DataOptions(data_dir=tmp_path / "new", holdout=2)
    assert len(load_dataset("mnist", options).train) == 4
    monkeypatch.setattr(mnist, "MIRRORS", ())
    assert len(load_dataset("mnist", options).train) == 4


def test_a_download_with_a_wrong_checksum_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "source.gz"
    source.write_bytes(gzip.compress(struct.pack(">I", 7)))
    target = tmp_path / "new" / "file.gz"
    with pytest.raises(DataMissingError, match=r"checksum .* instead of 000000000000"):
        download([source.as_uri()], target, sha256="0" * 64, max_bytes=1000)
    with pytest.raises(DataMissingError, match="more than 3 bytes"):
        download([source.as_uri()], target, sha256="0" * 64, max_bytes=3)
    assert list(target.parent.iterdir()) == []


def test_real_mnist_files(mnist_dir: Path) -> None:
    data = load_dataset("mnist", DataOptions(data_dir=mnist_dir, holdout=1000, download=False))
    assert (len(data.train), len(data.test)) == (9000, 1000)
    assert data.image_shape == (1, 28, 28)
    assert [int(data.train[i][1].item()) for i in range(5)] == [7, 2, 1, 0, 4]
