"""Small COCO files for the tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

SIZES = {7: (30, 40), 3: (20, 50), 9: (10, 10)}
"""(height, width) of three images by id; the last has no objects."""


def instances(**changes: Any) -> dict[str, Any]:
    """The content of an instances file with three images, two categories, and three objects."""
    content: dict[str, Any] = {
        "version": 1234567890123,
        "info": {"description": "für Tests", "list": [1, [2]]},
        "images": [
            {"id": id, "file_name": f"bild_ü{id}.png", "height": height, "width": width}
            for id, (height, width) in SIZES.items()
        ],
        "annotations": [
            {"id": 1, "image_id": 3, "category_id": 90, "bbox": [10, 2, 20.5, 10], "area": 150.25},
            {"id": 2, "image_id": 7, "category_id": 4, "bbox": [0, 0, 40, 30], "iscrowd": 1},
            {"id": 3, "image_id": 3, "category_id": 4, "bbox": [1, 1, 3, 5], "iscrowd": 0},
        ],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 4, "name": "motorcycle"}],
    }
    return {**content, **changes}


def with_object(**changes: Any) -> dict[str, Any]:
    """The same with one more object, number 3."""
    one = {"id": 10, "image_id": 7, "category_id": 4, "bbox": [1, 2, 3, 4], **changes}
    content = instances()
    content["annotations"].append({k: v for k, v in one.items() if v is not ...})
    return content


def write(folder: Path, content: Mapping[str, Any] | None = None) -> tuple[Path, Path]:
    """Write the JSON file and its images; the paths of the file and the folder of images."""
    folder.mkdir(exist_ok=True)
    for id, (height, width) in SIZES.items():
        Image.new("RGB", (width, height), (id, 2 * id, 3 * id)).save(folder / f"bild_ü{id}.png")
    path = folder / "instances.json"
    path.write_text(json.dumps(content or instances(), ensure_ascii=False), encoding="utf-8")
    return path, folder
