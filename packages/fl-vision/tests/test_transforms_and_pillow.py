"""Transforms of uint8 tensors give the pixels that Pillow gives, and those of floats nearly so."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

import fl_tensor as ft
from fl_vision import pixels_of
from fl_vision.transforms import (
    Affine,
    AutoContrast,
    Brightness,
    CenterCrop,
    Contrast,
    Crop,
    Equalize,
    Erase,
    FixedTransform,
    GaussianBlur,
    Grayscale,
    HorizontalFlip,
    Hue,
    Invert,
    Pad,
    Posterize,
    Resize,
    ResizeShortestSide,
    Rotate,
    Saturation,
    Sharpness,
    ShearX,
    ShearY,
    Solarize,
    SolarizeAdd,
    TranslateX,
    TranslateY,
    VerticalFlip,
    picture_of,
)

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
COLOUR = (124.0, 116.0, 104.0)
FILL = (124, 116, 104)


def picture(smooth: bool, height: int = 97, width: int = 131) -> Image.Image:
    levels = np.random.default_rng(0).integers(0, 256, (7, 9, 3) if smooth else (height, width, 3))
    made = Image.fromarray(levels.astype(np.uint8))
    return made.resize((width, height), Image.Resampling.BICUBIC)


def warp(matrix: tuple[float, ...], kind: str) -> Callable[[Image.Image], Image.Image]:
    return lambda x: x.transform(
        x.size, Image.Transform.AFFINE, matrix, FILTERS[kind], fillcolor=FILL
    )


Case = tuple[FixedTransform, Callable[[Image.Image], Image.Image]]
CASES: list[Case] = [
    (Crop(3, 4, 20, 30), lambda x: x.crop((4, 3, 34, 23))),
    (CenterCrop((50, 61)), lambda x: x.crop((35, 24, 96, 74))),
    (Pad(1, 2, 3, 4, COLOUR), lambda x: ImageOps.expand(x, (1, 2, 3, 4), FILL)),
    (HorizontalFlip(), ImageOps.mirror),
    (VerticalFlip(), ImageOps.flip),
    (ResizeShortestSide(50), lambda x: x.resize((67, 50), FILTERS["bilinear"])),
    (ResizeShortestSide(80, 90), lambda x: x.resize((90, 66), FILTERS["bilinear"])),
    (Brightness(0.3), lambda x: ImageEnhance.Brightness(x).enhance(0.3)),
    (Brightness(1.7), lambda x: ImageEnhance.Brightness(x).enhance(1.7)),
    (Contrast(0.3), lambda x: ImageEnhance.Contrast(x).enhance(0.3)),
    (Contrast(1.7), lambda x: ImageEnhance.Contrast(x).enhance(1.7)),
    (Saturation(0.3), lambda x: ImageEnhance.Color(x).enhance(0.3)),
    (Saturation(1.7), lambda x: ImageEnhance.Color(x).enhance(1.7)),
    (Sharpness(0.1), lambda x: ImageEnhance.Sharpness(x).enhance(0.1)),
    (Sharpness(1.9), lambda x: ImageEnhance.Sharpness(x).enhance(1.9)),
    (Grayscale(), lambda x: Image.merge("RGB", (x.convert("L"),) * 3)),
    (Grayscale(1), lambda x: x.convert("L")),
    (AutoContrast(), ImageOps.autocontrast),
    (Invert(), ImageOps.invert),
    (Solarize(100.0), lambda x: ImageOps.solarize(x, 100)),
    (
        SolarizeAdd(60),
        lambda x: x.point([min(k + 60, 255) if k < 128 else k for k in range(256)] * 3),
    ),
    (Equalize(), ImageOps.equalize),
    (Posterize(3), lambda x: ImageOps.posterize(x, 3)),
]
for kind in FILTERS:
    CASES += [
        (Resize((50, 40), kind), lambda x, k=kind: x.resize((40, 50), FILTERS[k])),  # type: ignore[misc]
        (Resize((150, 200), kind), lambda x, k=kind: x.resize((200, 150), FILTERS[k])),  # type: ignore[misc]
        (
            Rotate(-33.0, kind, COLOUR),
            lambda x, k=kind: x.rotate(-33.0, FILTERS[k], fillcolor=FILL),  # type: ignore[misc]
        ),
        (ShearX(0.2, kind, COLOUR), warp((1, 0.2, 0, 0, 1, 0), kind)),
        (ShearY(-0.3, kind, COLOUR), warp((1, 0, 0, -0.3, 1, 0), kind)),
        (TranslateX(13.4, kind, COLOUR), warp((1, 0, -13.4, 0, 1, 0), kind)),
        (TranslateY(-20.6, kind, COLOUR), warp((1, 0, 0, 0, 1, 20.6), kind)),
    ]


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0])[:60])
def test_pictures_and_bytes_have_the_pixels_of_pillow(case: Case, smooth: bool) -> None:
    transform, pillow = case
    image = picture(smooth)
    expected = pixels_of(pillow(image)).numpy()
    for found in (pixels_of(transform(image)), transform(pixels_of(image))):
        assert found.shape == expected.shape
        assert (found.numpy() != expected).sum() == 0


NO_FLOATS = (Posterize, Equalize)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case[0])[:60])
def test_floats_differ_by_rounding(case: Case) -> None:
    transform, _ = case
    if isinstance(transform, NO_FLOATS):
        with pytest.raises(ft.DTypeError, match=r"float32: levels are those of uint8"):
            transform(ft.zeros((3, 4, 4)))
        return
    image = pixels_of(picture(smooth=True))
    expected = transform(image).numpy().astype(float)
    found = transform(image.astype(ft.float32) / 255.0).numpy() * 255.0
    # Bytes are rounded twice or thrice, and mean luminance too; bicubic filters overshoot.
    assert np.abs(found.clip(0, 255) - expected).max() < 2.0


@pytest.mark.parametrize("transform", [case[0] for case in CASES], ids=lambda t: str(t)[:60])
def test_grey_images_and_batches(transform: FixedTransform) -> None:
    grey = picture(smooth=True).convert("L")
    alone = transform(pixels_of(grey)).numpy()
    assert (pixels_of(transform(grey)).numpy() == alone).all()
    batch = np.stack([pixels_of(picture(smooth)).numpy() for smooth in (True, False)])
    found = transform(ft.asarray(batch)).numpy()
    for image, each in zip(batch, found, strict=True):
        assert (transform(ft.asarray(image)).numpy() == each).all()


@pytest.mark.parametrize("transform", [Hue(0.3), GaussianBlur(7, 1.5), Affine(20.0, scale=1.2)])
def test_pictures_are_changed_as_their_tensors(transform: FixedTransform) -> None:
    image = picture(smooth=True)
    assert pixels_of(transform(image)).tolist() == transform(pixels_of(image)).tolist()


def test_a_hue_that_went_round_comes_back() -> None:
    image = pixels_of(picture(smooth=True)).astype(ft.float32) / 255.0
    turned = Hue(-0.5)(Hue(0.25)(Hue(0.25)(image)))
    assert np.abs(turned.numpy() - image.numpy()).max() < 1e-5


def test_equal_images_stay_equal_under_blur() -> None:
    flat = ft.full((3, 9, 9), 77, ft.uint8)
    assert GaussianBlur(5, 2.0)(flat).tolist() == flat.tolist()


def test_erased_windows_have_the_fill() -> None:
    image = picture(smooth=True)
    erase = Erase(3, 4, 10, 20, COLOUR)
    found = erase(pixels_of(image)).numpy()
    assert (found[:, 3:13, 4:24].reshape(3, -1).T == FILL).all()
    assert (pixels_of(erase(image)).numpy() == found).all()
    before = pixels_of(image).numpy().copy()
    before[:, 3:13, 4:24] = found[:, 3:13, 4:24]
    assert (before == found).all()


def test_pictures_of_pixels() -> None:
    image = picture(smooth=True)
    assert picture_of(pixels_of(image)).tobytes() == image.tobytes()
    with pytest.raises(ft.ShapeError, match=r"\(4, 5, 6\): expected \(1 or 3, H, W\)"):
        picture_of(ft.zeros((4, 5, 6), ft.uint8))


def test_without_antialias_each_pixel_comes_from_four() -> None:
    image = ft.asarray([[[0, 100, 200, 50, 70, 250, 10, 90]]], dtype=ft.uint8)
    assert Resize((1, 2), antialias=False)(image).tolist() == [[[150, 130]]]
    assert Resize((1, 2), antialias=False)(picture_of(image)).tobytes() == bytes([150, 130])
