"""``Classifier``: a trained network with its classes, image size and normalisation."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data import Batch, Dataset
from fl_nn import (
    EMA,
    Checkpoint,
    CheckpointError,
    Module,
    StateDictError,
    evaluating,
    load_checkpoint,
)
from fl_vision.datasets.image_data import image_and_label
from fl_vision.errors import UsageError
from fl_vision.models.by_name import create_network, network_names, parameter_count
from fl_vision.transforms import Normalise

__all__ = ["Classified", "Classifier", "load_classifier"]

METADATA = "fl_vision"
_FORMAT = 1
_MAX_CLASSES = 100_000
_MAX_SIDE = 1 << 14


@dataclass(frozen=True)
class Classified:
    """What a classifier says of some images; one entry per image in each list."""

    predicted: list[int]
    probability: list[float]
    truth: list[int]
    #: How many classes are before the true one: 0 where the prediction is right.
    places: list[int] = field(default_factory=list)

    @property
    def mistakes(self) -> list[int]:
        """The positions where `predicted` differs from `truth`."""
        pairs = zip(self.predicted, self.truth, strict=True)
        return [index for index, (guess, true) in enumerate(pairs) if guess != true]

    @property
    def accuracy(self) -> float:
        """The share of correct predictions, in [0, 1]."""
        return 1 - len(self.mistakes) / len(self.truth)

    def top(self, count: int) -> float:
        """The share of images whose class is among the `count` best, in [0, 1]."""
        return sum(place < count for place in self.places) / len(self.truth)


@dataclass(frozen=True)
class Classifier:
    """`model` maps normalised images (N, C, H, W) to logits (N, classes)."""

    model: Module
    classes: tuple[str, ...]
    image_shape: tuple[int, ...]
    peak: int
    normalise: Normalise
    #: The name and the options of `create_network`.
    network: Mapping[str, Any] = field(default_factory=lambda: {"name": "cnn"})

    def log_probabilities(self, pixels: ft.Tensor) -> ft.Array:
        """(N, C, H, W) pixels with levels 0 to `peak`, as the data set has them -> (N, classes)."""
        if pixels.shape[1:] != self.image_shape:
            raise ft.ShapeError(
                f"[classifier] images {pixels.shape}: expected (N, "
                f"{', '.join(map(str, self.image_shape))}), the size it was trained on"
            )
        with ft.reproducible(), evaluating(self.model):
            return ft.log_softmax(self.model(self.normalise(pixels)), 1)

    def classify(self, dataset: Dataset, batch_size: int = 256) -> Classified:
        """Predictions for samples `(pixels, label)`."""
        predicted: list[int] = []
        probability: list[float] = []
        truth: list[int] = []
        places: list[int] = []
        for batch in Batch(dataset, batch_size):
            pixels, labels = image_and_label(batch)
            scores = self.log_probabilities(pixels)
            predicted += ft.argmax(scores, axis=1).tolist()
            probability += ft.exp(ft.max(scores, axis=1)).tolist()
            truth += labels.tolist()
            own = ft.take_along_axis(scores, ft.expand_dims(labels, 1), axis=1)
            places += ft.sum(ft.greater(scores, own), axis=1).tolist()
        return Classified(predicted, probability, truth, places)

    def description(self) -> dict[str, Any]:
        """Plain values for the metadata of a checkpoint; `load_classifier` reads them."""
        return {
            "format": _FORMAT,
            "network": dict(self.network),
            "classes": list(self.classes),
            "image_shape": list(self.image_shape),
            "peak": self.peak,
            "mean": list(self.normalise.mean),
            "std": list(self.normalise.std),
            "dtype": str(self.normalise.dtype),
        }


def checkpoint_path(path: str | Path) -> Path:
    """`path` itself, or the checkpoint in it if it is the folder of a run."""
    path = Path(path)
    return path / "checkpoint.safetensors" if path.is_dir() else path


def load_classifier(path: str | Path) -> tuple[Classifier, Mapping[str, Any]]:
    """The classifier in a checkpoint, and all that the run noted, with "weights" in words. Of the
    folder of a run that keeps its best epochs, the best of them.

    Raises `CheckpointError` where the file is missing, damaged or of another kind.
    """
    folder, path = Path(path), checkpoint_path(path)
    checkpoint = load_checkpoint(path)
    best = best_of(checkpoint.position.get("history")) if folder.is_dir() else None
    if best is not None:
        path = folder / best
        checkpoint = load_checkpoint(path)
    notes = {**description_of(checkpoint, path), "weights": weights_of(checkpoint, best)}
    dtype = ft.dtype(notes["dtype"])
    shape, count = tuple(notes["image_shape"]), len(notes["classes"])
    network = _network_of(notes, path)
    name = network.pop("name")
    # Before anything of that size is built: the description is as untrusted as the rest.
    stored = sum(tensor.size for tensor in checkpoint.model.values())
    try:
        expected = parameter_count(name, count, shape, network)
        if stored == expected:
            model = create_network(name, count, shape, network).to(dtype)
    except UsageError as error:
        raise CheckpointError(f"{path}: its network cannot be made ({error})") from error
    if stored != expected:
        raise CheckpointError(
            f"{path}: has {stored} weights, the network for {count} classes of images {shape} has "
            f"{expected}; it was written for another network: train again"
        )
    restore_weights(checkpoint, model, path)
    normalise = Normalise(tuple(notes["mean"]), tuple(notes["std"]), dtype)
    found = Classifier(
        model, tuple(notes["classes"]), shape, notes["peak"], normalise, {"name": name, **network}
    )
    return found, notes


def _network_of(notes: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Name and options of the network, checked; files without it are of the small network."""
    found = notes.get("network", {"name": "cnn"})
    limits = {"width": 4096, "patch": 1024, "dropout": 1, "drop_path": 1, "small_stem": True}
    valid = isinstance(found, Mapping) and found.get("name") in network_names()
    for key, value in found.items() if valid else ():
        if key != "name":
            valid = valid and key in limits and isinstance(value, int | float)
            valid = valid and 0 <= value <= limits[key]
            valid = valid and (key not in ("width", "patch") or isinstance(value, int))
    if not valid:
        raise CheckpointError(f"{path}: its network is malformed; train it again")
    return dict(found)


