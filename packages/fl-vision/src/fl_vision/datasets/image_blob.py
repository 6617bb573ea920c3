"""Images of a folder in one file, as they are encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Dataset, FileBlob, check_index
from fl_tensor.annotations import checked
from fl_vision.datasets.labelled_files import contents, require_labels
from fl_vision.errors import DataFileError
from fl_vision.images import decode_image, require_size


@checked
def write_image_blob(data: Any, path: str | Path) -> int:
    """Put the image files of `data`, an `ImageFolder` or `ImageNet`, into a `FileBlob` for
    `ImageBlob`; how many there are. They stay encoded, and are not decoded for this.

    Raises `UsageError` for other data, `DataFileError` and `DataMissingError` for files that cannot
    be read, and `fl_data.BlobError` for a path that cannot be written.
    """
    paths, labels, classes = require_labels(data, "write_image_blob")
    with FileBlob(path, "w") as blob:
        blob.add({"classes": list(classes)})
        for place, content, label in contents(paths, labels):
            blob.add({"image": content, "label": label, "name": place.name})
    return len(paths)


class ImageBlob(Dataset):
    """Samples `(image (C, H, W) uint8, label)` of a file that `write_image_blob` wrote.

    `size`, `grayscale` and `upright` are those of `read_image`. Without `size` images have their
    own sizes. Raises `fl_data.BlobError` for a file that is damaged or missing, and `DataFileError`
    for a blob of other samples.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        size: tuple[int, int] | None = None,
        grayscale: bool = False,
        upright: bool = True,
    ) -> None:
        if size is not None:
            require_size(size)
        self.path = Path(path)
        self._blob = FileBlob(self.path)
        self._options: dict[str, Any] = dict(size=size, grayscale=grayscale, upright=upright)
        classes = self._field(0, "classes", list) if len(self._blob) else None
        if not classes or not all(isinstance(name, str) for name in classes):
            raise self._error("holds no images with classes")
        self.classes: tuple[str, ...] = tuple(classes)

    def __len__(self) -> int:
        return len(self._blob) - 1

    def image(self, index: int) -> ft.Tensor:
        """The picture (C, H, W) of sample `index`."""
        number = check_index(index, len(self), "ImageBlob")
        name = f"{self.path}: image {number} ({self._field(number + 1, 'name', str)})"
        return decode_image(self._field(number + 1, "image", bytes), name=name, **self._options)

    def target(self, index: int) -> ft.Tensor:
        """The label of sample `index`, 0-d int64."""
        number = check_index(index, len(self), "ImageBlob")
        label = self._field(number + 1, "label", int)
        if label not in range(len(self.classes)):
            raise self._error(f"image {number} has the label {label} of {len(self.classes)}")
        return ft.asarray(label, dtype=ft.int64)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, ft.Tensor]:
        return self.image(index), self.target(index)

    def _field(self, row: int, name: str, kind: type) -> Any:
        sample = self._blob.raw(row)
        value = sample.get(name) if isinstance(sample, dict) else None
        if not isinstance(value, kind):
            raise self._error(f"sample {row} has no {name!r}")
        return value

    def _error(self, problem: str) -> DataFileError:
        return DataFileError("blob", self.path, problem, "write it by write_image_blob")

    def __repr__(self) -> str:
        return f"ImageBlob({str(self.path)!r}, {len(self)} images, {len(self.classes)} classes)"
