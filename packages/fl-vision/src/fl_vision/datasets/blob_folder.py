"""A folder of blobs of images: `train.blob` beside `test.blob`, `val.blob` or both."""

from __future__ import annotations

from os.path import isdir, isfile  # unlike those of Path, for names of any length
from pathlib import Path

from fl_tensor.annotations import checked
from fl_vision.datasets.folder import TESTS, ImageFolder
from fl_vision.datasets.image_blob import ImageBlob, write_image_blob
from fl_vision.datasets.image_data import DataOptions, ImageData
from fl_vision.datasets.imagenet import ImageNet
from fl_vision.errors import DataFileError, DataMissingError, UsageError

SUFFIX = ".blob"


@checked
def write_blobs(source: str | Path, folder: str | Path) -> dict[Path, int]:
    """Write `train.blob` and those of `test`, `val`, ... into `folder`, for `load_blobs`; the
    number of images of each. `source` has a folder of these names for each, with a sub-folder for
    each class; with `labels.txt` in it these are synsets. Images stay encoded.

    Raises `DataMissingError` without `train` and one of the others, `UsageError` where `folder`
    cannot be made, and as `write_image_blob`.
    """
    root, out, classes = Path(source), Path(folder), None
    splits = [name for name in ("train", *TESTS) if isdir(root / name)]
    if len(splits) < 2 or splits[0] != "train":
        raise DataMissingError(
            f"[blobs] {root}: no train/ beside one of {', '.join(f'{name}/' for name in TESTS)}; "
            "divide the images between them"
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"[blobs] {out}: {reason}; give a folder to write into") from None
    written = {}
    for name in splits:
        images: ImageFolder | ImageNet
        if isfile(root / "labels.txt"):
            images = ImageNet(root / name, root / "labels.txt")
        else:
            images = ImageFolder(root / name, classes=classes)
        classes = images.classes
        written[out / f"{name}{SUFFIX}"] = write_image_blob(images, out / f"{name}{SUFFIX}")
    return written


def load_blobs(options: DataOptions) -> ImageData:
    """`train.blob` and `test.blob`, or `val.blob`, of `options.data_dir`; with both, the second is
    `valid`. All images have `options.image_size`, or else the size of the first.

    Raises `DataMissingError` for files that are not there, `DataFileError` for one of other
    classes, `fl_data.BlobError` for one that is damaged.
    """
    options.reject("blobs", "holdout", "skip_bad", "cache")
    root = options.data_dir
    if root is None:
        raise UsageError("[blobs] which folder? Give --data-dir DIR with train.blob and test.blob")
    splits = [name for name in ("train", *TESTS) if isfile(root / f"{name}{SUFFIX}")]
    if len(splits) < 2 or splits[0] != "train":
        raise DataMissingError(
            f"[blobs] {root}: no train.blob beside test.blob or val.blob; fl-vision prepare blobs "
            "writes them"
        )
    size = options.image_size
    found: list[ImageBlob] = []
    for name in splits[:3]:
        path = root / f"{name}{SUFFIX}"
        blob = ImageBlob(path, size=size, grayscale=options.grayscale)
        if not len(blob):
            raise DataFileError("blobs", path, "holds no images", "write it of a folder with some")
        if size is None:
            _, height, width = blob.image(0).shape
            size = (height, width)
            blob = ImageBlob(path, size=size, grayscale=options.grayscale)
        if found and blob.classes != found[0].classes:
            problem = f"has other classes than train{SUFFIX}"
            raise DataFileError("blobs", path, problem, "write all of them at once")
        found.append(blob)
    assert size is not None
    return ImageData(
        name="blobs",
        train=found[0],
        test=found[1],
        classes=found[0].classes,
        image_shape=(1 if options.grayscale else 3, *size),
        valid=found[2] if len(found) > 2 else None,
    )
