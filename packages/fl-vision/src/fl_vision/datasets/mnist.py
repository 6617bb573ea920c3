"""MNIST from local IDX files, with an optional download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import fl_tensor as ft
from fl_data import Dataset, Span, TensorDataset
from fl_vision.datasets.image_data import DataOptions, ImageData, image_and_label
from fl_vision.download import download
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.idx import read_idx

MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
"""Where the four files are published; each address ends before the file name."""

DEFAULT_DIR = Path("data") / "mnist"
_MAX_DOWNLOAD = 16 << 20


@dataclass(frozen=True)
class _Pair:
    """An image file, its label file, and the SHA-256 of what each unpacks to."""

    prefix: str
    images_sha256: str
    labels_sha256: str

    @property
    def images(self) -> str:
        return f"{self.prefix}-images-idx3-ubyte"

    @property
    def labels(self) -> str:
        return f"{self.prefix}-labels-idx1-ubyte"


TRAIN = _Pair(
    "train",
    "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
)
TEST = _Pair(
    "t10k",
    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)


def load_mnist(options: DataOptions) -> ImageData:
    """Images (1, 28, 28) uint8 from the IDX files in `options.data_dir`, plain or .gz.

    With both pairs of files, `train-*` is trained on and `t10k-*` is the test set. With
    `options.holdout` = N the last N samples of one pair are the test set and the others the
    training set; the pair is `train-*`, or `t10k-*` where that is all there is. Missing files are
    downloaded, unless `options.download` is False; when that fails: `DataMissingError`.
    """
    options.reject("mnist", "image_size", "grayscale", "skip_bad", "cache")
    folder = options.data_dir or DEFAULT_DIR
    if options.holdout:
        alone = _find(folder, TRAIN.images) is None and _find(folder, TEST.images) is not None
        everything = _load(folder, TEST if alone else TRAIN, options.download)
        count = len(everything)
        if options.holdout >= count:
            raise UsageError(
                f"[mnist] holdout {options.holdout} leaves nothing to train on: {folder} has "
                f"{count} images; give a smaller --holdout"
            )
        kept = count - options.holdout
        train: Dataset = Span(everything, 0, kept)
        test: Dataset = Span(everything, kept, options.holdout)
    else:
        train = _load(folder, TRAIN, options.download)
        test = _load(folder, TEST, options.download)
    shape, tested = (image_and_label(ds[0])[0].shape for ds in (train, test))
    if tested != shape:
        raise UsageError(
            f"[mnist] {folder}: training images are {shape}, test images {tested}; "
            "give files of one size"
        )
    return ImageData(
        name="mnist",
        train=train,
        test=test,
        classes=tuple(str(digit) for digit in range(10)),
        image_shape=shape,
    )


def _find(folder: Path, name: str) -> Path | None:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    return None


def _obtain(folder: Path, name: str, sha256: str, allowed: bool) -> Path:
    found = _find(folder, name)
    if found is not None:
        return found
    if not allowed:
        raise DataMissingError(
            f"[mnist] {folder} has no {name} or {name}.gz; put the file there, or allow the "
            "download. With only t10k-* files, give --holdout N to split them"
        )
    urls = [f"{mirror}{name}.gz" for mirror in MIRRORS]
    try:
        return download(urls, folder / f"{name}.gz", sha256=sha256, max_bytes=_MAX_DOWNLOAD)
    except DataMissingError as error:
        raise DataMissingError(
            f"[mnist] {folder} has no {name} or {name}.gz. {error}. "
            "With only t10k-* files, give --holdout N to split them"
        ) from None


def _load(folder: Path, pair: _Pair, allowed: bool) -> TensorDataset:
    images_path = _obtain(folder, pair.images, pair.images_sha256, allowed)
    labels_path = _obtain(folder, pair.labels, pair.labels_sha256, allowed)
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or images.dtype != ft.uint8 or images.size == 0:
        raise DataFileError(
            "mnist",
            images_path,
            f"images are {images.dtype} {images.shape}",
            "give uint8 images of shape (n, height, width), n >= 1",
        )
    count, height, width = images.shape
    if labels.shape != (count,) or labels.dtype != ft.uint8:
        raise DataFileError(
            "mnist",
            labels_path,
            f"labels are {labels.dtype} {labels.shape} for {count} images",
            f"give uint8 labels of shape ({count},), from the same set as the images",
        )
    labels = labels.astype(ft.int64)
    largest = int(labels.max().item())
    if largest > 9:
        raise DataFileError(
            "mnist", labels_path, f"has the label {largest}", "the labels of digits are 0 to 9"
        )
    return TensorDataset(images.reshape(count, 1, height, width), labels)
