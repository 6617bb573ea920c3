"""`ImageFiles`, the interface that writers and caches take, and contents of image files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import fl_tensor as ft
from fl_tensor.files import open_regular
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.images import MAX_FILE_BYTES


@runtime_checkable
class ImageFiles(Protocol):
    """A data set of image files: `ImageFolder`, `ImageNet`, `CocoDetection` and its kind."""

    paths: Sequence[Path]
    classes: tuple[str, ...]

    def __len__(self) -> int: ...

    def image(self, index: int) -> ft.Tensor: ...

    def target(self, index: int) -> Any: ...


def require_labels(data: object, where: str) -> tuple[Sequence[Path], Sequence[int], Sequence[str]]:
    """Paths, labels and classes of a data set of image files with one label each. Raises
    `UsageError` for others."""
    labels = getattr(data, "labels", None)
    if not isinstance(data, ImageFiles) or not isinstance(labels, list):
        raise UsageError(
            f"[{where}] {type(data).__name__} has no image files with labels: give an ImageFolder "
            "or ImageNet"
        )
    return data.paths, labels, data.classes


def contents(paths: Sequence[Path], labels: Sequence[int]) -> Iterator[tuple[Path, bytes, int]]:
    """Path, content and label of each image; the content is not decoded."""
    for path, label in zip(paths, labels, strict=True):
        try:
            with open_regular(path) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            raise DataMissingError(f"[image] {path}: no such file; check the path") from None
        except OSError as error:
            problem = f"cannot be read ({error.strerror or error})"
            raise DataFileError("image", path, problem, "check its permissions") from None
        if len(content) > MAX_FILE_BYTES:
            problem = f"more than {MAX_FILE_BYTES} bytes"
            raise DataFileError("image", path, problem, "make the image smaller, or remove it")
        yield path, content, label
