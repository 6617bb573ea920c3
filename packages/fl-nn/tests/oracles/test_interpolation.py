"""`interpolate` in random configurations against PyTorch: every mode and setting."""

from __future__ import annotations

import pytest
from torch_twins import Case, Draw, check_family, family, torch

import fl_nn as nn

SPATIAL = {
    "linear": [1], "bilinear": [2], "bicubic": [2], "trilinear": [3],
    "nearest": [1, 2, 3], "nearest-exact": [1, 2, 3], "area": [1, 2, 3],
}  # fmt: skip


def resampling(draw: Draw, mode: str, longest: int = 9) -> Case:
    count = draw.choice(SPATIAL[mode])
    sizes = draw.sizes(count, 1, longest)
    options: dict[str, object] = {"mode": mode}
    antialias = mode in ("bilinear", "bicubic") and draw.maybe()
    if draw.maybe():
        # PyTorch 2.13 mixes up elements where antialias makes the last axis 1 wide.
        options["size"] = draw.sizes(count, 1 + antialias, 2 * longest)
    else:
        low = (1.0 + antialias) / min(sizes)
        factors = [low + draw.random() * (3.0 - low) for _ in sizes]
        alike = draw.choice([1.0, 2.0, max(low, 0.5)])
        alike = 2.0 if antialias and alike not in (0.5, 1.0) else alike
        if mode.startswith("nearest") or antialias:
            # Where a factor gives the same size, or with "nearest" twice the size, without being
            # 1 or 2, PyTorch's gradient and its result belong to different positions.
            factors = [int(f) if int(n * f) in (n, 2 * n) else f for n, f in zip(sizes, factors)]
        options["scale_factor"] = draw.choice([factors, [alike] * count, alike])
        options["recompute_scale_factor"] = draw.choice([None, False, True])
    if mode in ("linear", "bilinear", "bicubic", "trilinear"):
        options["align_corners"] = draw.choice([None, False, True])
    if mode in ("bilinear", "bicubic"):
        options["antialias"] = antialias
    x = draw.values((draw.size(1, 2), draw.size(1, 2), *sizes))
    return Case(
        lambda x: nn.interpolate(x, **options),
        lambda x: torch.nn.functional.interpolate(x, **options),
        (x,),
        note=str(options),
    )


@family
def nearest(draw: Draw) -> Case:
    return resampling(draw, "nearest")


@family
def nearest_exact(draw: Draw) -> Case:
    return resampling(draw, "nearest-exact")


@family
def linear_interpolation(draw: Draw) -> Case:
    return resampling(draw, "linear")


@family
def bilinear_interpolation(draw: Draw) -> Case:
    return resampling(draw, "bilinear")


@family
def bicubic_interpolation(draw: Draw) -> Case:
    return resampling(draw, "bicubic")


@family
def trilinear_interpolation(draw: Draw) -> Case:
    return resampling(draw, "trilinear", 5)


@family
def area(draw: Draw) -> Case:
    return resampling(draw, "area")


@family
def long_sequences(draw: Draw) -> Case:
    # So long that the weights make no matrix.
    size, wanted = draw.size(500, 600), draw.size(550, 700)
    corners = draw.maybe()
    x = draw.values((1, 2, size))
    return Case(
        lambda x: nn.interpolate(x, wanted, mode="linear", align_corners=corners),
        lambda x: torch.nn.functional.interpolate(x, wanted, mode="linear", align_corners=corners),
        (x,),
        note=f"{size} to {wanted}, align_corners={corners}",
    )


@family
def upsample(draw: Draw) -> Case:
    factor, mode = draw.choice([2, 1.5, (2.0, 3.0)]), draw.choice(["nearest", "bilinear"])
    x = draw.values((2, 1, *draw.sizes(2)))
    return Case(
        nn.Upsample(scale_factor=factor, mode=mode),
        torch.nn.Upsample(scale_factor=factor, mode=mode),
        (x,),
    )


FAMILIES = [
    nearest, nearest_exact, linear_interpolation, bilinear_interpolation, bicubic_interpolation,
    trilinear_interpolation, area, long_sequences, upsample,
]  # fmt: skip


@pytest.mark.parametrize("name", [one.__name__ for one in FAMILIES])
def test_interpolation_agrees(name: str) -> None:
    check_family(name)
