"""The network of Listing 8."""

from __future__ import annotations

import pytest

import fl_tensor as ft
from fl_vision import UsageError, cnn


def test_listing_8() -> None:
    model = cnn()
    shapes = [value.shape for _, value in model.named_parameters()]
    assert shapes == [
        (32, 1, 5, 5),
        (32,),
        (64, 32, 5, 5),
        (64,),
        (1024, 7 * 7 * 64),
        (1024,),
        (10, 1024),
        (10,),
    ]
    names = [type(layer).__name__ for _, layer in model.named_children()]
    assert names == (
        "Conv2D ReLU Pool2D Conv2D ReLU Pool2D View Linear ReLU Dropout Linear".split()
    )


def test_a_reduced_one() -> None:
    model = cnn((1, 8, 8), channels=(4, 8), hidden=16)
    assert [v.shape for _, v in model.named_parameters() if v.ndim > 1] == [
        (4, 1, 3, 3),
        (8, 4, 3, 3),
        (16, 32),
        (10, 16),
    ]


@pytest.mark.parametrize(
    ("shape", "classes"), [((1, 28, 28), 10), ((1, 8, 8), 10), ((3, 33, 17), 2), ((3, 4, 4), 5)]
)
def test_it_gives_a_logit_per_class(shape: tuple[int, ...], classes: int) -> None:
    model = cnn(shape, classes).eval()
    assert model(ft.zeros((2, *shape))).shape == (2, classes)


@pytest.mark.parametrize(
    ("shape", "classes", "options", "message"),
    [
        ((1, 3, 8), 10, {}, r"image shape \(1, 3, 8\)"),
        ((8, 8), 10, {}, r"image shape \(8, 8\)"),
        ((1, 8, 8), 1, {}, "1 classes; give at least 2"),
        ((1, 8, 8), 10, {"kernel": 4}, "kernel 4 has no centre"),
    ],
)
def test_what_it_cannot_be_built_for(
    shape: tuple[int, ...], classes: int, options: dict[str, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        cnn(shape, classes, **options)
