"""Normalisation and random shifts."""

from __future__ import annotations

import math

import pytest

import fl_tensor as ft
from fl_data import Batch, TensorDataset
from fl_vision.transforms import Normalise, RandomShift, channel_statistics, random_shift


def test_statistics_are_those_of_each_channel() -> None:
    levels = ft.asarray([[0, 255], [10, 255], [20, 255], [30, 255]], dtype=ft.uint8)
    images = levels.reshape(4, 2, 1, 1)
    mean, std = channel_statistics(TensorDataset(images, ft.zeros((4,), ft.int64)))
    assert mean == (15.0, 255.0)
    assert std == (math.sqrt(125.0), 1.0)


def test_normalised_pixels_have_mean_0_and_deviation_1() -> None:
    images = ft.Generator(0).integers(0, 256, (50, 3, 4, 4)).astype(ft.uint8)
    data = TensorDataset(images, ft.zeros((50,), ft.int64))
    found = Normalise(*channel_statistics(data), dtype=ft.float64)(images)
    assert found.dtype == ft.float64
    for channel in range(3):
        assert found[:, channel].mean().item() == pytest.approx(0, abs=1e-12)
        assert found[:, channel].std().item() == pytest.approx(1, abs=1e-12)


def test_normalise_wants_its_channels() -> None:
    with pytest.raises(ft.ShapeError, match=r"\(2, 3, 4, 4\): expected \(..., 1, height, width\)"):
        Normalise((0.0,), (1.0,))(ft.zeros((2, 3, 4, 4)))


def test_shifts_move_whole_images() -> None:
    images = ft.zeros((200, 2, 5, 5), ft.uint8)
    images[:, 0, 2, 2] = 1
    images[:, 1, 2, 2] = 2
    moved = random_shift(images, 2, ft.Generator(0))
    assert moved.shape == images.shape
    assert moved.dtype == images.dtype
    places = set()
    for first, second in moved.tolist():
        (place,) = [(y, x) for y in range(5) for x in range(5) if first[y][x]]
        assert second[place[0]][place[1]] == 2
        places.add(place)
    assert places == {(y, x) for y in range(5) for x in range(5)}


def test_what_is_moved_in_is_background() -> None:
    moved = random_shift(ft.full((50, 1, 3, 3), 7, ft.uint8), 1, ft.Generator(1))
    assert {int(v) for v in moved.flatten().tolist()} == {0, 7}


def test_shifts_repeat_with_their_generator() -> None:
    images = ft.arange(100).reshape(1, 1, 10, 10)
    images = ft.broadcast_to(images, (8, 1, 10, 10))
    first = random_shift(images, 3, ft.Generator(5))
    assert first.tolist() == random_shift(images, 3, ft.Generator(5)).tolist()
    assert first.tolist() != random_shift(images, 3, ft.Generator(6)).tolist()
    assert random_shift(images, 0, ft.Generator(5)).tolist() == images.tolist()


def test_an_image_is_shifted_alike_on_every_rank() -> None:
    images = ft.Generator(0).integers(0, 256, (11, 1, 6, 6)).astype(ft.uint8)
    data = TensorDataset(images, ft.arange(11))
    alone = RandomShift(Batch(data, 4), 2, seed=3)
    ranks = [
        RandomShift(Batch(data, 4, rank=r, world_size=2), 2, seed=3, rank=r, world_size=2)
        for r in range(2)
    ]
    for epoch in range(2):
        for dataset in (alone, *ranks):
            dataset.set_epoch(epoch)
        for index in range(3):
            parts = [dataset[index][0].tolist() for dataset in ranks]
            assert parts[0] + parts[1] == alone[index][0].tolist()
    second = alone[0][0].tolist()
    alone.set_epoch(0)
    assert alone[0][0].tolist() != second
