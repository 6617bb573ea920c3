"""Networks by name and data sets of the program fl-vision."""

from __future__ import annotations

from bad_values import value
from cases import Target
from targets.making import target
from targets.vision_models import COUNTS, SIZES

TARGETS: list[Target] = [
    target(
        "vision.models.create_network",
        {"name": "cnn", "classes": 3, "image_shape": (1, 8, 8), "options": {}},
        name=[*map(value, (None, "absent", 3))],
        classes=COUNTS,
        image_shape=SIZES,
        options=[*map(value, ("text", 3))],
    ),
]
UNTRIED: dict[str, str] = {
    "vision.datasets.load_imagenet": "a loader; takes a record of options",
    "vision.models.network_names": "takes no arguments",
}
