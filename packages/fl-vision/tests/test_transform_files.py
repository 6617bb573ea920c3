"""JSON files of transforms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fl_tensor as ft
from fl_vision.errors import DataFileError, DataMissingError, ImageError
from fl_vision.transforms import (
    ColorJitter,
    Compose,
    DrawnTransform,
    Normalise,
    RandAugment,
    RandomApply,
    RandomErasing,
    RandomHorizontalFlip,
    RandomResizedCrop,
    create_transforms,
    detection_training,
    read_transforms,
    write_transforms,
)

CHAIN = Compose(
    (
        RandomResizedCrop((16, 24), interpolation="bicubic"),
        RandomHorizontalFlip(0.3),
        RandomApply(ColorJitter(0.4, 0.4, 0.4), 0.8),
        RandAugment(3, 7.0),
        Normalise((123.0, 116.0, 103.0), (58.0, 57.0, 57.0)),
        RandomErasing(),
    )
)


@pytest.mark.parametrize("chain", [CHAIN, Compose(), detection_training()])
def test_a_chain_that_was_written_is_read(chain: Compose, tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    write_transforms(path, chain)
    assert read_transforms(path) == chain


def test_a_file_names_classes_and_settings(tmp_path: Path) -> None:
    write_transforms(tmp_path / "a.json", Compose((RandomHorizontalFlip(0.25),)))
    found = json.loads((tmp_path / "a.json").read_text())
    assert found == {"transforms": [{"type": "RandomHorizontalFlip", "p": 0.25}]}


@pytest.mark.parametrize(
    "config, message",
    [
        ({}, r"\[config\] is no block with the key transforms"),
        ({"transforms": 3}, "transforms is a int"),
        ({"transforms": [3]}, r"\[config: entry 0\] is no block with a type"),
        ({"transforms": [{"type": "Flip"}]}, "type is 'Flip': give one of"),
        ({"transforms": [{"type": "Resize"}]}, r"entry 0 \(Resize\)\] size is missing"),
        ({"transforms": [{"type": "Resize", "sise": 3}]}, "'sise' is no setting of it"),
        ({"transforms": [{"type": "Resize", "size": [0, 3]}]}, r"\(Resize\)\] size \(0, 3\)"),
        ({"transforms": [{"type": "Resize", "size": "ab"}]}, "cannot be made"),
        (
            {"transforms": [{"type": "Compose", "transforms": [{"type": 3}]}]},
            r"entry 0 \(Compose\).transforms\[0\]\] type is 3",
        ),
    ],
)
def test_what_is_wrong_is_said(config: Any, message: str) -> None:
    with pytest.raises(ImageError, match=message):
        create_transforms(config)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(DataMissingError, match=r"a\.json: no such file"):
        read_transforms(path)
    path.write_text("{")
    with pytest.raises(DataFileError, match=r"a\.json: no JSON"):
        read_transforms(path)
    path.write_text("[" * 500_000)
    with pytest.raises(DataFileError, match=r"a\.json: no JSON"):
        read_transforms(path)
    path.write_text(" " * (1 << 20) + "  ")
    with pytest.raises(DataFileError, match="larger than"):
        read_transforms(path)


def test_depth_is_bounded() -> None:
    entry: dict[str, Any] = {"type": "RandomHorizontalFlip"}
    for _ in range(100):
        entry = {"type": "RandomApply", "transform": entry}
    with pytest.raises(ImageError, match="nest less"):
        create_transforms({"transforms": [entry]})


def test_transforms_of_others_are_not_written(tmp_path: Path) -> None:
    class Mine(DrawnTransform):
        def choose(self, height: int, width: int, draws: Any) -> None:
            return None

    assert Mine()(ft.ones((1, 2, 2)), 0).shape == (1, 2, 2)
    with pytest.raises(ImageError, match="entry 0] is a Mine"):
        write_transforms(tmp_path / "a.json", Compose((Mine(),)))