def restore_weights(checkpoint: Checkpoint, model: Module, path: Path) -> None:
    """Give `model` the weights that its run was tested with: the averages where it has some."""
    checkpoint.restore_model(model)
    if "ema" in checkpoint.parts:
        averages = EMA(model)
        try:
            averages.load_state_dict(checkpoint.parts["ema"])
        except StateDictError as error:
            raise CheckpointError(f"{path}: {error}") from error
        averages.copy_to()


def best_of(history: object) -> str | None:
    """The name of the file of the best epoch, if the run keeps any."""
    last = history[-1] if isinstance(history, list) and history else None
    names = last.get("best") if isinstance(last, Mapping) else None
    name = names[0] if isinstance(names, list) and names else None
    # Untrusted, as all of the file is.
    return name if isinstance(name, str) and re.fullmatch(r"best-\d+\.safetensors", name) else None


def weights_of(checkpoint: Checkpoint, best: str | None) -> str:
    """Which weights these are, in words: of the `best` epoch, or of the last."""
    epoch = f"epoch {checkpoint.position.get('epoch', 0)}"
    if best is not None:
        return f"{epoch}, which has the best accuracy on held-out samples ({best})"
    batch = checkpoint.position.get("batch")
    return f"{epoch} and {batch} batches" if batch else epoch


def description_of(checkpoint: Checkpoint, path: Path) -> Mapping[str, Any]:
    """What `Classifier.description` wrote, checked. Raises `CheckpointError`."""
    notes = checkpoint.metadata.get(METADATA)
    if not isinstance(notes, Mapping) or notes.get("format") != _FORMAT:
        raise CheckpointError(
            f"{path}: is not a checkpoint of fl-vision, or of another version; train one with "
            "fl-vision train"
        )
    shape, classes = notes.get("image_shape"), notes.get("classes")
    valid = (
        isinstance(shape, list)
        and _numbers(shape, 3, 1, _MAX_SIDE)
        and all(isinstance(side, int) for side in shape)
        and min(shape[1:]) >= 4
        and isinstance(classes, list)
        and 2 <= len(classes) <= _MAX_CLASSES
        and all(isinstance(name, str) for name in classes)
        and isinstance(notes.get("peak"), int)
        and 1 <= notes["peak"] <= 255
        and _numbers(notes.get("mean"), shape[0], 0, 255)
        and _numbers(notes.get("std"), shape[0], 1e-6, 255)
        and notes.get("dtype") in ("float32", "float64")
    )
    if not valid:
        raise CheckpointError(f"{path}: its description is malformed; train it again")
    return notes


def _numbers(values: object, length: int, low: float, high: float) -> bool:
    return (
        isinstance(values, Sequence)
        and len(values) == length
        and all(isinstance(v, (int, float)) and low <= v <= high for v in values)
    )
