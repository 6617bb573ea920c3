"""`ImageData`, the result of every loader, and the options of loaders."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

import fl_tensor as ft
from fl_data import Dataset, Sample, Subset, random_split
from fl_tensor.annotations import Checked
from fl_vision.errors import DataFileError, UsageError


@dataclass(frozen=True)
class DataOptions(Checked):
    """What a loader may be told; a loader rejects what it has no use for."""

    data_dir: Path | None = None
    holdout: int | None = None
    image_size: tuple[int, int] | None = None
    grayscale: bool = False
    test_fraction: float = 0.2
    split_seed: int = 0
    download: bool = True
    skip_bad: bool = False
    #: A folder for decoded images: they are decoded once.
    cache: Path | None = None
    #: Of a trained network: then all images are test images.
    classes: tuple[str, ...] = ()

    def reject(self, loader: str, *names: str) -> None:
        """Raise `UsageError` for every option in `names` that was given."""
        given = [f"--{name.replace('_', '-')}" for name in names if getattr(self, name)]
        if given:
            raise UsageError(f"[{loader}] {', '.join(given)} has no meaning here; leave it out")

    def split(self, ds: Dataset, labels: Sequence[Hashable]) -> tuple[Subset, Subset]:
        """Training and test samples: `test_fraction` of each class, by `split_seed` alone.

        Raises `UsageError` if the fraction is not between 0 and 1, and `DataError` if a class has a
        single sample.
        """
        fraction = self.test_fraction
        if not 0 < fraction < 1:
            raise UsageError(f"[split] the test fraction is {fraction}; give one between 0 and 1")
        parts = (1 - fraction, fraction)
        train, test = random_split(ds, parts, stratify=labels, seed=self.split_seed)
        return train, test


@dataclass(frozen=True)
class ImageData:
    """A data set for classification, divided into training and test samples.

    A sample is `(image, label)`: a (C, H, W) uint8 tensor with levels 0 to `peak`, and a 0-d int64
    index into `classes`. All images have `image_shape`. `skipped` says what is wrong with files
    that were left out; `bad_files()` reads all of them, and gives the errors of those that are
    none. `valid` are samples to choose by, where the data set has them apart from the test samples.
    With `fit`, training images have sizes of their own, and this brings one to `image_shape`.
    """

    name: str
    train: Dataset
    test: Dataset
    classes: tuple[str, ...]
    image_shape: tuple[int, ...]
    peak: int = 255
    skipped: tuple[str, ...] = ()
    bad_files: Callable[[], Sequence[DataFileError]] = tuple
    valid: Dataset | None = None
    fit: Callable[[ft.Tensor], ft.Tensor] | None = None


def image_and_label(sample: Sample) -> tuple[ft.Tensor, ft.Tensor]:
    """The two fields of a sample, or of a batch of them. Raises `UsageError` for other samples."""
    if not isinstance(sample, tuple) or len(sample) != 2:
        raise UsageError(f"[images] a sample is a pair (image, label), got {type(sample).__name__}")
    image, label = sample
    return image, label


Loader = Callable[[DataOptions], ImageData]
