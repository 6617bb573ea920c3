"""With statistics over all ranks, two ranks are as one, batch normalisation included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fl_dist as dist
import fl_tensor as ft
from fl_data import as_dataset
from fl_vision import ImageData
from fl_vision.datasets import Scenes
from fl_vision.detectors import DetectionRecipe, train_detector
from fl_vision.recipe import Recipe
from fl_vision.training import train_classifier

#: Of losses and weights after 20 steps, relative to the largest.
BOUNDS = pytest.mark.parametrize(("dtype", "bound"), [("float64", 1e-10), ("float32", 1e-4)])


@pytest.fixture(autouse=True)
def numpy_backend() -> Iterator[None]:
    with ft.use("numpy"):
        yield


def assert_alike(program: Any, bound: float) -> None:
    """Losses and weights of one rank are those of two."""
    (losses, weights), (theirs, others) = (
        program(dist.local()),
        dist.threads.run(2, program)[0],
    )
    assert theirs == pytest.approx(losses, rel=bound)
    for name, values in weights.items():
        scale = max(1.0, *map(abs, values))
        assert others[name] == pytest.approx(values, abs=bound * scale), name


def state(model: Any) -> dict[str, list[float]]:
    """Parameters and statistics of a network, each as a list."""
    return {name: value.reshape(-1).tolist() for name, value in model.state_dict().items()}


@BOUNDS
def test_classifier(dtype: str, bound: float) -> None:
    generator = ft.Generator(1)
    samples = [
        (generator.integers(0, 256, (3, 8, 8)).astype(ft.uint8), ft.asarray(index % 3))
        for index in range(16)
    ]
    train = as_dataset(samples)
    data = ImageData("noise", train, train, ("a", "b", "c"), (3, 8, 8))
    recipe = Recipe(
        network="resnet18", width=2, small_stem=True, dtype=dtype, epochs=5, batch_size=4,
        optimizer="sgd", lr=0.002, sync_norm=True,
    )  # fmt: skip

    def program(communicator: dist.Communicator) -> Any:
        with ft.use("numpy"):
            trained = train_classifier(data, recipe, communicator=communicator, progress=False)
            losses = [record["train_loss"] for record in trained.history]
            return losses, state(trained.classifier.model)

    assert_alike(program, bound)


@BOUNDS
def test_detector(dtype: str, bound: float) -> None:
    recipe = DetectionRecipe(
        width=2, stages=3, size=8, heads=2, hidden=16, queries=7, encoder_layers=1,
        decoder_layers=1, batch_size=2, epochs=10, dtype=dtype, sync_norm=True,
    )  # fmt: skip

    def program(communicator: dist.Communicator) -> Any:
        with ft.use("numpy"):
            trained = train_detector(
                recipe, Scenes(4, 0, size=32), communicator=communicator, progress=False
            )
            losses = [record["train_loss"] for record in trained.history]
            return losses, state(trained.detector.network)

    assert_alike(program, bound)
