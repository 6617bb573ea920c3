"""Images with boxes in tar archives: `key.jpg` and `key.json` for each image."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Dataset, ShardStream, check_count
from fl_tensor import untrusted_json
from fl_tensor.annotations import checked
from fl_tensor.arguments import seed_of
from fl_vision.datasets.coco_writer import picture_of_pixels
from fl_vision.datasets.detection import BoxFiles, DetectionDataset
from fl_vision.datasets.labelled_files import contents
from fl_vision.datasets.tar_shards import TarSamples, require_names, write_archives
from fl_vision.datasets.target import Target
from fl_vision.errors import DataFileError, UsageError
from fl_vision.images import SUFFIXES, decode_image

#: Fields with a value for each object, and what is taken where a file leaves one out.
_PER_OBJECT = ("boxes", "labels", "areas", "crowd")


@checked
def write_detection_shards(
    data: DetectionDataset, folder: str | Path, *, per_shard: int = 1000, seed: int | None = None
) -> list[Path]:
    """Put images with boxes into archives `shard-000000.tar` of `per_shard` images each, for
    `DetectionShards`; their paths.

    Image files stay encoded; pictures of data without files, and shrunk ones, become PNG. Masks and
    segmentations are left out. With a `seed` images are in a random order that depends on it alone,
    without in the order of `data`. `classes.txt` beside the archives has a line for each class.

    Raises `UsageError` for a class with a line break, `DataFileError` and `DataMissingError` for
    files that cannot be read, and `fl_tensor.FileError` where nothing can be written.
    """
    where = "write_detection_shards"
    check_count(per_shard, "per_shard", where, least=1)
    require_names(data.classes, where)
    order: Sequence[int] = range(len(data))
    if seed is not None:
        order = ft.Generator(seed_of(where, seed)).permutation(len(data)).tolist()
    return write_archives(_samples(data, order), Path(folder), per_shard, data.classes)


def _samples(data: DetectionDataset, order: Sequence[int]) -> Iterator[dict[str, bytes]]:
    for number in order:
        target = data.target(number)
        described = json.dumps(_described(target), separators=(",", ":")).encode()
        if isinstance(data, BoxFiles) and data.max_side is None:
            ((path, content, _),) = contents([data.paths[number]], [0])
            yield {path.suffix.lower()[1:]: content, "json": described}
        else:
            file = io.BytesIO()
            picture_of_pixels(data.image(number), number).save(file, "PNG", compress_level=1)
            yield {"png": file.getvalue(), "json": described}


def _described(target: Target) -> dict[str, Any]:
    found: dict[str, Any] = {"image_id": target.image_id}
    found |= {name: getattr(target, name).tolist() for name in _PER_OBJECT}
    if target.difficult is not None:
        found["difficult"] = target.difficult.tolist()
    return found


class DetectionShard(Dataset):
    """Samples `(image (C, H, W) uint8, Target)` of one archive: see `DetectionShards`."""

    def __init__(self, path: str | Path, classes: int) -> None:
        self._samples, self._classes = TarSamples(path), classes

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[ft.Tensor, Target]:
        sample = self._samples[index]
        where = f"{self._samples.path}: {sample['key']}"
        for suffix in sample:
            if f".{suffix.lower()}" in SUFFIXES:
                image = decode_image(sample[suffix], name=f"{where}.{suffix}", upright=False)
                return image, _target(sample, where, image.shape[1:], self._classes)
        raise DataFileError("tar", where, f"no image among {', '.join(sample)}", "add one")


class DetectionShards(ShardStream):
    """A stream of samples `(image (C, H, W) uint8, Target)` of tar archives, one after the other.

    For each image an archive has a file of a known suffix (`.jpg`, `.png`, ...) and `.json` with
    `boxes`, a list of left, top, right, bottom in pixels, and `labels`, numbers of `classes`.
    `areas`, `crowd`, `difficult` and `image_id` may be there. Images are not turned as EXIF data
    says: boxes are for them as they are stored. `shuffle`, `seed`, `rank` and `world_size` are
    those of `fl_data.ShardStream`. A resumed pass goes on at the exact sample, at once. Batches are
    `stream.batch(n, collate=detection_collate)`.

    Raises `UsageError` for no paths or classes; at the sample `DataMissingError` and
    `DataFileError` as `TarSamples`, and, naming the key, for a sample without image, and for
    objects that are malformed, of unknown classes, without area, or not inside the image.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        classes: Sequence[str],
        *,
        shuffle: bool = True,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if isinstance(paths, str | Path) or not paths:
            raise UsageError(f"[DetectionShards] {paths!r}: give a list of archives, at least one")
        if isinstance(classes, str) or not classes or not all(isinstance(c, str) for c in classes):
            raise UsageError(f"[DetectionShards] classes {classes!r}: give names, at least one")
        self.classes = tuple(classes)
        make = partial(DetectionShard, classes=len(self.classes))
        super().__init__(
            list(paths), make, shuffle=shuffle, seed=seed, rank=rank, world_size=world_size
        )


def _target(sample: Mapping[str, Any], where: str, size: Sequence[int], classes: int) -> Target:
    """The objects of a sample, checked: the archive may be anybody's."""

    def wrong(problem: str) -> DataFileError:
        remedy = "write .json with boxes [[left, top, right, bottom], ...] and labels [0, ...]"
        return DataFileError("tar", where, problem, remedy)

    try:
        given = untrusted_json.parse(sample["json"]) if "json" in sample else None
    except ValueError as error:
        raise wrong(f"its .json is no JSON ({error})") from None
    if not isinstance(given, dict) or not {"boxes", "labels"} <= set(given):
        raise wrong("no .json with 'boxes' and 'labels'")
    boxes, labels = given["boxes"], given["labels"]
    if not isinstance(boxes, list) or not all(_is_box(box, size) for box in boxes):
        raise wrong(f"boxes that are none, or not inside an image of {size[0]} x {size[1]}")
    number = len(boxes)
    areas = given.get("areas", [(b[2] - b[0]) * (b[3] - b[1]) for b in boxes])
    flags = {name: given.get(name, [False] * number) for name in ("crowd", "difficult")}
    if not _is_list(labels, number, lambda x: type(x) is int and 0 <= x < classes):
        raise wrong(f"labels that are not {number} numbers below {classes}")
    if not _is_list(areas, number, lambda x: _is_number(x) and x >= 0):
        raise wrong(f"areas that are not {number} numbers of at least 0")
    for name, values in flags.items():
        if not _is_list(values, number, lambda x: x in (0, 1)):
            raise wrong(f"{name} is not {number} flags")
    image_id = given.get("image_id", sample["key"])
    if type(image_id) not in (int, str):
        raise wrong("image_id is no number and no text")
    crowd, difficult = (ft.asarray(list(map(bool, flags[n])), dtype=ft.bool).reshape(number)
                        for n in ("crowd", "difficult"))  # fmt: skip
    return Target(
        boxes=ft.asarray(boxes, dtype=ft.float32).reshape(number, 4),
        labels=ft.asarray(labels, dtype=ft.int64).reshape(number),
        areas=ft.asarray(areas, dtype=ft.float32).reshape(number),
        crowd=crowd,
        image_id=image_id,
        original_size=(size[0], size[1]),
        difficult=difficult if "difficult" in given else None,
    )


def _is_list(value: object, length: int, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) == length and all(map(fits, value))


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < 1e15  # type: ignore[arg-type]


def _is_box(box: object, size: Sequence[int]) -> bool:
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)):
        return False
    left, top, right, bottom = box
    return 0 <= left < right <= size[1] and 0 <= top < bottom <= size[0]
