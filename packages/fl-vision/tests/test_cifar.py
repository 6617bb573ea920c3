"""CIFAR-10 and CIFAR-100 from binary files, and weights of classes."""

from __future__ import annotations

import io
import tarfile

import pytest

import fl_tensor as ft
from fl_data import TensorDataset, Weighted
from fl_vision import DataFileError, DataMissingError, DataOptions, UsageError, load_dataset
from fl_vision.datasets import class_counts, class_weights, read_cifar
from fl_vision.download import unpack


def record(label, level):
    return bytes([*label, *(channel + level for channel in range(3) for _ in range(1024))])


def write_cifar10(folder):
    folder.mkdir(parents=True)
    for number in range(1, 6):
        records = b"".join(record([n], number) for n in range(10))
        (folder / f"data_batch_{number}.bin").write_bytes(records)
    (folder / "test_batch.bin").write_bytes(record([9], 7))


def test_cifar10(tmp_path):
    write_cifar10(tmp_path / "cifar-10-batches-bin")
    names = "airplane automobile bird cat deer dog frog horse ship truck"
    path = tmp_path / "cifar-10-batches-bin/batches.meta.txt"
    path.write_text(names.replace(" ", "\n") + "\n\n")
    found = load_dataset("cifar10", DataOptions(data_dir=tmp_path, download=False))
    assert (len(found.train), len(found.test), found.image_shape) == (50, 1, (3, 32, 32))
    assert found.classes == tuple(names.split())
    image, label = found.train[11]
    assert (image.shape, image.dtype, label.item()) == ((3, 32, 32), ft.uint8, 1)
    assert image[:, 31, 31].tolist() == [2, 3, 4]
    path.unlink()
    inside = load_dataset("cifar10", DataOptions(data_dir=path.parent))
    assert inside.classes == tuple("0123456789")


def test_cifar100_has_fine_labels(tmp_path):
    (tmp_path / "train.bin").write_bytes(record([3, 99], 0) + record([3, 5], 1))
    (tmp_path / "test.bin").write_bytes(record([3, 98], 0))
    found = load_dataset("cifar100", DataOptions(data_dir=tmp_path, download=False))
    assert [label.item() for _, label in found.train] == [99, 5]
    assert len(found.classes) == 100


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes are not 1 to"),
        (record([1], 0)[:-1], "3072 bytes are not"),
        (record([1], 0) + b"x", "3074 bytes"),
        (record([1], 0) + record([10], 0), "record 1 has the label 10; labels of CIFAR-10 are"),
    ],
)
def test_wrong_files(tmp_path, content, message):
    (tmp_path / "a.bin").write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read_cifar(tmp_path / "a.bin")


def test_missing_files(tmp_path):
    with pytest.raises(DataMissingError, match="lacks some of data_batch_1.bin"):
        load_dataset("cifar10", DataOptions(data_dir=tmp_path, download=False))
    with pytest.raises(DataMissingError, match="no such file"):
        read_cifar(tmp_path / "a.bin")
    with pytest.raises(DataFileError, match="give 10 or 100"):
        read_cifar(tmp_path / "a.bin", classes=11)


def test_an_archive_that_was_downloaded_is_unpacked(tmp_path):
    write_cifar10(tmp_path / "there")
    (tmp_path / "there/batches.meta.txt").write_text("x")
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "there", "cifar-10-batches-bin")
        archive.addfile(tarfile.TarInfo("../escaped.bin"))
    found = load_dataset("cifar10", DataOptions(data_dir=tmp_path))
    assert len(found.train) == 50
    assert not list(tmp_path.rglob("escaped.bin"))


def test_archives_that_are_damaged_or_lack_a_file(tmp_path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("x/a.bin")
        member.size = 1000
        archive.addfile(member, io.BytesIO(bytes(1000)))
    with pytest.raises(DataFileError, match=r"lacks b.bin; remove it"):
        unpack(path, tmp_path, ["a.bin", "b.bin"])
    with pytest.raises(DataFileError, match="a.bin has 1000 bytes, the limit is 999"):
        unpack(path, tmp_path, ["a.bin"], max_bytes=999)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DataFileError, match="damaged"):
        unpack(path, tmp_path, ["a.bin"])


def test_class_counts_and_weights():
    labels = [0, 0, 0, 1, 2, 2]
    ds = TensorDataset(ft.zeros((6, 1, 2, 2)), ft.asarray(labels))
    counts = class_counts(ds, 3)
    assert counts == (3, 1, 2)
    weights = class_weights(counts)
    assert weights == pytest.approx((2 / 3, 2.0, 1.0))
    assert sum(weights[label] for label in labels) == pytest.approx(6)
    assert class_weights(counts, power=0.0) == (1.0, 1.0, 1.0)
    root = class_weights(counts, power=0.5)
    assert root[1] / root[0] == pytest.approx(3**0.5)
    assert len(Weighted(ds, [weights[label] for label in labels], seed=0)) == 6


def test_classes_without_samples_have_no_weight():
    with pytest.raises(UsageError, match=r"1 classes have no samples \(first: \[1\]\)"):
        class_weights([3, 0])
    with pytest.raises(UsageError, match="counts of at least 0"):
        class_weights([])
    with pytest.raises(UsageError, match="finite power"):
        class_weights([1, 2], power=float("nan"))
    ds = TensorDataset(ft.zeros((1, 1, 2, 2)), ft.asarray([4]))
    with pytest.raises(UsageError, match="sample 0 has the label 4 of 2 classes"):
        class_counts(ds, 2)
    with pytest.raises(UsageError, match="give classes="):
        class_counts(ds)
