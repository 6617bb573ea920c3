"""Transforms beside torchvision's functions on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_tensor as ft
from fl_vision import transforms as ours

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
F = pytest.importorskip("torchvision.transforms.functional")
BILINEAR, BICUBIC = F.InterpolationMode.BILINEAR, F.InterpolationMode.BICUBIC

RNG = np.random.default_rng(0)
SMOOTH = ours.picture_of(ft.asarray(RNG.integers(0, 256, (3, 7, 9)), dtype=ft.uint8))
IMAGES = {
    "smooth": ours.Resize((97, 131), "bicubic")(
        ft.asarray(np.asarray(SMOOTH).transpose(2, 0, 1).copy())
    ).numpy(),
    "noise": RNG.integers(0, 256, (3, 97, 131)).astype(np.uint8),
}


def solarized(x: Any) -> Any:
    return F.solarize(x, 100.0 / 255.0 if getattr(x, "dtype", None) == torch.float32 else 100.0)


Case = tuple[ours.FixedTransform, Callable[[Any], Any]]
CASES: list[Case] = [
    (ours.Resize((50, 40)), lambda x: F.resize(x, [50, 40], BILINEAR, antialias=True)),
    (ours.Resize((150, 140)), lambda x: F.resize(x, [150, 140], BILINEAR, antialias=True)),
    (ours.Resize((50, 40), "bicubic"), lambda x: F.resize(x, [50, 40], BICUBIC, antialias=True)),
    (
        ours.Resize((50, 40), antialias=False),
        lambda x: F.resize(x, [50, 40], BILINEAR, antialias=False),
    ),
    (
        ours.ResizeShortestSide(60, 70),
        lambda x: F.resize(x, 60, BILINEAR, max_size=70, antialias=True),
    ),
    (ours.CenterCrop((50, 60)), lambda x: F.center_crop(x, [50, 60])),
    (ours.Pad(1, 2, 3, 4, mode="edge"), lambda x: F.pad(x, [1, 2, 3, 4], padding_mode="edge")),
    (
        ours.Pad(1, 2, 3, 4, mode="reflect"),
        lambda x: F.pad(x, [1, 2, 3, 4], padding_mode="reflect"),
    ),
    (ours.HorizontalFlip(), F.hflip),
    (ours.VerticalFlip(), F.vflip),
    (ours.Brightness(1.3), lambda x: F.adjust_brightness(x, 1.3)),
    (ours.Contrast(0.6), lambda x: F.adjust_contrast(x, 0.6)),
    (ours.Saturation(1.5), lambda x: F.adjust_saturation(x, 1.5)),
    (ours.Sharpness(1.8), lambda x: F.adjust_sharpness(x, 1.8)),
    (ours.Hue(0.2), lambda x: F.adjust_hue(x, 0.2)),
    (ours.Hue(-0.4), lambda x: F.adjust_hue(x, -0.4)),
    (ours.Grayscale(), lambda x: F.rgb_to_grayscale(x, 3)),
    (ours.AutoContrast(), F.autocontrast),
    (ours.Invert(), F.invert),
    (ours.Solarize(100.0), solarized),
    (ours.Equalize(), F.equalize),
    (ours.Posterize(3), lambda x: F.posterize(x, 3)),
    (ours.GaussianBlur(7, 1.3), lambda x: F.gaussian_blur(x, [7, 7], [1.3, 1.3])),
    (ours.Erase(3, 4, 10, 20), lambda x: F.erase(x, 3, 4, 10, 20, torch.zeros(3, 1, 1))),
]
#: Affine maps: torchvision blends the fill in at the edges, Pillow and ours do not.
WARPS: list[Case] = [
    (ours.Rotate(20.0), lambda x: F.rotate(x, 20.0)),
    (ours.Rotate(-70.0, "bilinear"), lambda x: F.rotate(x, -70.0, BILINEAR)),
    (
        ours.Affine(20.0, (3.0, 4.0), 1.2, (10.0, 5.0), "bilinear"),
        lambda x: F.affine(x, 20.0, [3, 4], 1.2, [10.0, 5.0], BILINEAR),
    ),
]


def name_of(case: Case) -> str:
    return str(case[0])[:60]


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_bytes_are_within_one_level(case: Case, kind: str) -> None:
    transform, function = case
    expected = function(torch.from_numpy(IMAGES[kind].copy())).numpy().astype(int)
    found = transform(ft.asarray(IMAGES[kind])).numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_floats_are_within_a_ten_thousandth(case: Case, kind: str) -> None:
    transform, function = case
    if isinstance(transform, ours.Equalize | ours.Posterize):
        pytest.skip("levels of bytes alone, here and there")
    image = IMAGES[kind].astype(np.float32) / 255.0
    found = transform(ft.asarray(image)).numpy()
    # torchvision's weight of red is 0.2989, that of ITU-R BT.601 0.299.
    assert np.abs(found - function(torch.from_numpy(image)).numpy()).max() < 1.1e-4


@pytest.mark.parametrize("case", WARPS, ids=name_of)
def test_affine_maps_differ_at_edges_alone(case: Case) -> None:
    transform, function = case
    image = IMAGES["smooth"]
    expected = function(torch.from_numpy(image.copy())).numpy().astype(int)
    found = transform(ft.asarray(image)).numpy().astype(int)
    assert (np.abs(found - expected) > 1).mean() < 0.02


@pytest.mark.parametrize("case", [*CASES, *WARPS], ids=name_of)
def test_pictures_are_those_of_torchvision(case: Case) -> None:
    transform, function = case
    if isinstance(transform, ours.Hue | ours.Erase | ours.GaussianBlur):
        pytest.skip("torchvision has another definition for pictures, or none")
    picture = ours.picture_of(ft.asarray(IMAGES["smooth"]))
    if isinstance(transform, ours.Resize) and not transform.antialias:
        pytest.skip("Pillow always smoothes")
    expected = np.asarray(function(picture)).astype(int)
    assert np.abs(np.asarray(transform(picture)) - expected).max() <= 1
