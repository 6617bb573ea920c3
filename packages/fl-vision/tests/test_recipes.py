"""Recipes: files, options, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import fl_nn as nn
import fl_tensor as ft
from fl_vision.errors import ImageError, RecipeError
from fl_vision.models.by_name import create_network, network_names, parameter_count
from fl_vision.recipe import Recipe
from fl_vision.training.augmentation import augmentation, augmentation_names, augmentation_text
from fl_vision.training.optimisation import build_optimizer, build_schedule, learning_rate


def test_every_recipe_of_the_package_is_one() -> None:
    names = Recipe.recipe_names()
    assert {"mnist-resnet18", "resnet34", "resnet50", "vit-b"} <= set(names)
    for name in names:
        recipe = Recipe.read(name)
        assert recipe.augment in augmentation_names() and recipe.network in network_names()
        assert Recipe.of(recipe.values()) == recipe


def test_a_file_gives_way_to_options(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"network": "resnet18", "width": 8, "lr": 1}')
    assert Recipe.read(path, lr=0.5, epochs=None) == Recipe(network="resnet18", width=8, lr=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "mine.json: no JSON"),
        ("[]", "mine.json: it is list: give an object of settings"),
        ('{"colour": 1}', "unknown settings 'colour': `fl-vision train --help` lists all"),
        ('{"lr": "fast"}', "mine.json: lr is 'fast': give a number"),
        ('{"lr": 0}', "lr is 0: give more than 0"),
        ('{"epochs": 1.5}', "epochs is 1.5: give a whole number"),
        ('{"amp": 1}', "amp is 1: give true or false"),
        ('{"dropout": 1}', "dropout is 1: give at least 0, and below 1"),
        ('{"network": "resnet19"}', "network is 'resnet19': give one of cnn, resnet18"),
        ('{"network": "vit_ti", "width": 8}', "width and small_stem are of a resnet"),
        ('{"drop_path": 0.1}', "drop_path is of vit and convnext, and network is cnn"),
        ('{"freeze": "C2"}', "freeze is of resnet and convnext"),
        ('{"weights_from": "torchvision"}', "without weights: give a file"),
        ('{"schedule": "step"}', "schedule step needs milestones"),
        ('{"milestones": "3,x"}', "milestones are '3,x': give epochs"),
        ('{"rates": "conv1"}', "rates are 'conv1': give NAME=FACTOR"),
        ('{"rates": "conv1=-1"}', "give NAME=FACTOR"),
        ('{"lr": 1, "lr": 2}', "a name comes twice"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        Recipe.read(path)
    assert message in str(caught.value) and "mine.json" in str(caught.value)


def test_a_file_that_is_not_there_lists_the_recipes() -> None:
    with pytest.raises(RecipeError, match="absent: no such file; .* mnist-resnet18, resnet34"):
        Recipe.read("absent")


def rates(**settings: Any) -> list[float]:
    recipe = Recipe(lr=1.0, epochs=4, **settings)
    return [learning_rate(recipe, step, 10) for step in range(40)]


def test_step_decays_at_milestones() -> None:
    found = rates(schedule="step", milestones="1,3", gamma=0.1)
    assert found[9] == 1 and found[10] == pytest.approx(0.1) and found[30] == pytest.approx(0.01)


def test_cosine_rises_and_falls_to_the_least_rate() -> None:
    found = rates(schedule="cosine", warmup=1, min_lr=0.01)
    assert found[:10] == pytest.approx([0.1 * k for k in range(1, 11)])
    assert found[10] == 1 and found[-1] == pytest.approx(0.01)
    assert found[10:] == sorted(found[10:], reverse=True)
    assert found[25] == pytest.approx(0.01 + 0.99 * 0.5, abs=0.06)


def test_onecycle_has_the_rates_of_fl_nn() -> None:
    recipe = Recipe(lr=0.5, epochs=4, schedule="onecycle", optimizer="sgd")
    model = create_network("cnn", 2, (1, 8, 8))
    ours, theirs = (build_optimizer(recipe, model) for _ in range(2))
    schedules = (
        build_schedule(recipe, ours, 10),
        nn.OneCycleLR(theirs, 0.5, 40, cycle_momentum=False),
    )
    for _ in range(39):
        assert ours.lr == pytest.approx(theirs.lr, rel=1e-9)
        for schedule in schedules:
            schedule.step()


def test_parts_of_a_network_have_rates_of_their_own() -> None:
    recipe = Recipe(
        network="resnet18", width=4, lr=0.1, weight_decay=0.1, decay_vectors=False,
        rates="conv1=0.5,layer1=0.1", optimizer="sgd", schedule="constant",
    )  # fmt: skip
    optimizer = build_optimizer(recipe, create_network("resnet18", 3, (3, 32, 32), {"width": 4}))
    build_schedule(recipe, optimizer, 10).step()
    found = {(round(g["lr"], 6), g["weight_decay"]) for g in optimizer.param_groups}
    assert found == {(0.05, 0.1), (0.01, 0.1), (0.01, 0.0), (0.1, 0.1), (0.1, 0.0)}


@pytest.mark.parametrize("name", augmentation_names())
@pytest.mark.parametrize("size", [(8, 8), (12, 9)])
def test_chains_keep_the_size_and_repeat(name: str, size: tuple[int, int]) -> None:
    image = ft.Generator(0).integers(0, 256, (3, *size)).astype(ft.uint8)
    chain = augmentation(name, size, 0.5)
    first = [chain(image, seed) for seed in range(4)]
    assert all(made.shape == image.shape for made in first)
    assert [made.tolist() for made in first] == [chain(image, seed).tolist() for seed in range(4)]
    assert any(made.tolist() != image.tolist() for made in first)


def test_a_chain_is_kept_as_text(tmp_path: Path) -> None:
    path = tmp_path / "chain.json"
    path.write_text('{"transforms": [{"type": "HorizontalFlip"}]}')
    text = augmentation_text(str(path))
    path.unlink()
    assert json.loads(text)["transforms"] and len(augmentation(text, (8, 8))) == 1
    with pytest.raises(RecipeError, match="augment is 'absent': give one of none, affine"):
        augmentation_text("absent")
    with pytest.raises(RecipeError, match="no JSON"):
        augmentation("{", (8, 8))
    with pytest.raises(ImageError, match="type is 'Fly'"):
        augmentation('{"transforms": [{"type": "Fly"}]}', (8, 8))


@pytest.mark.parametrize(
    ("name", "options"),
    [("cnn", {}), ("resnet18", {"width": 4, "small_stem": True}), ("vit_ti", {"patch": 8})],
)
def test_networks_are_counted_without_being_built(name: str, options: dict[str, Any]) -> None:
    model = create_network(name, 5, (3, 16, 16), options)
    total = sum(tensor.size for tensor in model.state_dict().values())
    assert parameter_count(name, 5, (3, 16, 16), options) == total
