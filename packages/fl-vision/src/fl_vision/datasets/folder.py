"""A folder of images, one sub-folder per class."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import fl_tensor as ft
from fl_data import Dataset, Subset, check_index, decoded_file_name
from fl_vision.datasets.cached_images import CachedImages
from fl_vision.datasets.image_data import DataOptions, ImageData
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.images import SUFFIXES, read_image, require_size

MAX_FILES = 5_000_000
TESTS = ("test", "val", "valid", "validation")
"""Names of a folder of test images beside `train`; the first that is there."""


class ImageFolder(Dataset):
    """Samples `(image, label)` read from disk on demand; all images have one size.

    Classes are the sub-folders of `root` in sorted order, or `classes` if given (a sub-folder that
    is not among them is an error). Samples are the image files in each (by suffix, also in deeper
    folders), sorted by path; hidden files and folders are skipped. Without `size`, every image
    must have the size of the first. `grayscale` and `upright` are those of `read_image`. With
    `skip_bad` every file is read now, and those that are no images of that size are left out:
    `skipped` has their errors.

    Raises `UsageError` where the sub-folders hold nothing but folders of images, as `train/` and
    `val/` do: then one of them is meant. Raises `DataMissingError` for a class without images, and
    `DataFileError` for a folder that may not be read.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        size: tuple[int, int] | None = None,
        grayscale: bool = False,
        upright: bool = True,
        classes: Sequence[str] | None = None,
        skip_bad: bool = False,
    ) -> None:
        self.root = Path(root)
        if "\0" in str(root):
            raise UsageError(f"[folder] {str(root)!r} is no path")
        if size is not None:
            require_size(size)
        self.grayscale = grayscale
        self.upright = upright
        found = {decoded_file_name(name): name for name in _subfolders(self.root)}
        self.classes = tuple(sorted(found) if classes is None else classes)
        unknown = sorted(set(found) - set(self.classes))
        if unknown:
            raise UsageError(
                f"[folder] {self.root} has the class {unknown[0]!r}, which is not among "
                f"{', '.join(self.classes)}; remove it, or train with it"
            )
        self.paths: list[Path] = []
        self.labels: list[int] = []
        for label, name in enumerate(self.classes):
            paths = image_files(self.root / found[name]) if name in found else []
            self.paths += paths
            self.labels += [label] * len(paths)
            if classes is None and not paths:
                raise DataMissingError(
                    f"[folder] {self.root / name}: no image in this class "
                    f"({', '.join(sorted(SUFFIXES))}); add some, or remove the folder"
                )
        if not self.paths:
            raise DataMissingError(f"[folder] {self.root}: no image in any class folder; add some")
        if classes is None:
            self._refuse_nested()
        self._resize = size
        self.skipped: list[DataFileError] = []
        self.size: tuple[int, int] = size or self._first_size(skip_bad)
        if skip_bad:
            self.skipped = self.bad_files()
            bad = {error.path for error in self.skipped}
            kept = [(p, n) for p, n in zip(self.paths, self.labels, strict=True) if p not in bad]
            self.paths, self.labels = [p for p, _ in kept], [n for _, n in kept]
            if not kept:
                raise DataMissingError(f"[folder] {self.root}: no image can be read; replace them")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, ft.Tensor]:
        return self.image(index), self.target(index)

    def image(self, index: int) -> ft.Tensor:
        """The picture (C, H, W) of sample `index`."""
        path = self.paths[check_index(index, len(self.paths), "ImageFolder")]
        image = self._read(path)
        if image.shape[1:] != self.size:
            raise DataFileError(
                "folder",
                path,
                f"is {_by(image.shape[1:])}, {self.paths[0]} is {_by(self.size)}",
                "give --image-size HxW to bring all images to one size",
            )
        return image

    def target(self, index: int) -> ft.Tensor:
        """The label of sample `index`, 0-d int64."""
        number = check_index(index, len(self.paths), "ImageFolder")
        return ft.asarray(self.labels[number], dtype=ft.int64)

    def _first_size(self, skip_bad: bool) -> tuple[int, int]:
        for path in self.paths:
            try:
                _, height, width = self._read(path).shape
            except DataFileError:
                if not skip_bad:
                    raise
                continue
            return height, width
        raise DataMissingError(f"[folder] {self.root}: no image can be read; replace them")

    def _read(self, path: Path) -> ft.Tensor:
        return read_image(path, size=self._resize, grayscale=self.grayscale, upright=self.upright)

    def _refuse_nested(self) -> None:
        inside: dict[str, set[str]] = {name: set() for name in self.classes}
        for path, label in zip(self.paths, self.labels, strict=True):
            _, *below = path.relative_to(self.root).parts
            if len(below) == 1:
                return
            inside[self.classes[label]].add(below[0])
        if all(len(names) > 1 for names in inside.values()):
            first = self.classes[0]
            raise UsageError(
                f"[folder] {self.root}: {', '.join(self.classes)} hold no images, only folders: "
                f"give {self.root / first}, or train/ and test/ (or val/) as their names"
            )

    def bad_files(self) -> list[DataFileError]:
        """The errors of all images that cannot be read or have another size; reads every file."""
        found = []
        for number in range(len(self)):
            try:
                self[number]
            except DataFileError as error:
                found.append(error)
        return found

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.root)!r}, {len(self)} images, {len(self.classes)} classes)"


