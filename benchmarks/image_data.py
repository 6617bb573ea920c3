"""Data sets of images: drawn scenes, ways to store images, and COCO's annotations.

Claim: at least 500 scenes of 128 x 128 are drawn in a second. Images are JPEG files of 250 x 190,
decoded from a folder, a blob and tar shards; the peer is the same decoding by Pillow alone. COCO's
file has objects with polygons of 40 corners; the peer is ``json.load``, which makes Python objects
of all of it. Each row takes turns with its peer. Times are
of the processor, as no row has threads.

    python benchmarks/image_data.py [--rounds 9] [--json FILE]
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any

from _measure import environment, interleave, parsed, parser_of, report
from PIL import Image

import fl_vision.datasets as sets

Row = tuple[str, int, Callable[[], object], Callable[[], object]]


def scenes() -> Row:
    """Another scene in each call; its peer is one that was drawn before."""
    drawn, saved = sets.Scenes(1 << 40, cache_bytes=0), sets.Scenes(1)
    numbers = count()
    return "scene drawn (peer: drawn before)", 1, lambda: drawn[next(numbers)], lambda: saved[0]


def stored(folder: Path, images: int) -> Iterator[Row]:
    rng = random.Random(0)
    for number in range(images):
        path = folder / "photos" / f"n{number % 2}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = Image.frombytes("RGB", (25, 19), rng.randbytes(3 * 25 * 19)).resize((250, 190))
        pixels.save(path, quality=90)
    (folder / "labels.txt").write_text("n0,a\nn1,b\n")
    files = sets.ImageNet(folder / "photos", folder / "labels.txt")
    sets.write_image_blob(files, folder / "photos.blob")
    blob = sets.ImageBlob(folder / "photos.blob")
    shards = sets.ImageShards(sets.write_image_shards(files, folder / "shards"))
    cached = sets.CachedImages(files)

    def alone() -> None:
        for path in files.paths:
            with Image.open(path) as image:
                image.convert("RGB").tobytes()

    ways: dict[str, Any] = {"folder": files, "blob": blob, "tar shards": shards, "cached": cached}
    for name, ds in ways.items():
        yield f"JPEG, {name} (peer: Pillow)", images, lambda ds=ds: [0 for _ in ds], alone


def annotations(folder: Path, objects: int) -> Row:
    rng = random.Random(0)
    images = [
        {"id": n, "file_name": f"{n}.jpg", "height": 480, "width": 640} for n in range(objects // 7)
    ]
    found = [
        {
            "id": n,
            "image_id": rng.randrange(len(images)),
            "category_id": rng.randrange(80),
            "bbox": [round(rng.uniform(0, 300), 2) for _ in range(4)],
            "area": round(rng.uniform(0, 9000), 2),
            "iscrowd": 0,
            "segmentation": [[round(rng.uniform(0, 480), 2) for _ in range(80)]],
        }
        for n in range(objects)
    ]
    categories = [{"id": n, "name": str(n)} for n in range(80)]
    path = folder / "instances.json"
    content = {"images": images, "annotations": found, "categories": categories}
    path.write_text(json.dumps(content))

    def whole() -> object:
        with path.open("rb") as file:
            return json.load(file)

    name = "COCO objects (peer: json.load)"
    return name, objects, lambda: sets.CocoDetection(path, folder), whole


def main() -> None:
    given = parsed(parser_of(__doc__, 9))
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases = [
            scenes(),
            *stored(folder, 4 if given.tiny else 64),
            annotations(folder, 70 if given.tiny else 10_000),
        ]
        for case, samples, ours, peer in cases:
            seconds = interleave(
                {"ours": ours, "peer": peer}, given.rounds, given.moment, clock=process_time
            )
            rate, other = samples / seconds["ours"], samples / seconds["peer"]
            row = {"data": case, "ours, 1/s": rate, "peer, 1/s": other, "ours / peer": rate / other}
            rows.append(row)
    about = {**environment("fl-vision", "pillow"), "rounds": given.rounds}
    report(given, about, rows)


if __name__ == "__main__":
    main()
