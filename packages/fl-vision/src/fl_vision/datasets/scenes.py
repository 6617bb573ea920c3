"""`Scenes`: drawn pictures of shapes with exact boxes and masks, to test detectors with."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import fl_tensor as ft
from fl_data import check_count, check_index, mix
from fl_tensor.arguments import seed_of
from fl_vision.datasets.boxes import tensor_of
from fl_vision.datasets.detection import DetectionDataset
from fl_vision.datasets.recent import Recent
from fl_vision.datasets.target import Target

Pixels: TypeAlias = NDArray[np.int16]
Mask: TypeAlias = NDArray[np.bool_]

SHAPES = ("disk", "square", "triangle", "cross", "ring")
COLOURS = (
    (220, 50, 50),
    (50, 180, 60),
    (60, 80, 230),
    (230, 210, 40),
    (200, 60, 200),
    (40, 200, 210),
)
_MOST = 6
_TRIES = 20
_NOISE = 24


class Scenes(DetectionDataset):
    """`count` pictures (3, size, size) uint8 with 1 to 6 objects each.

    The classes are five shapes: disk, square, triangle, cross, ring. Objects have one of six
    colours, and extents from an eighth to a half of `size` (16 to 64 of 128 pixels). Later ones lie
    over earlier ones; at least half of each object stays visible. Masks are the visible pixels, and
    boxes their bounds. Behind the objects are a colour gradient and up to four lines, over
    everything is noise.

    Scene `index` depends on `seed`, `size` and `index` alone. It is drawn with integers, so it is
    the same on every platform. Scenes that were drawn are kept, up to `cache_bytes`.

    Raises `fl_data.DataError` for a `count` below 0, and a `size` that is not 32 to 1024.
    """

    classes = SHAPES

    def __init__(
        self, count: int, seed: int = 0, *, size: int = 128, cache_bytes: int = 64 << 20
    ) -> None:
        self._count = check_count(count, "count", "Scenes")
        self.seed = seed_of("Scenes", seed)
        self.size = check_count(size, "size", "Scenes", least=32)
        if size > 1024:
            check_count(1024 - size, "1024 - size", "Scenes")
        most = check_count(cache_bytes, "cache_bytes", "Scenes")
        self._recent: Recent[tuple[bytes, Target]] = Recent(most)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[ft.Tensor, Target]:
        number = check_index(index, self._count, "Scenes")
        found = self._recent.get(number)
        if found is None:
            pixels, target = _drawn(self.seed, number, self.size)
            found = pixels, target
            self._recent.put(number, found, len(pixels) + len(target) * self.size**2)
        return ft.frombytes(found[0], (3, self.size, self.size), ft.uint8), found[1]

    def image(self, index: int) -> ft.Tensor:
        return self[index][0]

    def target(self, index: int) -> Target:
        return self[index][1]

    def __repr__(self) -> str:
        return f"Scenes({self._count}, seed={self.seed}, size={self.size})"


class _Draws:
    """Numbers that depend on seed and scene, one after the other."""

    def __init__(self, seed: int, scene: int) -> None:
        self._seed, self._count = mix(seed, scene), 0

    def below(self, most: int) -> int:
        self._count += 1
        return mix(self._seed, self._count) * most >> 63

    def colour(self, low: int, high: int) -> list[int]:
        return [low + self.below(high - low) for _ in range(3)]

    def bytes(self, count: int) -> NDArray[np.uint8]:
        """SplitMix64 of a counter."""
        words = np.arange(1, count // 8 + 2, dtype=np.uint64)
        words = words * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.below(1 << 62))
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (words ^ (words >> np.uint64(31))).astype("<u8").view(np.uint8)[:count]


def _drawn(seed: int, number: int, size: int) -> tuple[bytes, Target]:
    draws = _Draws(seed, number)
    picture = _gradient(draws, size)
    for _ in range(draws.below(5)):
        _line(picture, draws, size)
    labels, masks = _objects(picture, draws, size)
    picture += draws.bytes(3 * size * size).reshape(3, size, size) % _NOISE
    pixels = np.clip(picture, 0, 255).astype(np.uint8).tobytes()
    boxes = [_bounds(mask) for mask in masks]
    areas = [int(np.count_nonzero(mask)) for mask in masks]
    return pixels, Target(
        boxes=ft.asarray(boxes, dtype=ft.float32),
        labels=ft.asarray(labels, dtype=ft.int64),
        areas=ft.asarray(areas, dtype=ft.float32),
        crowd=ft.zeros((len(labels),), dtype=ft.bool),
        image_id=number,
        original_size=(size, size),
        masks=tensor_of(np.stack(masks), ft.bool),
    )


def _gradient(draws: _Draws, size: int) -> Pixels:
    """From one dark colour to another: down, to the right, or both."""
    first, last = (np.array(draws.colour(0, 110), np.int32) for _ in range(2))
    ramp = np.arange(size, dtype=np.int32)
    down, right = ((1, 0), (0, 1), (1, 1))[draws.below(3)]
    place = down * ramp[:, None] + right * ramp[None, :]
    steps = (down + right) * (size - 1)
    change = (last - first)[:, None, None] * place[None] // steps
    return (first[:, None, None] + change).astype(np.int16)


def _line(picture: Pixels, draws: _Draws, size: int) -> None:
    """From one place to another, a pixel wide."""
    (top, left), (bottom, right) = ((draws.below(size), draws.below(size)) for _ in range(2))
    steps = max(abs(bottom - top), abs(right - left), 1)
    along = np.arange(steps + 1)
    rows = top + (2 * (bottom - top) * along + steps) // (2 * steps)
    columns = left + (2 * (right - left) * along + steps) // (2 * steps)
    picture[:, rows, columns] = np.array(draws.colour(40, 230), np.int16)[:, None]


def _objects(picture: Pixels, draws: _Draws, size: int) -> tuple[list[int], list[Mask]]:
    """Draw the objects; their labels, and the masks of what is visible of them."""
    labels: list[int] = []
    masks: list[Mask] = []
    whole: list[int] = []
    wanted = 1 + draws.below(_MOST)
    for _ in range(_TRIES):
        if len(labels) == wanted:
            break
        label, extent = draws.below(len(SHAPES)), size // 8 + draws.below(3 * size // 8 + 1)
        top, left = (draws.below(size - extent + 1) for _ in range(2))
        colour = [level + draws.below(41) - 20 for level in COLOURS[draws.below(len(COLOURS))]]
        shape = _shape(label, extent)
        window = np.s_[top : top + extent, left : left + extent]
        visible = [
            int(np.count_nonzero(mask)) - int(np.count_nonzero(mask[window] & shape))
            for mask in masks
        ]
        if any(2 * seen < full for seen, full in zip(visible, whole, strict=True)):
            continue
        for mask in masks:
            mask[window] &= ~shape
        mask = np.zeros((size, size), np.bool_)
        mask[window] = shape
        picture[:, window[0], window[1]][:, shape] = np.array(colour, np.int16)[:, None]
        labels.append(label)
        masks.append(mask)
        whole.append(int(np.count_nonzero(shape)))
    return labels, masks


@lru_cache(maxsize=512)
def _shape(label: int, extent: int) -> Mask:
    """The pixels of a shape in a square, which it touches on all sides."""
    # Twice the distance of the middle of a pixel from the middle of the square.
    x = 2 * np.arange(extent)[None, :] - (extent - 1)
    y = 2 * np.arange(extent)[:, None] - (extent - 1)
    distance = x * x + y * y
    name = SHAPES[label]
    if name == "disk":
        found = distance <= extent * extent
    elif name == "square":
        found = np.ones((extent, extent), np.bool_)
    elif name == "triangle":
        found = 2 * abs(x) <= y + extent + 1
    elif name == "cross":
        found = np.minimum(3 * abs(x), 3 * abs(y)) <= extent
    else:
        found = (distance <= extent * extent) & (4 * distance > extent * extent)
    return found


def _bounds(mask: Mask) -> list[int]:
    """Left, top, right and bottom of the pixels of a mask."""
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    return [int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1]
