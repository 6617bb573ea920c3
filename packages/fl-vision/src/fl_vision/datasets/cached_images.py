"""`CachedImages`: pictures are decoded once, and kept as far as there is room."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import CachedTransform, Dataset, as_dataset, check_index
from fl_vision.datasets.labelled_files import ImageFiles
from fl_vision.errors import UsageError

DEFAULT_BYTES = 1 << 30


class CachedImages(Dataset):
    """The samples of `ds`, a data set of image files, with decoded pictures kept.

    At most `max_bytes` of pictures are kept, in memory or, where `folder` is given, in files that
    other processes and later runs find; those that were not asked for longest go first. What is
    kept is the picture that `ds` gives, so resampled ones (`size=` or `max_side=` of `ds`) take
    less. A picture is decoded again when its file has changed. Targets are not kept. In each worker
    process of `Prefetch` the memory is another one: give `folder` there.

    Raises `UsageError` for data without image files.
    """

    def __init__(
        self,
        ds: object,
        *,
        max_bytes: int = DEFAULT_BYTES,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(ds, ImageFiles):
            raise UsageError(
                f"[CachedImages] {type(ds).__name__} has no image files: give an ImageFolder, "
                "ImageNet, CocoDetection, BoxList or VocDetection"
            )
        self._ds, self.classes, self.paths = ds, ds.classes, ds.paths
        self._cached = CachedTransform(
            [(number,) for number in range(len(ds))],
            _Decode(ds),
            max_bytes=max_bytes,
            folder=folder,
            version="1",
            key=_Key(ds.paths, _options(ds)),
        )

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (as_dataset(self._ds),)

    def __len__(self) -> int:
        return len(self._ds)

    def image(self, index: int) -> ft.Tensor:
        """The picture (C, H, W) of sample `index`."""
        sample = self._cached[check_index(index, len(self), "CachedImages")]
        return tuple(sample)[0]

    def target(self, index: int) -> Any:
        """The label or `Target` of sample `index`."""
        return self._ds.target(index)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, Any]:
        return self.image(index), self.target(index)


@dataclass(frozen=True)
class _Decode:
    ds: ImageFiles

    def __call__(self, sample: Any) -> tuple[ft.Tensor]:
        return (self.ds.image(int(sample[0])),)


@dataclass(frozen=True)
class _Key:
    """What a picture is made of: its file, when that was changed, and how it is read."""

    paths: Any
    options: str

    def __call__(self, index: int) -> str:
        path = Path(self.paths[index])
        try:
            about = path.stat()
        except OSError:
            return f"{path} missing"  # reading it says so
        return f"{path.absolute()} {about.st_mtime_ns} {about.st_size} {self.options}"


def _options(ds: object) -> str:
    names = ("size", "max_side", "grayscale", "upright")
    return f"{type(ds).__name__} {[getattr(ds, name, None) for name in names]}"
