"""Training of detectors: it learns, it repeats to the bit, and neither interruption nor ranks
change it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
import fl_vision.models as models
from fl_data import Dataset
from fl_nn import Trainer
from fl_vision.datasets import DetectionDataset, Scenes, Target
from fl_vision.detectors import (
    DetectionRecipe,
    Detector,
    DetectorRun,
    decoder_attention,
    draw_boxes,
    evaluate_detector,
    load_detector,
    make_network,
    train_detector,
)
from fl_vision.detectors.batches import training_batches
from fl_vision.detectors.optimisation import factor, make_optimizer
from fl_vision.detectors.sources import BoxSource, held_out
from fl_vision.detectors.training import box_problems
from fl_vision.errors import DataMissingError, RecipeError, UsageError

TINY: dict[str, Any] = {
    "width": 4,
    "stages": 3,
    "size": 8,
    "heads": 2,
    "hidden": 16,
    "queries": 7,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "batch_size": 2,
    "epochs": 2,
}
DETR = DetectionRecipe(**TINY)
RETINANET = DetectionRecipe(
    **{**TINY, "network": "retinanet", "stages": 4, "depth": 1, "anchor_scale": 2.0, "clip": 5.0}
)
EITHER = pytest.mark.parametrize("recipe", [DETR, RETINANET], ids=["detr", "retinanet"])


@pytest.fixture(autouse=True)
def numpy_backend() -> Iterator[None]:
    """Networks are too small for compiled operations to pay."""
    with ft.use("numpy"):
        yield


def scenes(count: int = 4, seed: int = 0) -> Scenes:
    return Scenes(count, seed, size=32)


class Empty(DetectionDataset):
    """Scenes whose boxes are taken away, or some of them."""

    def __init__(self, keep: int = 0, classes: tuple[str, ...] = Scenes.classes) -> None:
        self.keep, self.scenes, self.classes = keep, scenes(), classes

    def __len__(self) -> int:
        return len(self.scenes)

    def image(self, index: int) -> ft.Tensor:
        # Of two sizes.
        return self.scenes.image(index)[:, : 32 - 8 * (index % 2), :]

    def target(self, index: int) -> Target:
        target = self.scenes.target(index)
        boxes = ft.asarray([[2.0, 3.0, 20.0, 22.0]] * self.keep, ft.float32).reshape(self.keep, 4)
        one = slice(0, self.keep)
        return replace(
            target, boxes=boxes, labels=ft.zeros((self.keep,), dtype=ft.int64),
            areas=target.areas[one], crowd=target.crowd[one], masks=None,
        )  # fmt: skip


def history(trained: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in one.items() if k != "seconds"} for one in trained.history]


def weights(model: nn.Module) -> dict[str, bytes]:
    return {name: bytes(ft.asarray(v).tobytes()) for name, v in model.state_dict().items()}


def test_it_learns_two_scenes_by_heart() -> None:
    recipe = DetectionRecipe(
        network="retinanet", width=8, size=32, depth=1, anchor_scale=2.0, augmentation="none",
        epochs=60, batch_size=2, lr=5e-3, schedule="cosine", clip=5.0, seed=1,
    )  # fmt: skip
    trained = train_detector(
        recipe, scenes(2), scenes(2), DetectorRun(validate_every=60), progress=False
    )
    first, last = trained.history[0], trained.history[-1]
    assert last["train_loss"] < first["train_loss"] / 2
    assert last["valid_ap50"] > 0.9
    assert trained.best == (last["valid_ap"], 60)


@EITHER
def test_the_best_detector_is_in_the_folder(recipe: DetectionRecipe, tmp_path: Path) -> None:
    trained = train_detector(recipe, scenes(), scenes(2, 1), DetectorRun(tmp_path), progress=False)
    loaded = load_detector(tmp_path)
    assert loaded.classes == Scenes.classes and loaded.recipe == recipe
    assert weights(loaded) == weights(trained.detector)
    found = evaluate_detector(loaded, scenes(2, 1), batch_size=1)
    assert found.ap == pytest.approx(trained.best[0])
    # Each image alone or in a batch of other sizes.
    images = [scenes(2).image(0), scenes(2).image(1)[:1, :20]]
    for one, image in zip(loaded.detect(images), images, strict=True):
        assert one.boxes.shape[1] == 4 and len(one.scores) == len(one.labels) <= recipe.most
        if len(one.scores):
            assert 0 <= one.boxes.min().item() <= one.boxes.max().item() <= max(image.shape)


@EITHER
def test_interrupted_and_resumed_it_has_the_same_bits(
    recipe: DetectionRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe.changed(ema=0.9, dropout=0.1)

    def train(folder: str, **options: Any) -> Any:
        out = DetectorRun(tmp_path / folder, checkpoint_every=1, **options)
        return train_detector(recipe, scenes(), scenes(2, 1), out, progress=False)

    whole = train("whole")
    make = Trainer.train_step

    def killed(self: Trainer, *batches: Any) -> float:
        if self.step == 3:
            raise KeyboardInterrupt
        return make(self, *batches)

    monkeypatch.setattr(Trainer, "train_step", killed)
    with pytest.raises(KeyboardInterrupt):
        train("parts")
    monkeypatch.setattr(Trainer, "train_step", make)
    resumed = train("parts", resume=True)
    assert history(resumed) == history(whole)
    assert weights(resumed.detector) == weights(whole.detector)


@EITHER
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
def test_two_ranks_are_as_one(recipe: DetectionRecipe, dtype: str, tolerance: float) -> None:
    recipe = recipe.changed(dtype=dtype, frozen_norm=True, epochs=10)

    def program(communicator: dist.Communicator) -> Any:
        with ft.use("numpy"):
            trained = train_detector(
                recipe, scenes(), None, communicator=communicator, progress=False
            )
            return history(trained), [p.tolist() for p in trained.detector.network.parameters()]

    (alone, mine), (together, theirs) = program(dist.local()), dist.threads.run(2, program)[0]
    assert alone[-1]["step"] == 20
    losses = [[one["train_loss"] for one in each] for each in (alone, together)]
    assert losses[1] == pytest.approx(losses[0], rel=tolerance)

    def flat(values: Any) -> Iterator[float]:
        for value in values:
            yield from flat(value) if isinstance(value, list) else [value]

    ours, others = list(flat(mine)), list(flat(theirs))
    assert others == pytest.approx(ours, abs=tolerance * max(map(abs, ours)))


@EITHER
def test_batches_without_boxes_and_of_mixed_sizes_are_learnt_from(recipe: DetectionRecipe) -> None:
    trained = train_detector(recipe, Empty(0), Empty(1), progress=False)
    assert trained.history[-1]["train_loss"] > 0
    trained = train_detector(recipe, Empty(1), progress=False)
    assert trained.history[-1]["train_loss"] > 0


def batches(recipe: DetectionRecipe, data: DetectionDataset) -> Dataset:
    return training_batches(Detector(recipe, data.classes), data, dist.local())


def test_targets_are_shares_of_each_image() -> None:
    data = Empty(1)
    recipe = DETR.changed(augmentation="none", batch_size=4)
    images, mask, targets = batches(recipe, data)[0]
    assert images.shape == (4, 3, 32, 32) and mask.dtype is ft.bool
    heights = [int(ft.sum(one[:, 0].astype(ft.int64)).item()) for one in mask]
    assert sorted(heights) == [24, 24, 32, 32]
    for height, one in zip(heights, targets, strict=True):
        assert one.boxes.tolist()[0] == pytest.approx(
            [11 / 32, 12.5 / height, 18 / 32, 19 / height]
        )
        assert float(ft.max(ft.absolute(images[heights.index(24), :, 24:])).item()) == 0


def test_augmentation_depends_on_seed_epoch_and_index() -> None:
    made = batches(DETR, scenes())
    first = [one.boxes.tolist() for one in made[0][2]]
    assert [one.boxes.tolist() for one in made[0][2]] == first
    made.set_epoch(1)
    assert [one.boxes.tolist() for one in made[0][2]] != first


@pytest.mark.parametrize(("augmentation", "places"), [("none", 1), ("flip", 2), ("flip_both", 4)])
def test_flips_mirror_boxes_along_one_axis_or_both(augmentation: str, places: int) -> None:
    made = batches(DETR.changed(augmentation=augmentation, batch_size=1), Empty(1))
    places_of: dict[tuple[float, ...], set[tuple[float, ...]]] = {}
    for epoch in range(20):
        made.set_epoch(epoch)
        for _, _, (objects,) in made.iterate():
            x, y, width, height = (round(float(each), 4) for each in objects.boxes[0])
            places_of.setdefault((width, height), set()).add((x, y))
    assert [len(found) for found in places_of.values()] == [places] * 2  # images of two sizes


def test_the_backbone_has_its_own_rate_and_frozen_stages_none() -> None:
    recipe = DETR.changed(backbone_lr=0.1, lr=1e-3, freeze="C2", frozen_norm=True)
    optimizer = make_optimizer(Detector(recipe, ["a"]))
    rates = sorted(group["lr"] for group in optimizer.param_groups)
    assert rates == pytest.approx([1e-4, 1e-3])
    network = make_network(recipe, 1)
    frozen = {n for n, p in network.named_parameters() if not p.requires_grad}
    assert "backbone.conv1.weight" in frozen and "backbone.layer1.0.conv1.weight" in frozen
    assert "backbone.layer2.0.conv1.weight" not in frozen


def test_schedules() -> None:
    step = DETR.changed(schedule="step", step_epochs=2, gamma=0.5, warmup=4)
    assert [factor(step, n, 3) for n in (0, 3, 5, 6, 12)] == [0.25, 1, 1, 0.5, 0.25]
    cosine = DETR.changed(schedule="cosine", epochs=4)
    assert [factor(cosine, n, 5) for n in (0, 10, 20)] == pytest.approx([1, 0.5, 0])


@EITHER
def test_weights_of_other_classes_are_a_beginning(recipe: DetectionRecipe, tmp_path: Path) -> None:
    path = tmp_path / "published.safetensors"
    published = make_network(recipe, 9)
    nn.save_weights(path, published)
    out = DetectorRun(weights=path)
    trained = train_detector(
        recipe.changed(lr=1e-12, epochs=1), scenes(), None, out, progress=False
    )
    head = "class_embed" if recipe.network == "detr" else "classification.predict"
    assert all(name.startswith(head) for name in trained.left_out) and trained.left_out
    name = next(n for n, _ in published.named_parameters() if "backbone" in n)
    theirs = dict(published.named_parameters())[name]
    mine = dict(trained.detector.network.named_parameters())[name]
    assert float(ft.max(ft.absolute(mine.tensor - theirs.tensor)).item()) < 1e-9


def test_weights_of_a_backbone_are_a_beginning_and_others_an_error(tmp_path: Path) -> None:
    backbone, other = tmp_path / "backbone.safetensors", tmp_path / "other.safetensors"
    nn.save_weights(backbone, models.ResNet((2, 2, 2), 4, 10, bottleneck=False))
    out = DetectorRun(weights=backbone)
    trained = train_detector(DETR.changed(epochs=1), scenes(), None, out, progress=False)
    assert "query_embed" in trained.left_out
    assert not any(name.startswith("backbone") for name in trained.left_out)
    nn.save_weights(other, nn.Linear(2, 3))
    with pytest.raises(UsageError, match=r"--weights .*other.safetensors fits no network"):
        train_detector(DETR, scenes(), None, DetectorRun(weights=other), progress=False)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="classes 'dog', the detector has 'disk'"):
        train_detector(DETR, scenes(), Empty(1, ("dog",)), progress=False)
    with pytest.raises(UsageError, match="4 training images make no batch of 5"):
        train_detector(DETR.changed(batch_size=5), scenes(), progress=False)
    with pytest.raises(UsageError, match="none of 4 training images has a box"):
        box_problems(DETR, Empty(0))
    (classes, full) = box_problems(DETR.changed(queries=1), Empty(2, ("disk", "x", "y")))
    assert classes == "2 classes have no training boxes: x, y"
    assert full.startswith("4 training images have more than 1 boxes")
    with pytest.raises(UsageError, match="each once"):
        Detector(DETR, ["a", "a"])
    with pytest.raises(UsageError, match="uint8"):
        Detector(DETR, ["a"]).detect([ft.zeros((3, 8, 8))])
    with pytest.raises(UsageError, match="only a detr"):
        decoder_attention(Detector(RETINANET, ["a"]), scenes().image(0))
    with pytest.raises(DataMissingError, match="detector.json: no such file"):
        load_detector("nowhere")


def test_recipes() -> None:
    assert DetectionRecipe.recipe_names() == ("detr-resnet50", "scenes-detr", "scenes-retinanet")
    published = DetectionRecipe.read("detr-resnet50")
    assert (published.lr, published.backbone_lr, published.clip) == (1e-4, 0.1, 0.1)
    assert (published.epochs, published.step_epochs, published.queries) == (300, 100, 100)
    with pytest.raises(RecipeError, match="stages is 3: retinanet needs 4"):
        DetectionRecipe(network="retinanet", stages=3)
    with pytest.raises(RecipeError, match="size is 10"):
        DetectionRecipe(size=10)


def test_sources(tmp_path: Path) -> None:
    assert len(BoxSource("scenes:3:1").open()) == 3
    for name, words in (
        ("scenes:x", "write scenes:COUNT"),
        ("scenes:0", "give 1 to"),
        ("scenes:3:1:8", "32 to 1024"),
    ):
        with pytest.raises(UsageError, match=words):
            BoxSource(name).open()
    with pytest.raises(DataMissingError, match="instances.json: no such file"):
        BoxSource(str(tmp_path)).open()
    (tmp_path / "boxes.lst").write_text("a.png\t0 0 4 4 0\n")
    with pytest.raises(DataMissingError, match="--classes"):
        BoxSource(str(tmp_path / "boxes.lst")).open()
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    assert BoxSource(str(tmp_path / "boxes.lst")).open().classes == ("cat", "dog")
    train, valid = held_out(scenes(8), 0.25)
    assert (len(train), len(valid)) == (6, 2)
    assert train.numbers + valid.numbers != tuple(range(8))
    with pytest.raises(UsageError, match="leaves none"):
        held_out(scenes(2), 0.1)


def test_pictures() -> None:
    detector = Detector(DETR, Scenes.classes)
    image = scenes().image(1)
    (found,) = detector.detect([image])
    drawn = draw_boxes(image, found, detector.classes, least=0.0)
    assert drawn.shape == image.shape and drawn.dtype is ft.uint8
    assert drawn.tolist() != image.tolist()
    assert draw_boxes(image, found, detector.classes, least=1.0).tolist() == image.tolist()
    weights = decoder_attention(detector, image[:, :17])
    assert weights.shape == (7, 2, 2)
    assert ft.sum(weights, axis=(1, 2)).tolist() == pytest.approx([1.0] * 7, abs=1e-5)
