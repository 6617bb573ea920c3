"""Pictures: valid PNGs of the expected size, with something in them where it belongs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from PIL import Image

import fl_tensor as ft
from fl_vision import DataFileError
from fl_vision.draw import Panel, Prediction, Section, Series, draw_curves, draw_grid
from fl_vision.draw.axes import label, log_ticks, ticks, whole_ticks
from fl_vision.images import to_picture


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.03, 0.61, [0.0, 0.2, 0.4, 0.6, 0.8]),
        (97.2, 99.1, [97.0, 97.5, 98.0, 98.5, 99.0, 99.5]),
        (5.0, 5.0, [4.4, 4.6, 4.8, 5.0, 5.2, 5.4, 5.6]),
    ],
)
def test_ticks_are_round_and_cover_the_range(
    low: float, high: float, expected: list[float]
) -> None:
    found = ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.03, 2.3, [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]),
        (0.1, 1.0, [0.1, 0.2, 0.5, 1]),
        (1.0, 1.0, [1, 2]),
        (3e-6, 2.0, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10]),
    ],
)
def test_logarithmic_ticks(low: float, high: float, expected: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(expected)


def test_tick_labels_have_the_decimals_they_need() -> None:
    assert [label(t, [0, 0.2]) for t in (0.0, 0.2)] == ["0.0", "0.2"]
    assert label(0.25, [0, 0.25]) == "0.25"
    assert label(98.0, [97.0, 98.0]) == "98"
    assert [label(t, [0.02, 0.05, 0.1]) for t in (0.02, 0.05, 0.1)] == ["0.02", "0.05", "0.1"]


def test_epochs_are_whole_numbers() -> None:
    assert whole_ticks(1, 6) == [1, 2, 3, 4, 5, 6]
    assert whole_ticks(1, 20) == [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]
    assert whole_ticks(1, 1) == [1]


@pytest.mark.parametrize("epochs", [0, 1, 2, 200])
def test_curves_of_any_length(tmp_path: Path, epochs: int) -> None:
    falling = [1 / (n + 1) for n in range(epochs)]
    path = draw_curves(
        tmp_path / "curve.png",
        "a run",
        [Panel("loss", [Series("training", falling), Series("test", falling)])] * 2,
    )
    with Image.open(path) as picture:
        assert picture.format == "PNG"
        assert picture.size == (940, 380)
        data = picture.convert("RGB").tobytes()
    blue = sum(b > r + 80 for r, b in zip(data[0::3], data[2::3], strict=True))
    assert blue > 50


def test_values_that_are_not_finite_are_gaps(tmp_path: Path) -> None:
    series = Series("training", [1.0, math.nan, math.inf, 0.5])
    assert draw_curves(tmp_path / "c.png", "", [Panel("loss", [series])]).is_file()


def test_a_grid_grows_with_its_predictions(tmp_path: Path) -> None:
    picture = Image.new("L", (8, 8), 128)
    right = Prediction(picture, "7", 0.99, "7")
    wrong = Prediction(picture, "a very long name of a class", 0.5, "another long name")
    one = draw_grid(tmp_path / "1.png", "t", [Section("mistakes", [wrong]), Section("none", [])])
    two = draw_grid(tmp_path / "2.png", "t", [Section("mistakes", [wrong] * 11 + [right])])
    with Image.open(one) as small, Image.open(two) as large:
        assert small.size[0] == large.size[0]
        assert small.size[1] < large.size[1]
        data = small.convert("RGB").tobytes()
    colours = zip(data[0::3], data[1::3], data[2::3], strict=True)
    assert any(red > 150 and green < 90 and blue < 90 for red, green, blue in colours)


def test_a_picture_shows_the_pixels_of_a_tensor() -> None:
    pixels = ft.asarray([[[0, 16], [8, 4]]], dtype=ft.uint8)
    assert list(to_picture(pixels, peak=16).tobytes()) == [0, 255, 128, 64]
    assert to_picture(ft.zeros((3, 5, 9), ft.uint8)).size == (9, 5)


def test_a_picture_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"cannot be written .*--out"):
        draw_curves(tmp_path / "absent" / "c.png", "", [Panel("loss", [])])
