"""Options of data sets, and their loading."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fl_vision.datasets import DataOptions, ImageData, dataset_names, load_dataset
from fl_vision.errors import UsageError

DATA_OPTIONS = (
    *("dataset", "data_dir", "holdout", "image_size", "grayscale", "split_seed"),
    "skip_bad",
)
#: So many bad files are named.
_SHOWN = 20


def data_settings(
    arguments: argparse.Namespace, stored: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The data options as plain values: what was given, else what `stored` says."""
    given = {name: getattr(arguments, name) for name in DATA_OPTIONS}
    if given["data_dir"] is not None:
        given["data_dir"] = str(given["data_dir"])
    if given["image_size"] is not None:
        given["image_size"] = list(given["image_size"])
    return {n: v if v is not None else (stored or {}).get(n) for n, v in given.items()}


def load_data(
    settings: Mapping[str, Any],
    download: bool,
    classes: tuple[str, ...] = (),
    cache: Path | None = None,
) -> ImageData:
    """The data set that `data_settings` describe; of these classes, all images are test images."""
    try:
        size = settings["image_size"]
        options = DataOptions(
            data_dir=None if settings["data_dir"] is None else _stored_path(settings["data_dir"]),
            holdout=settings["holdout"],
            image_size=None if size is None else (int(size[0]), int(size[1])),
            grayscale=bool(settings["grayscale"]),
            split_seed=int(settings["split_seed"] or 0),
            download=download,
            skip_bad=bool(settings.get("skip_bad")),
            classes=classes,
            cache=cache,
        )
    except (TypeError, ValueError, IndexError) as error:
        raise UsageError(
            f"[dataset] the checkpoint has malformed data options ({error}); "
            "give --dataset and its options"
        ) from error
    return load_dataset(str(settings["dataset"]), options)


def find_dataset(arguments: argparse.Namespace, source: str | None) -> None:
    """Read `source`, a name or a folder, into the options `dataset` and `data_dir`."""
    if source is None or source in dataset_names():
        arguments.dataset = arguments.dataset or source
        return
    folder = Path(source)
    if not folder.is_dir():
        raise UsageError(
            f"[data] {source}: is no folder and no data set; give a folder with a sub-folder for "
            f"each class, or one of {', '.join(dataset_names())}"
        )
    if arguments.data_dir is not None:
        raise UsageError(f"[data] {source} and --data-dir {arguments.data_dir}: give one of them")
    arguments.data_dir = folder
    arguments.dataset = arguments.dataset or _kind_of(folder)


def _kind_of(folder: Path) -> str:
    """The data set of the files in a folder."""
    if any(folder.glob("*-images-idx3-ubyte*")):
        return "mnist"
    if (folder / "labels.txt").is_file() and (folder / "train").is_dir():
        return "imagenet"
    if (folder / "train.blob").is_file():
        return "blobs"
    if any(folder.glob("data_batch_1*")) or (folder / "cifar-10-batches-bin").is_dir():
        return "cifar10"
    return "folder"


def data_lines(data: ImageData) -> list[str]:
    """How many images there are, and which files were left out."""
    count = f"{len(data.test)} test images, {len(data.classes)} classes"
    if len(data.train):
        count = f"{len(data.train)} training images, {count}"
    return [count, *([skipped_line(data.skipped)] if data.skipped else [])]


def unreadable(command: str, bad: Sequence[str], what: str = "files") -> str:
    """The error of files that cannot be read, with the first of their errors."""
    more = [f"and {len(bad) - _SHOWN} more"] if len(bad) > _SHOWN else []
    head = f"[{command}] {len(bad)} {what} cannot be read (--skip-bad leaves them out):"
    return "\n".join([head, *bad[:_SHOWN], *more])


def skipped_line(bad: Sequence[str]) -> str:
    """The files that were left out, each with its error."""
    return f"left out {len(bad)} files that cannot be read:\n" + "\n".join(bad)


def _stored_path(text: str) -> Path:
    # Written under one locale, read under another.
    return Path(os.fsdecode(text.encode("utf-8", "surrogateescape")))


def is_another(folder: Path | None, stored: Mapping[str, Any]) -> bool:
    before = stored.get("data_dir")
    return folder is not None and (
        before is None or folder.resolve() != _stored_path(before).resolve()
    )


def weights_line(weights: str) -> str:
    """The line before it: what the accuracy is of."""
    return f"weights of {weights}"


def accuracy_line(accuracy: float) -> str:
    """The last line of `train` and `eval`."""
    return f"test accuracy {accuracy:.4f}"
