"""Image transforms: their settings, the images that they take, files of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import fl_data as data
import fl_tensor as ft
import fl_vision as vision
from bad_values import Bad, value
from cases import Target
from fl_vision import transforms
from targets.making import At, target

NAN, INFINITE = value(float("nan")), value(float("inf"))
SHARES = [value(-0.1), value(1.1), NAN, value(None), value("1"), value(b"1")]
NUMBERS = [NAN, INFINITE, value(None), value("1"), value([1.0])]
FACTORS = [*NUMBERS, value(-1.0)]
COUNTS = [value(-1), value(1.5), value(None), value("1"), value(1 << 40)]
EXTENTS = [value(0), *COUNTS]
SIZES = [
    *[value((0, 4)), value((4, -1)), value((4,)), value((4, 4, 4)), value((1 << 40, 4))],
    *[value(None), value(4), value("44"), value((4.0, 4.0))],
]
RANGES = [value((1.0, 0.5)), value((0.5,)), value(None), value(1.0), value(("a", "b"))]
KINDS = [value("cubic"), value(None), value(3), value("")]
FILLS = [value(-1.0), value(256.0), NAN, value(None), value("black"), value((1.0, 2.0))]
SEEDS = [value(-1), value(1.5), value("0"), value(1 << 64), value(True)]
IMAGES = [
    *[value(None), value("text"), value(3.5), value({}), value([1, 2])],
    value(np.zeros((3, 4, 4), np.uint8), "an array"),
    *[
        Bad("two axes", lambda _: ft.zeros((4, 4))),
        Bad("int64", lambda _: ft.zeros((3, 4, 4), "int64")),
    ],
    *[
        Bad("no rows", lambda _: ft.zeros((3, 0, 4))),
        Bad("no channels", lambda _: ft.zeros((0, 4, 4))),
    ],
]


def pixels(*shape: int) -> Any:
    return ft.ones(shape or (3, 16, 16), ft.uint8)


def applied(kind: Any) -> Any:
    """A transform that is made and called."""

    def call(*settings: Any, image: Any = None, generator: Any = 0, **named: Any) -> Any:
        made = kind(*settings, **named)
        return made(pixels() if image is None else image, generator)

    return call


def settings(name: str, good: dict[str, Any], **kinds: Any) -> Target:
    """A transform by its name, with its settings."""
    kind = getattr(transforms, name)
    return target(f"vision.transforms.{name}", good, call=applied(kind), **kinds)


class Dark(transforms.FixedTransform):
    def change(self, image: Any) -> Any:
        return image


class Maybe(transforms.DrawnTransform):
    def choose(self, height: int, width: int, draws: transforms.Draws) -> Any:
        return Dark() if draws.chance(0.5) else None


def written(entry: Any) -> Bad:
    """A file of transforms with this entry."""

    def make(folder: Path) -> Path:
        (folder / "bad.json").write_text(json.dumps({"transforms": [entry]}))
        return folder / "bad.json"

    return Bad(f"a file with {entry!r:.40}", make)


def batches() -> data.Batch:
    images = ft.ones((4, 3, 8, 8))
    return data.Batch(data.TensorDataset(images, ft.zeros((4,), ft.int64)), 2)


def first_mixed(*given: Any, **named: Any) -> Any:
    return transforms.MixedBatches(*given, **named)[0]


def first_crop(folder: Path, *given: Any, **named: Any) -> Any:
    from PIL import Image

    (folder / "a").mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 9)).save(folder / "a" / "b.png")
    return transforms.RandomResizedCrops(vision.ImageFolder(folder), *given, **named)[0]


def picture(folder: Path) -> Path:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 9)).save(folder / "a.png")
    return folder / "a.png"


def crop() -> Any:
    return transforms.RandomResizedCrop((4, 4))


BOXES: dict[str, Any] = {
    "image": pixels,
    "boxes": lambda: ft.asarray([[1.0, 1.0, 4.0, 4.0]]),
    "labels": lambda: ft.zeros((1,), ft.int64),
}
NO_BOXES = [
    *[value(None), value("a"), value([[1.0, 1.0, 2.0, 2.0]])],
    *[Bad("of NaN", lambda _: ft.full((1, 4), float("nan"))), Bad("(4,)", lambda _: ft.ones((4,)))],
    Bad("of negative width", lambda _: ft.asarray([[4.0, 1.0, 2.0, 2.0]])),
]
NO_LABELS = [value(None), value("a"), Bad("two", lambda _: ft.zeros((2,), ft.int64))]
NO_TRANSFORMS = [value(3), value(("a",)), value(Dark)]
ONE = {"0": lambda: transforms.Invert()}

TARGETS: list[Target] = [
    target(
        "vision.transforms.ImageTransform",
        {"image": pixels, "generator": 0},
        call=lambda image, generator: Maybe()(image, generator),
        image=IMAGES,
        generator=[value(None), *SEEDS],
    ),
    target(
        "vision.transforms.FixedTransform",
        {"image": pixels},
        call=lambda image: Dark()(image),
        image=IMAGES,
    ),
    target(
        "vision.transforms.DrawnTransform",
        {"generator": 0},
        call=lambda generator: Maybe()(pixels(), generator),
        generator=[value(None), *SEEDS],
    ),
    target("vision.transforms.Draws", {"0": "here", "1": 0}, _1=SEEDS),
    target(
        "vision.transforms.AnnotatedImage",
        BOXES,
        image=IMAGES,
        boxes=NO_BOXES,
        labels=NO_LABELS,
        masks=[value(3), Bad("small", lambda _: ft.zeros((1, 2, 2), ft.uint8))],
        areas=NO_LABELS[1:],
        crowd=NO_LABELS[1:],
        name=[value(None), value(3)],
        dropped=[value(None), value("a")],
    ),
    target(
        "vision.transforms.AnnotatedImage turned",
        BOXES,
        call=lambda **fields: transforms.Rotate(10.0)(transforms.AnnotatedImage(**fields)),
        image=IMAGES,
        boxes=NO_BOXES,
    ),
    settings("Compose", {"0": ()}, _0=[value(None), *NO_TRANSFORMS]),
    settings("RandomApply", ONE, _0=[value(None), *NO_TRANSFORMS], p=SHARES),
    settings(
        "RandomSelect",
        {**ONE, "1": lambda: transforms.Invert()},
        _0=[value(None), *NO_TRANSFORMS],
        _1=[value(None), *NO_TRANSFORMS],
        p=SHARES,
    ),
    settings(
        "Resize",
        {"0": (8, 8)},
        _0=SIZES,
        interpolation=KINDS,
        antialias=[value("no")],
        image=IMAGES[1:],
    ),
    settings("ResizeShortestSide", {"0": 8}, _0=EXTENTS, max_size=EXTENTS[:3], interpolation=KINDS),
    settings("RandomResize", {"0": (8, 9)}, _0=[value(()), value((0,)), value(None), value("a")]),
    settings(
        "Crop", {"0": 0, "1": 0, "2": 4, "3": 4}, _0=COUNTS, _1=COUNTS, _2=EXTENTS, _3=EXTENTS
    ),
    settings("CenterCrop", {"0": (4, 4)}, _0=[*SIZES, value((17, 4))]),
    settings(
        "Pad",
        {"0": 1, "1": 1, "2": 1, "3": 1},
        _0=COUNTS,
        _3=COUNTS,
        fill=FILLS,
        mode=[value("wrap"), value(None)],
    ),
    settings("HorizontalFlip", {}, image=IMAGES[1:]),
    settings("VerticalFlip", {}, image=IMAGES[1:]),
    settings("RandomHorizontalFlip", {}, p=SHARES, generator=SEEDS),
    settings("RandomVerticalFlip", {}, p=SHARES),
    settings("RandomCrop", {"0": (4, 4), "padding": 2}, _0=SIZES, padding=COUNTS, fill=FILLS),
    settings(
        "RandomResizedCrop",
        {"0": (4, 4)},
        _0=SIZES,
        scale=RANGES,
        ratio=RANGES,
        interpolation=KINDS,
    ),
    settings("RandomSizeCrop", {"0": 4, "1": 8}, _0=EXTENTS, _1=EXTENTS),
    *(
        settings(name, {"0": 5.0}, _0=NUMBERS, interpolation=KINDS, fill=FILLS, image=IMAGES[1:])
        for name in ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY")
    ),
    settings(
        "Affine",
        {},
        degrees=NUMBERS,
        translate=[value((NAN, 0.0)), value(None), value((1.0,))],
        scale=[*FACTORS, value(0.0)],
        shear=[value((90.0, 0.0)), value(None), value((1.0,))],
        interpolation=KINDS,
        fill=FILLS,
    ),
    settings(
        "RandomAffine",
        {},
        degrees=NUMBERS,
        translate=[value((2.0, 0.0)), value(None)],
        scale=RANGES[:1] + RANGES[2:],
        shear=RANGES[:1] + RANGES[2:],
    ),
    *(
        settings(name, {"0": 1.5}, _0=FACTORS, image=IMAGES[1:])
        for name in ("Brightness", "Contrast", "Saturation", "Sharpness")
    ),
    settings("Hue", {"0": 0.1}, _0=[*NUMBERS, value(0.6)], image=IMAGES[1:]),
    settings("Grayscale", {}, channels=[value(2), value(-1), value("3")], image=IMAGES[1:]),
    settings("RandomGrayscale", {}, p=SHARES),
    settings(
        "ColorJitter",
        {},
        brightness=FACTORS,
        contrast=FACTORS,
        saturation=FACTORS,
        hue=[*FACTORS, value(0.6)],
    ),
    *(settings(name, {}, image=IMAGES[1:]) for name in ("AutoContrast", "Invert", "Equalize")),
    settings("Solarize", {}, threshold=NUMBERS),
    settings("SolarizeAdd", {"0": 10}, _0=COUNTS[1:], threshold=[value(None), value("1")]),
    settings("Posterize", {"0": 4}, _0=[*COUNTS, value(9)]),
    settings(
        "GaussianBlur", {"0": 3, "1": 1.0}, _0=[value(4), *EXTENTS], _1=[*FACTORS, value(0.0)]
    ),
    settings(
        "RandomGaussianBlur", {"0": 3}, _0=[value(4), *EXTENTS], sigma=RANGES[:1] + RANGES[2:]
    ),
    settings(
        "Erase", {"0": 0, "1": 0, "2": 4, "3": 4}, _0=COUNTS, _1=COUNTS, _2=EXTENTS, fill=FILLS
    ),
    settings("RandomErasing", {}, p=SHARES, scale=RANGES, ratio=RANGES),
    settings(
        "RandAugment",
        {},
        operations=COUNTS,
        magnitude=[*FACTORS, value(11.0)],
        deviation=FACTORS,
        p=SHARES,
        interpolation=KINDS,
    ),
    target(
        "vision.transforms.label_distributions",
        {"0": lambda: ft.zeros((2,), ft.int64), "1": 3},
        _0=[
            value(None),
            value([1]),
            Bad("of 3", lambda _: ft.full((2,), 3, ft.int64)),
            Bad("floats", lambda _: ft.zeros((2,))),
        ],
        _1=[value(0), value(-1), value(1.5), value(None)],
        label_smoothing=SHARES,
    ),
    target(
        "vision.transforms.Mixing",
        {"classes": 3},
        classes=[value(0), value(-1), value(1.5), value(None)],
        mixup_alpha=FACTORS,
        cutmix_alpha=FACTORS,
        switch=SHARES,
        label_smoothing=SHARES,
    ),
    target(
        "vision.transforms.Mixing of a batch",
        {"0": lambda: ft.ones((2, 3, 8, 8)), "1": lambda: ft.zeros((2,), ft.int64), "2": 0},
        call=transforms.Mixing(3),
        _0=[value(None), Bad("bytes", lambda _: pixels()), Bad("(2,)", lambda _: ft.ones((2,)))],
        _1=[
            value(None),
            Bad("three", lambda _: ft.zeros((3,), ft.int64)),
            Bad("floats", lambda _: ft.zeros((2,))),
        ],
        _2=[value(None), *SEEDS],
    ),
    target(
        "vision.transforms.MixedBatches",
        {"0": batches, "1": lambda: transforms.Mixing(3), "2": 0},
        call=first_mixed,
        _0=[value(None), value([1, 2])],
        _1=[value(None), value(3)],
        _2=SEEDS,
    ),
    target(
        "vision.transforms.RandomResizedCrops",
        {"0": At("images"), "1": crop},
        call=first_crop,
        _1=[value(None), value((4, 4))],
        transform=NO_TRANSFORMS,
        seed=SEEDS,
    ),
    target(
        "vision.transforms.read_crop",
        {"0": At("images"), "1": crop, "2": 0},
        call=lambda folder, *given, path=None, **named: transforms.read_crop(
            picture(folder) if path is None else path, *given, **named
        ),
        path=[value(3), value("none"), value(b"")],
        _1=[value(None), value((4, 4))],
        _2=[value(None), *SEEDS],
    ),
    target(
        "vision.transforms.picture_of",
        {"0": pixels},
        _0=[
            *IMAGES,
            Bad("floats", lambda _: ft.ones((3, 4, 4))),
            Bad("five", lambda _: pixels(5, 4, 4)),
        ],
    ),
    target(
        "vision.transforms.histogram",
        {"0": pixels},
        _0=[*IMAGES, Bad("floats", lambda _: ft.ones((3, 4, 4)))],
    ),
    target(
        "vision.transforms.Normalise",
        {"0": lambda: pixels(), "mean": (1.0,) * 3, "std": (1.0,) * 3},
        call=lambda image, **named: transforms.Normalise(**named)(image),
        _0=[value(None), value("a"), Bad("(4, 4)", lambda _: ft.ones((4, 4)))],
        mean=[value(None), value("abc"), value((1.0,))],
        std=[value(None), value("abc")],
    ),
    target(
        "vision.transforms.detection_training",
        {},
        sizes=[value(()), value(None), value((0,))],
        max_size=EXTENTS,
        crop_sizes=[value(())],
        crop=[value((5, 4)), value(None)],
    ),
    target("vision.transforms.detection_evaluation", {}, size=EXTENTS, max_size=EXTENTS),
    target(
        "vision.transforms.create_transforms",
        {"config": lambda: {"transforms": []}},
        config=[value(None), value([]), value({}), value({"transforms": 3}), value("a")],
    ),
    target(
        "vision.transforms.read_transforms",
        {"path": At("a.json", b'{"transforms": []}')},
        path=[
            *[value(None), value(3), value("none")],
            *[
                written(entry)
                for entry in ({}, [], None, {"type": 3}, {"type": "Resize", "size": None})
            ],
        ],
    ),
    target(
        "vision.transforms.write_transforms",
        {"path": At("a.json"), "transforms": lambda: transforms.Compose()},
        path=[value(None), value(3), value("none/a.json")],
        transforms=[
            value(None),
            value([]),
            value("a"),
            Bad("mine", lambda _: transforms.Compose((Dark(),))),
        ],
    ),
    target(
        "vision.transforms.random_shift",
        {"0": lambda: pixels(2, 1, 4, 4), "1": 1, "2": lambda: ft.Generator(0)},
        _0=[value(None), value("a")],
    ),
]
UNTRIED: dict[str, str] = {
    "vision.transforms.RandomShift": "used by the program alone",
    "vision.transforms.channel_statistics": "used by the program alone",
}
