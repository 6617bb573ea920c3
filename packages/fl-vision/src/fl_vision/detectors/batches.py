"""Batches of images with boxes for training."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_data import Batch, Dataset, RandomTransform, Sample, Shuffle, check_index, mix
from fl_dist import Communicator
from fl_vision.datasets import DetectionDataset
from fl_vision.datasets.target import image_and_target
from fl_vision.detection import Objects
from fl_vision.detectors.detector import Detector, padded_inputs
from fl_vision.detectors.recipe import DetectionRecipe
from fl_vision.errors import UsageError
from fl_vision.training.batches import Workers
from fl_vision.transforms import (
    AnnotatedImage,
    Compose,
    RandomHorizontalFlip,
    RandomVerticalFlip,
    ResizeShortestSide,
    read_transforms,
)
from fl_vision.transforms.detection import detection_training

__all__ = ["make_augmentation", "training_batches"]

# Streams of random numbers that must not be one another's.
_ORDER, _CHANGES = 1, 2


def training_batches(
    detector: Detector,
    data: DetectionDataset,
    communicator: Communicator,
    prefetch: int = 0,
    processes: int = 0,
) -> Dataset:
    """Batches (images, mask, targets) in a new order and with new augmentation in each epoch; the
    last batch is left out where it is not full, so that all ranks have equal shares.

    Raises `UsageError` where a batch cannot be shared out, or the data make none.
    """
    recipe, ranks = detector.recipe, communicator.world_size
    if recipe.batch_size % ranks:
        raise UsageError(
            f"[detect] batches of {recipe.batch_size} images on {ranks} ranks: give a batch size "
            f"that is a multiple of {ranks}"
        )
    if len(data) < recipe.batch_size:
        raise UsageError(
            f"[detect] {len(data)} training images make no batch of {recipe.batch_size}: give more "
            "images or a smaller batch size"
        )
    ordered = Shuffle(data, seed=mix(recipe.seed, _ORDER))
    change = make_augmentation(recipe)
    samples = RandomTransform(ordered, partial(_changed, change), seed=mix(recipe.seed, _CHANGES))
    batches = Batch(
        samples,
        recipe.batch_size,
        "skip_last",
        collate=partial(_collated, detector.recipe.network == "detr"),
        rank=communicator.rank,
        world_size=ranks,
    )
    return Workers(prefetch, processes).around(_Inputs(batches, recipe.dtype))


def make_augmentation(recipe: DetectionRecipe) -> Compose:
    """The chain of transforms that `recipe.augmentation` names, or that its file has."""
    sizes = (ResizeShortestSide(recipe.short_side, recipe.long_side),) if recipe.short_side else ()
    if recipe.augmentation == "none":
        return Compose(sizes)
    if recipe.augmentation == "flip":
        return Compose((RandomHorizontalFlip(), *sizes))
    if recipe.augmentation == "flip_both":
        return Compose((RandomHorizontalFlip(), RandomVerticalFlip(), *sizes))
    if recipe.augmentation == "detr":
        return detection_training()
    return read_transforms(recipe.augmentation)


class _Inputs(Dataset):
    """Lists of images made to inputs of a network. Images of all sizes are handled by NumPy,
    whatever the current backend: their shapes need not be planned."""

    def __init__(self, batches: Dataset, dtype: str) -> None:
        self._batches, self._dtype = batches, dtype

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._batches,)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Any:
        with ft.use("numpy"):
            batch: Any = self._batches[check_index(index, len(self), "detection batches")]
        images, targets = batch
        return *padded_inputs(images, self._dtype), targets


def _changed(change: Compose, sample: Sample, generator: ft.Generator) -> Sample:
    """A sample (image, Target) as (image, Objects in pixels), augmented."""
    image, target = image_and_target(sample)
    scene = AnnotatedImage(
        image, target.boxes, target.labels, crowd=target.crowd, name=str(target.image_id)
    )
    if len(change):
        scene = change(scene, generator)
    # A box around a group is no object to learn, as in DETR's own data pipeline.
    crowd = [] if scene.crowd is None else scene.crowd.tolist()
    single = ~np.asarray(crowd, np.bool_)
    boxes = np.asarray(scene.boxes.tolist(), np.float32).reshape(-1, 4)
    labels = np.asarray(scene.labels.tolist(), np.int64)
    return scene.image, Objects(boxes[single], labels[single])


def _collated(centred: bool, samples: Any) -> Any:
    """A list of images, and their objects: of DETR as shares of the image, centre and size."""
    images = [image for image, _ in samples]
    targets = []
    for image, objects in samples:
        boxes = objects.boxes
        if centred:
            height, width = image.shape[1:]
            low, high = boxes[:, :2], boxes[:, 2:]
            boxes = np.concatenate([(low + high) / 2, high - low], 1)
            boxes = boxes / np.array([width, height] * 2, np.float32)
        targets.append(Objects(boxes, objects.labels))
    return images, targets
