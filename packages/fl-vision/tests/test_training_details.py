"""Details of trainings and figures: crowds, averaged weights, sizes of detections, least rates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_data import as_dataset
from fl_tensor.testing import needs
from fl_vision.classifier import Classified, Classifier
from fl_vision.datasets import DetectionDataset, Scenes, Target
from fl_vision.detectors import (
    DetectionRecipe,
    Detector,
    DetectorRun,
    make_anchors,
    train_detector,
)
from fl_vision.detectors.batches import training_batches
from fl_vision.detectors.optimisation import make_optimizer
from fl_vision.recipe import Recipe
from fl_vision.training.optimisation import build_schedule
from fl_vision.transforms import Normalise

TINY = DetectionRecipe(
    width=4, stages=3, size=8, heads=2, hidden=16, queries=7, encoder_layers=1, decoder_layers=1,
    batch_size=2, epochs=2, augmentation="none",
)  # fmt: skip


@pytest.fixture(autouse=True)
def numpy_backend() -> Iterator[None]:
    with ft.use("numpy"):
        yield


class WithCrowd(DetectionDataset):
    """Scenes whose first object is a crowd."""

    classes = Scenes.classes

    def __init__(self) -> None:
        self.scenes = Scenes(2, 3, size=32)

    def __len__(self) -> int:
        return len(self.scenes)

    def image(self, index: int) -> ft.Tensor:
        return self.scenes.image(index)

    def target(self, index: int) -> Target:
        target = self.scenes.target(index)
        crowd = [number == 0 for number in range(len(target))]
        return replace(target, crowd=ft.asarray(crowd, dtype=ft.bool))


def test_crowds_are_no_objects_to_learn() -> None:
    data = WithCrowd()
    *_, targets = training_batches(Detector(TINY, data.classes), data, dist.local())[0]
    counts = sorted(len(target.labels) for target in targets)
    assert counts == sorted(len(data.target(number)) - 1 for number in range(2))
    assert max(counts) > 0


def test_the_weights_that_are_measured_and_kept_are_the_averages(tmp_path: Path) -> None:
    scenes = Scenes(4, 0, size=32)
    train_detector(TINY.changed(ema=0.9), scenes, scenes, DetectorRun(tmp_path), progress=False)
    checkpoint = nn.load_checkpoint(tmp_path / "checkpoint.safetensors")
    averages = Detector(TINY, scenes.classes)
    checkpoint.restore_model(averages)
    plain = {name: value.tolist() for name, value in averages.state_dict().items()}
    ema = nn.EMA(averages)
    ema.load_state_dict(checkpoint.parts["ema"])
    ema.copy_to()
    # The history says which epoch was the best; equal figures keep the first.
    record = checkpoint.position["history"]
    best = max(record, key=lambda one: (one["valid_ap"], -one["epoch"]))["epoch"]
    kept = Detector(TINY, scenes.classes)
    nn.load_weights(tmp_path / "weights.safetensors", kept.network)
    last = {name: value.tolist() for name, value in averages.state_dict().items()}
    found = {name: value.tolist() for name, value in kept.state_dict().items()}
    assert last != plain
    assert (found == last) == (best == 2)
    assert found != plain


def test_without_validation_the_averages_of_the_last_epoch_are_kept(tmp_path: Path) -> None:
    scenes = Scenes(4, 0, size=32)
    trained = train_detector(
        TINY.changed(ema=0.9), scenes, None, DetectorRun(tmp_path), progress=False
    )
    checkpoint = nn.load_checkpoint(tmp_path / "checkpoint.safetensors")
    model = Detector(TINY, scenes.classes)
    checkpoint.restore_model(model)
    name = "network.query_embed"
    plain = model.state_dict()[name].tolist()
    ema = nn.EMA(model)
    ema.load_state_dict(checkpoint.parts["ema"])
    ema.copy_to()
    kept = trained.detector.state_dict()[name].tolist()
    assert kept == model.state_dict()[name].tolist() != plain


@needs("float16")
@pytest.mark.parametrize("network", ["detr", "retinanet"])
def test_mixed_precision_has_about_the_same_losses(network: str, tmp_path: Path) -> None:
    # Steps whose gradients overflow are left out at first, so the rate is nearly zero here.
    stages = 3 if network == "detr" else 4
    recipe = TINY.changed(network=network, stages=stages, lr=1e-12)
    scenes = Scenes(4, 0, size=32)
    plain = train_detector(recipe, scenes, progress=False)
    out = DetectorRun(tmp_path)
    mixed = train_detector(recipe.changed(amp=True), scenes, scenes, out, progress=False)
    losses = [[one["train_loss"] for one in run.history] for run in (plain, mixed)]
    assert losses[1] == pytest.approx(losses[0], rel=0.02) and losses[1] != losses[0]
    assert {parameter.dtype for parameter in mixed.detector.parameters()} == {ft.float32}
    more = DetectorRun(tmp_path, resume=True)
    longer = recipe.changed(amp=True, epochs=3)
    assert len(train_detector(longer, scenes, scenes, more, progress=False).history) == 3


def test_boxes_are_in_pixels_of_the_image_before_it_was_resized() -> None:
    ft.seed(0)
    detector = Detector(TINY.changed(short_side=7, long_side=40), ["a"])
    image = ft.Generator(0).integers(0, 256, (3, 10, 33)).astype(ft.uint8)
    small = detector.resized(image)
    assert small.shape == (3, 7, 23)  # neither side by the same factor
    (found,) = detector.detect([image])
    same = Detector(TINY, ["a"])
    same.network = detector.network
    (before,) = same.detect([small])
    factors = ft.asarray([33 / 23, 10 / 7, 33 / 23, 10 / 7], dtype=ft.float32)
    assert found.boxes.numpy() == pytest.approx((before.boxes * factors).numpy(), rel=1e-6)


def test_anchors_have_three_sizes_of_a_level_and_three_shapes() -> None:
    recipe = TINY.changed(network="retinanet", stages=4, anchor_scale=2.0)
    anchors = make_anchors(recipe)
    boxes = anchors([(1, 1), (1, 1), (1, 1)]).numpy()
    sides = boxes[:, 2:] - boxes[:, :2]
    for level, stride in enumerate((8, 16, 32)):
        mine = sides[9 * level : 9 * level + 9]
        expected = [2 * stride * 2 ** (third / 3) for third in range(3) for _ in range(3)]
        assert sorted(mine.prod(1) ** 0.5) == pytest.approx(expected, rel=0.03)  # whole pixels
        ratios = sorted(mine[:, 1] / mine[:, 0])
        assert ratios == pytest.approx([0.5] * 3 + [1.0] * 3 + [2.0] * 3, rel=0.1)


def test_what_a_recipe_says_of_the_optimizer_reaches_it() -> None:
    optimizer = make_optimizer(Detector(TINY.changed(weight_decay=0.02, lr=0.5), ["a"]))
    assert {(g["weight_decay"], g["lr"]) for g in optimizer.param_groups} == {(0.02, 0.5)}
    scenes = Scenes(4, 0, size=32)
    accumulated = train_detector(TINY.changed(accumulate=2), scenes, progress=False)
    assert accumulated.history[-1]["step"] == 2  # of 2 batches an epoch
    # Gradients of a norm of at most 1e-6, twice, at a rate of 1.
    clipped = TINY.changed(optimizer="sgd", lr=1.0, weight_decay=0.0, clip=1e-6, epochs=1)
    trained = train_detector(clipped, scenes, progress=False)
    before = train_detector(clipped.changed(lr=1e-12), scenes, progress=False)
    pairs = zip(trained.detector.parameters(), before.detector.parameters(), strict=True)
    moved = max(float(ft.max(ft.absolute(a.tensor - b.tensor)).item()) for a, b in pairs)
    assert 0 < moved < 2.1e-6


@pytest.mark.parametrize("schedule", ["cosine", "exponential", "onecycle"])
def test_the_least_rate_is_a_rate_and_no_share_of_the_peak(schedule: str) -> None:
    recipe = Recipe(schedule=schedule, lr=0.2, min_lr=0.01, epochs=4, lr_decay=0.01)
    layer = nn.Linear(2, 2)
    groups = [
        {"params": [layer.weight], "lr": 0.2},
        {"params": [layer.bias], "lr": 0.02},
    ]
    optimizer = nn.SGD(groups, 0.2)
    steps = build_schedule(recipe, optimizer, 5)
    for _ in range(19):
        steps.step()
    # Groups with a rate of their own have their share of the least rate, too.
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.01, 0.001])


def test_the_class_is_among_the_best_so_many() -> None:
    found = Classified([0, 1, 2, 3], [0.5] * 4, [0, 2, 3, 1], places=[0, 1, 4, 5])
    assert [found.top(count) for count in (1, 2, 4, 5, 6)] == [0.25, 0.5, 0.5, 0.75, 1.0]
    assert found.accuracy == found.top(1) and found.mistakes == [1, 2, 3]


class Row(nn.Module):
    """The scores are the first row of the image."""

    def forward(self, images: ft.Array) -> ft.Array:
        return images[:, 0, 0]


def test_places_count_the_classes_before_the_true_one() -> None:
    classifier = Classifier(Row(), tuple("abcd"), (1, 4, 4), 255, Normalise((0.0,), (1.0,)))
    rows = [([1, 5, 3, 3], 2), ([9, 5, 3, 2], 0), ([4, 3, 2, 1], 3)]
    samples = [(ft.asarray([[row] * 4], dtype=ft.uint8), ft.asarray(label)) for row, label in rows]
    found = classifier.classify(as_dataset(samples), batch_size=2)
    assert (found.predicted, found.truth) == ([1, 0, 0], [2, 0, 3])
    assert found.places == [1, 0, 3]  # an equal score is not before
    assert [found.top(1), found.accuracy] == pytest.approx([1 / 3] * 2)
