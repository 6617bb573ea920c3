"""Images per second of decoding and augmentation beside torchvision: the same files and settings.

Claims: with full decoding, and for transforms alone, at least as many as torchvision; with reduced
decoding at least 1.2 times as many, where the files are large enough for it. Images are JPEG files
of quality 90. They are decoded by Pillow, a random window is resized to 224 x 224 (bilinear), half
of them are mirrored, two operations of RandAugment follow (bilinear, each with probability 1/2),
and levels are normalised. torchvision's RandAugment has other operations, a fixed magnitude, and
applies each one that it draws. So it is given one, as many as ours applies on average.

Rows: `transforms` are those of pictures that are decoded before; `full` decodes whole files;
`reduced` lets our side decode JPEGs at 1/2, 1/4 or 1/8, while a window keeps its resolution. With
workers ours are threads and torchvision's are processes, in both cases as many. Each library runs
in a process of its own, and the two take turns: a turn is one pass over the files.

    python benchmarks/image_pipeline.py [--images 1000] [--size 500 375] [--rounds 5] [--json FILE]
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import OneAtATime, Worker, environment, parsed, parser_of, report, serve, take_turns

CASES = ("transforms-0", "full-0", "reduced-0", "full-2", "reduced-2")
BATCH, SIDE = 32, 224
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
FOLDER = "IMAGE_PIPELINE_FOLDER"
#: How many pictures wait in memory for `transforms`.
DECODED = 100


def write_images(folder: Path, count: int, size: tuple[int, int]) -> None:
    """Coloured clouds with some grain: about as many bytes as a photograph of this size."""
    from PIL import Image

    rng = random.Random(0)
    (folder / "0").mkdir(parents=True)
    for number in range(count):
        clouds = Image.frombytes("RGB", (25, 19), rng.randbytes(3 * 25 * 19)).resize(size)
        grain = Image.frombytes("L", size, rng.randbytes(size[0] * size[1])).convert("RGB")
        Image.blend(clouds, grain, 0.08).save(folder / "0" / f"{number:05}.jpg", quality=90)


def _ours(case: str) -> Callable[[], object]:
    import fl_data as data
    import fl_tensor as ft
    import fl_vision as vision
    from fl_vision import transforms

    kind, _, workers = case.rpartition("-")
    folder = vision.ImageFolder(os.environ[FOLDER])
    crop = transforms.RandomResizedCrop((SIDE, SIDE))
    chain = transforms.Compose(
        (
            transforms.RandomHorizontalFlip(),
            transforms.RandAugment(interpolation="bilinear"),
            transforms.Normalise(MEAN, DEVIATION),
        )
    )
    if kind == "transforms":
        pictures = _decoded()
        generator = ft.Generator(0)
        whole = transforms.Compose((crop, *chain))
        return lambda: [whole(picture, generator) for picture in pictures] and len(pictures)
    crops = transforms.RandomResizedCrops(folder, crop, chain, reduced=kind == "reduced")
    loader = data.Prefetch(data.Batch(data.Shuffle(crops), BATCH), threads=int(workers))

    def epoch() -> int:
        loader.set_epoch(loader.epoch + 1)
        return sum(len(labels) for _, labels in loader)

    return epoch


def _torchvision(case: str) -> Callable[[], object]:
    import sys

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))
    import conftest

    conftest.pytest_configure()
    import torch
    from PIL import Image
    from torch.utils.data import DataLoader, Dataset
    from torchvision import transforms

    torch.set_num_threads(1)
    kind, _, workers = case.rpartition("-")
    bilinear = transforms.InterpolationMode.BILINEAR
    chain = transforms.Compose(
        [
            transforms.RandomResizedCrop(SIDE),
            transforms.RandomHorizontalFlip(),
            transforms.RandAugment(1, 27, interpolation=bilinear, fill=[124, 116, 104]),
            transforms.ToTensor(),
            transforms.Normalize(
                [level / 255.0 for level in MEAN], [level / 255.0 for level in DEVIATION]
            ),
        ]
    )
    if kind == "transforms":
        pictures = _decoded()
        return lambda: [chain(picture) for picture in pictures] and len(pictures)

    class Files(Dataset):  # type: ignore[misc]
        def __init__(self) -> None:
            self.paths = sorted(Path(os.environ[FOLDER]).rglob("*.jpg"))

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            with Image.open(self.paths[index]) as file:
                return chain(file.convert("RGB")), 0

    count = int(workers)
    loader = DataLoader(
        Files(), BATCH, shuffle=True, num_workers=count, persistent_workers=count > 0
    )
    return lambda: sum(len(labels) for _, labels in loader)


def _decoded() -> list[Any]:
    from PIL import Image

    paths = sorted(Path(os.environ[FOLDER]).rglob("*.jpg"))[:DECODED]
    return [Image.open(path).convert("RGB") for path in paths]


LIBRARIES = {"ours": _ours, "torchvision": _torchvision}


def main() -> None:
    parser = parser_of(__doc__, rounds=5)
    parser.add_argument("--only", nargs="+", default=CASES, choices=CASES, metavar="CASE")
    parser.add_argument("--images", type=int, default=1000, metavar="N")
    parser.add_argument(
        "--size", type=int, nargs=2, default=(500, 375), metavar=("WIDTH", "HEIGHT")
    )
    parser.add_argument("--serve", metavar="LIBRARY")
    given = parsed(parser)
    if given.serve:
        serve(OneAtATime(LIBRARIES[given.serve]))
        return
    count, size = (8, (60, 50)) if given.tiny else (given.images, tuple(given.size))
    names = ["ours"] if given.tiny else list(LIBRARIES)
    with tempfile.TemporaryDirectory() as folder:
        write_images(Path(folder), count, size)
        rows = [_row(case, names, given, folder, count, size) for case in given.only]
    about = environment("pillow", "numpy", "torch", "torchvision")
    report(given, about | {"images": count, "rounds": given.rounds}, rows, key=("case", "size"))


def _row(
    case: str, names: list[str], given: Any, folder: str, count: int, size: tuple[int, ...]
) -> dict[str, Any]:
    kind, _, workers = case.rpartition("-")
    processes = {name: Worker(name, tiny=given.tiny, **{FOLDER: folder}) for name in names}
    try:
        times = take_turns(processes, case, given.rounds, given.moment)
    finally:
        for worker in processes.values():
            worker.__exit__()
    if kind == "transforms":
        count = min(count, DECODED)
    rates = {name: count / seconds for name, seconds in times.items()}
    row: dict[str, Any] = {"case": kind, "workers": workers, "size": "x".join(map(str, size))}
    row["ours, images/s"] = rates["ours"]
    if "torchvision" in rates:
        row["torchvision, images/s"] = rates["torchvision"]
        row["ours / torchvision"] = rates["ours"] / rates["torchvision"]
    return row


if __name__ == "__main__":
    main()
