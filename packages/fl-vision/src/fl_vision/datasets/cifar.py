"""CIFAR-10 and CIFAR-100 from their binary files, with an optional download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import fl_tensor as ft
from fl_data import TensorDataset
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular
from fl_vision.datasets.image_data import DataOptions, ImageData
from fl_vision.download import download, unpack
from fl_vision.errors import DataFileError, DataMissingError

_PIXELS = 3 * 32 * 32
_MAX_ARCHIVE = 200 << 20
MAX_RECORDS = 1_000_000
"""The most images of one file; the published files have up to 50,000."""


@dataclass(frozen=True)
class _Version:
    """Files of a version: a record is `labels` bytes, of which the last is the label, and pixels,
    channel by channel and row by row."""

    name: str
    address: str
    sha256: str
    folder: str
    train: tuple[str, ...]
    test: str
    names: str
    classes: int
    labels: int


_VERSIONS = {
    10: _Version(
        "cifar10",
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        "cifar-10-batches-bin",
        tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
        "test_batch.bin",
        "batches.meta.txt",
        10,
        1,
    ),
    100: _Version(
        "cifar100",
        "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        "cifar-100-binary",
        ("train.bin",),
        "test.bin",
        "fine_label_names.txt",
        100,
        2,
    ),
}


def load_cifar10(options: DataOptions) -> ImageData:
    """50,000 training and 10,000 test images (3, 32, 32) uint8 of 10 classes (Krizhevsky, 2009).

    `options.data_dir` is the folder with `data_batch_1.bin` and so on, or the one above it. Missing
    files are downloaded, unless `options.download` is False.

    Raises `DataMissingError` where files are missing, and `DataFileError` for one that is cut off
    or has other labels.
    """
    return _load(options, _VERSIONS[10])


def load_cifar100(options: DataOptions) -> ImageData:
    """As `load_cifar10`, of `train.bin` and `test.bin` with 100 classes, the fine labels."""
    return _load(options, _VERSIONS[100])


@checked
def read_cifar(path: str | Path, *, classes: int = 10) -> tuple[ft.Tensor, ft.Tensor]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 of a binary file of CIFAR-10 or, with
    `classes=100`, of CIFAR-100 (fine labels).

    Raises `DataMissingError` for a missing file. Raises `DataFileError` for an empty one, a size
    that is no multiple of a record, more than `MAX_RECORDS`, and labels that are no class.
    """
    if classes not in _VERSIONS:
        raise DataFileError("cifar", path, f"classes is {classes}", "give 10 or 100")
    version = _VERSIONS[classes]
    record = version.labels + _PIXELS
    most = MAX_RECORDS * record
    try:
        with open_regular(path) as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise DataMissingError(f"[cifar] {path}: no such file; check the path") from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DataFileError("cifar", path, problem, "check the path") from None
    if not content or len(content) % record or len(content) > most:
        raise DataFileError(
            "cifar",
            path,
            f"{len(content)} bytes are not 1 to {MAX_RECORDS} records of {record} bytes",
            f"get the file of CIFAR-{classes} again",
        )
    rows = ft.frombytes(content, (len(content) // record, record), ft.uint8)
    labels = rows[:, version.labels - 1].astype(ft.int64)
    wrong = (labels >= classes).tolist()
    if any(wrong):
        number = wrong.index(True)
        raise DataFileError(
            "cifar",
            path,
            f"record {number} has the label {labels[number].item()}",
            f"labels of CIFAR-{classes} are 0 to {classes - 1}",
        )
    return rows[:, version.labels :].reshape(-1, 3, 32, 32), labels


def _load(options: DataOptions, version: _Version) -> ImageData:
    options.reject(version.name, "holdout", "image_size", "grayscale", "skip_bad", "cache")
    folder = _folder(options.data_dir or Path("data") / version.name, version, options.download)
    parts = [read_cifar(folder / name, classes=version.classes) for name in version.train]
    images, labels = (ft.concat([part[field] for part in parts]) for field in range(2))
    return ImageData(
        name=version.name,
        train=TensorDataset(images, labels),
        test=TensorDataset(*read_cifar(folder / version.test, classes=version.classes)),
        classes=_names(folder / version.names, version.classes),
        image_shape=(3, 32, 32),
    )


def _folder(given: Path, version: _Version, allowed: bool) -> Path:
    """Where the files are: `given`, or the archive's own folder in it."""
    wanted = (*version.train, version.test)
    for folder in (given, given / version.folder):
        if all((folder / name).is_file() for name in wanted):
            return folder
    if not allowed:
        raise DataMissingError(
            f"[{version.name}] {given} lacks some of {', '.join(wanted)}; put them there, or allow "
            "the download"
        )
    archive = given / version.address.rpartition("/")[2]
    if not archive.is_file():
        download(
            [version.address], archive, sha256=version.sha256, max_bytes=_MAX_ARCHIVE, packed=True
        )
    unpack(archive, given / version.folder, (*wanted, version.names))
    return given / version.folder


def _names(path: Path, classes: int) -> tuple[str, ...]:
    """The names of the classes, where their file is there; numbers otherwise."""
    try:
        with open_regular(path) as file:
            found = file.read(1 << 16).decode().split()
    except (OSError, UnicodeDecodeError):
        found = []
    return tuple(found) if len(found) == classes else tuple(map(str, range(classes)))
