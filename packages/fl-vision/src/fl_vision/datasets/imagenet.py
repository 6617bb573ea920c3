"""ImageNet: a folder of images for each synset, and the names of the classes."""

from __future__ import annotations

from pathlib import Path

import fl_tensor as ft
from fl_data import Dataset, Transform, check_index
from fl_tensor.annotations import check, checked
from fl_tensor.files import open_regular
from fl_vision.datasets.cached_images import CachedImages
from fl_vision.datasets.folder import MAX_FILES
from fl_vision.datasets.image_data import DataOptions, ImageData
from fl_vision.errors import DataFileError, DataMissingError, UsageError
from fl_vision.images import read_image, require_size
from fl_vision.transforms.crops import CenterCrop
from fl_vision.transforms.resize import ResizeShortestSide
from fl_vision.transforms.transform import Compose

PATTERN = "*.JPEG"
_MAX_LABELS = 16 << 20


@checked
def read_labels(path: str | Path) -> dict[str, str]:
    """The names of synsets: lines `synset,name`, where the number of the line, from 0, is the
    class. A name may have commas. Blank lines at the end are left out.

    Raises `DataMissingError` for a missing file, and `DataFileError` naming file and line for a
    line without a comma, without a synset, and with one that another line has.
    """
    try:
        with open_regular(path) as file:
            content = file.read(_MAX_LABELS + 1)
    except FileNotFoundError:
        raise DataMissingError(
            f"[labels] {path}: no such file; write one with a line synset,name for each class"
        ) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DataFileError("labels", path, problem, "check the path") from None
    if len(content) > _MAX_LABELS:
        raise DataFileError("labels", path, f"more than {_MAX_LABELS} bytes", "check the path")
    try:
        lines = content.decode("utf-8-sig").rstrip().splitlines()
    except UnicodeDecodeError as error:
        problem = f"is no UTF-8 ({error.reason})"
        raise DataFileError("labels", path, problem, "save it as UTF-8") from None
    names: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        synset, comma, name = line.partition(",")
        synset = synset.strip()
        problem = "" if comma and synset else "has no comma" if not comma else "has no synset"
        if not problem and synset in names:
            problem = f"has the synset {synset!r} of another line"
        if problem:
            raise DataFileError(
                "labels", path, f"line {number}: {line[:60]!r} {problem}", "write synset,name"
            )
        names[synset] = name.strip()
    if not names:
        raise DataFileError("labels", path, "has no lines", "write synset,name for each class")
    return names


class ImageNet(Dataset):
    """Samples `(image (3, H, W) uint8, label)` of `root/{synset}/*.JPEG`, sorted by path.

    Classes are the lines of `labels`, a file `synset,name` (`read_labels`); `classes` are the
    names, `synsets` the folders. Without `size` images have their own sizes, for transforms that
    cut one size out of them; with `size` (height, width) they are resampled. `pattern` is what
    names of images match. Training and validation folders have the same layout and take the same
    `labels`.

    Raises `DataMissingError` for a missing folder and for classes without images, unless
    `allow_empty`, and `UsageError` for a folder that no line of `labels` names.
    """

    def __init__(
        self,
        root: str | Path,
        labels: str | Path,
        *,
        size: tuple[int, int] | None = None,
        pattern: str = PATTERN,
        allow_empty: bool = False,
    ) -> None:
        check("ImageNet", ImageNet.__init__, (self, root, labels), {"pattern": pattern})
        if size is not None:
            require_size(size)
        if not pattern or "/" in pattern or "\0" in pattern:
            raise UsageError(f"[imagenet] pattern {pattern!r}: give one of file names, '*.JPEG'")
        self.root, self.size, self.grayscale, self.upright = Path(root), size, False, True
        names = read_labels(labels)
        self.synsets, self.classes = tuple(names), tuple(names.values())
        try:
            found = {p.name for p in self.root.iterdir() if p.is_dir() and p.name[0] != "."}
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DataMissingError(
                f"[imagenet] {root}: {reason}; give a folder with one folder per synset"
            ) from None
        if unknown := sorted(found - set(names)):
            raise UsageError(
                f"[imagenet] {root} has the folder {unknown[0]!r}, which {labels} does not name; "
                "add a line, or remove the folder"
            )
        self.paths: list[Path] = []
        self.labels: list[int] = []
        empty = []
        for label, synset in enumerate(self.synsets):
            paths = sorted((self.root / synset).glob(pattern)) if synset in found else []
            if not paths:
                empty.append(synset)
            self.paths += paths
            self.labels += [label] * len(paths)
            if len(self.paths) > MAX_FILES:
                raise DataMissingError(f"[imagenet] {root}: more than {MAX_FILES} images")
        if empty and not allow_empty:
            raise DataMissingError(
                f"[imagenet] {root}: {len(empty)} classes have no image {pattern} (first: "
                f"{', '.join(empty[:3])}); add images, or give allow_empty=True"
            )

    def __len__(self) -> int:
        return len(self.paths)

    def image(self, index: int) -> ft.Tensor:
        """The picture (3, H, W) of sample `index`."""
        return read_image(self.paths[check_index(index, len(self), "ImageNet")], size=self.size)

    def target(self, index: int) -> ft.Tensor:
        """The label of sample `index`, 0-d int64."""
        number = check_index(index, len(self), "ImageNet")
        return ft.asarray(self.labels[number], dtype=ft.int64)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, ft.Tensor]:
        return self.image(index), self.target(index)

    def __repr__(self) -> str:
        return f"ImageNet({str(self.root)!r}, {len(self)} images, {len(self.classes)} classes)"


def load_imagenet(options: DataOptions) -> ImageData:
    """`train/` and `val/` of `options.data_dir`, with a folder per synset, and `labels.txt` beside
    them. Images for testing are the middle of a picture, of `options.image_size`, 224 x 224 if it
    is not given; images for training have sizes of their own.
    """
    options.reject("imagenet", "holdout", "grayscale", "skip_bad")
    root = options.data_dir
    if root is None:
        raise UsageError("[imagenet] which folder? Give one with train/, val/ and labels.txt")
    size = options.image_size or (224, 224)
    fit = Compose((ResizeShortestSide(max(size) * 256 // 224), CenterCrop(size)))
    train, test = (ImageNet(root / name, root / "labels.txt") for name in ("train", "val"))

    def cached(images: ImageNet) -> Dataset:
        return images if options.cache is None else CachedImages(images, folder=options.cache)

    return ImageData(
        name="imagenet",
        train=cached(train),
        test=Transform(cached(test), fields={0: fit}),
        classes=train.classes,
        image_shape=(3, *size),
        fit=fit,
    )