def load_folder(options: DataOptions) -> ImageData:
    """The images below `options.data_dir`, resized to `options.image_size` if that is given.

    `train/` beside `test/`, `val/`, `valid/` or `validation/` (each with one sub-folder per class)
    are taken as they are; with two of the latter, the second one is `valid`. Otherwise the
    sub-folders are the classes and a seeded 80/20 split keeps them in proportion. With
    `options.skip_bad` images that cannot be read are left out. With `options.classes`, those of a
    trained network, all images are test images, or those of `test/`.
    """
    options.reject("folder", "holdout")
    root = options.data_dir
    if root is None:
        raise UsageError("[folder] which folder? Give --data-dir DIR with one sub-folder per class")
    size, classes = options.image_size, options.classes or None
    make = partial(ImageFolder, grayscale=options.grayscale, skip_bad=options.skip_bad)
    tests = [root / name for name in TESTS if (root / name).is_dir()]
    train: Dataset
    test: Dataset
    valid: Dataset | None = None

    def cached(images: ImageFolder) -> Dataset:
        return images if options.cache is None else CachedImages(images, folder=options.cache)

    if classes is not None:
        learned = make(tests[0] if tests else root, size=size, classes=classes)
        train, test, folders = Subset(learned, []), cached(learned), [learned]
    elif (root / "train").is_dir() and tests:
        learned = make(root / "train", size=size)
        held = [make(t, size=size or learned.size, classes=learned.classes) for t in tests[:2]]
        learned.skipped += [error for each in held for error in each.skipped]
        train, test = cached(learned), cached(held[0])
        valid = cached(held[1]) if len(held) > 1 else None
        folders = [learned, *held]
    else:
        learned = make(root, size=size)
        names = [learned.classes[label] for label in learned.labels]
        (train, test), folders = options.split(cached(learned), names), [learned]
    if len(learned.classes) < 2:
        raise UsageError(
            f"[folder] {root} has the one class {learned.classes[0]!r}; two or more are needed"
        )
    return ImageData(
        name="folder",
        train=train,
        test=test,
        classes=learned.classes,
        image_shape=(1 if options.grayscale else 3, *learned.size),
        skipped=tuple(map(str, learned.skipped)),
        bad_files=partial(_bad_files, folders),
        valid=valid,
    )


def _bad_files(folders: Sequence[ImageFolder]) -> list[DataFileError]:
    return [error for folder in folders for error in folder.bad_files()]


def _subfolders(root: Path) -> list[str]:
    try:
        names = [e.name for e in root.iterdir() if e.is_dir() and not e.name.startswith(".")]
    except OSError as error:
        raise DataMissingError(
            f"[folder] {root}: {error.strerror or error}; give a folder with one sub-folder "
            "per class"
        ) from None
    if not names:
        raise DataMissingError(f"[folder] {root}: no sub-folders; make one per class")
    return sorted(names)


def image_files(folder: Path) -> list[Path]:
    """The image files of a class, in order. Raises `DataFileError` for a folder in it that may not
    be read: its images would be missing in silence."""
    if not folder.is_dir():
        return []
    found: list[Path] = []
    for place, folders, names in os.walk(folder, onerror=_unreadable):
        if not os.access(place, os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            _unreadable(PermissionError(errno.EACCES, os.strerror(errno.EACCES), place))
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(place, name) for name in names if not name.startswith("."))
        found += [path for path in paths if path.suffix.lower() in SUFFIXES and path.is_file()]
        if len(found) > MAX_FILES:
            raise DataMissingError(f"[folder] {folder}: more than {MAX_FILES} images; split it up")
    return sorted(found)


def _unreadable(error: OSError) -> None:
    raise DataFileError(
        "folder",
        str(error.filename),
        f"unreadable folder ({error.strerror or error})",
        "check its permissions, or hide it by a dot before its name",
    ) from None


def _by(size: Sequence[int]) -> str:
    return " x ".join(str(extent) for extent in size)
