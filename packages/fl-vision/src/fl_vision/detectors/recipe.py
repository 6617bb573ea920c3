"""`DetectionRecipe`: everything that decides which detector is trained, and how."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import Field, asdict, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from fl_tensor import untrusted_json
from fl_tensor.annotations import checked
from fl_tensor.files import open_regular
from fl_vision.errors import UsageError

_MAX_BYTES = 1 << 20
_GREATEST = 1e9


class Rule(NamedTuple):
    """What a setting may be: numbers from `least` to `most`, or one of `choices`."""

    group: str
    help: str
    least: float = 0.0
    most: float = _GREATEST
    choices: tuple[str, ...] = ()

    def problem(self, value: Any, kind: type) -> str | None:
        """What is wrong with a value, in words."""
        if kind is bool or isinstance(value, bool):
            return None if kind is bool and isinstance(value, bool) else "give true or false"
        if kind is str:
            if not isinstance(value, str) or "\0" in value:
                return "give text"
            if self.choices and value not in self.choices:
                return f"give one of {', '.join(self.choices)}"
            return None
        if not isinstance(value, int if kind is int else (int, float)):
            return f"give {'a whole' if kind is int else 'a'} number"
        if not self.least <= value <= self.most:
            return f"give {self.least:g} to {self.most:g}"
        return None


def _f(default: Any, group: str, help: str, *limits: Any, **more: Any) -> Any:
    return field(default=default, metadata={"rule": Rule(group, help, *limits, **more)})


@dataclass(frozen=True)
class DetectionRecipe:
    """Settings of a detector and of its training; the defaults are those of a small DETR.

    Every field is an option of `fl-vision detect --train`, `batch_size` as `--batch-size`, and a
    name of a recipe file, a JSON object. Raises `UsageError`, which names all settings that make no
    sense.
    """

    # network
    network: str = _f("detr", "network", "kind", choices=("detr", "retinanet"))
    backbone: str = _f(
        "resnet18", "network", "of the maps", choices=("resnet18", "resnet34", "resnet50")
    )
    width: int = _f(64, "network", "channels of its first stage", 1, 4096)
    stages: int = _f(4, "network", "its stages; retinanet needs 4", 1, 4)
    small_stem: bool = _f(False, "network", "3x3 convolution at full size before its stages")
    frozen_norm: bool = _f(False, "network", "its batch normalisation is constant")
    freeze: str = _f(
        "", "network", "its stages up to this one do not learn", choices=("", "C2", "C3", "C4")
    )
    size: int = _f(128, "network", "features of transformer or pyramid", 4, 8192)
    queries: int = _f(20, "network", "detr: boxes of an image", 1, 10_000)
    heads: int = _f(8, "network", "detr: of attention", 1, 128)
    hidden: int = _f(512, "network", "detr: of feed-forward layers", 1, 65_536)
    encoder_layers: int = _f(3, "network", "detr", 0, 48)
    decoder_layers: int = _f(3, "network", "detr", 1, 48)
    dropout: float = _f(0.0, "network", "detr: probability", 0, 0.9)
    depth: int = _f(2, "network", "retinanet: convolutions of a head", 0, 32)
    extra_levels: int = _f(0, "network", "retinanet: levels above those of the backbone", 0, 3)
    anchor_scale: float = _f(4.0, "network", "retinanet: smallest anchors, in strides", 0.1, 64)

    # loss
    no_object: float = _f(0.1, "loss", "detr: weight of this class", 0, 1)
    auxiliary: bool = _f(True, "loss", "detr: losses of earlier decoder layers, too")
    box_loss: str = _f("giou", "loss", "retinanet", choices=("giou", "l1", "smooth_l1"))

    # images
    augmentation: str = _f("flip", "images", "none, flip, detr, or a JSON file of transforms")
    short_side: int = _f(0, "images", "pixels; measured and detected so; 0: as images are", 0, 4096)
    long_side: int = _f(1333, "images", "most pixels, with short_side", 1, 8192)

    # optimisation
    epochs: int = _f(50, "optimisation", "passes over the training images", 1, 1_000_000)
    batch_size: int = _f(16, "optimisation", "images a step, of all ranks", 1, 65_536)
    optimizer: str = _f("adamw", "optimisation", "kind", choices=("adamw", "sgd"))
    lr: float = _f(3e-4, "optimisation", "learning rate, the peak of a schedule", 1e-12, 1e3)
    backbone_lr: float = _f(1.0, "optimisation", "factor for the backbone", 0, 100)
    weight_decay: float = _f(1e-4, "optimisation", "decoupled for adamw", 0, 10)
    schedule: str = _f(
        "step", "optimisation", "of the learning rate", choices=("step", "cosine", "constant")
    )
    warmup: int = _f(0, "optimisation", "steps of a linear rise")
    step_epochs: int = _f(40, "optimisation", "step: a decay every so many epochs", 1, 1_000_000)
    gamma: float = _f(0.1, "optimisation", "step: factor of a decay", 1e-9, 1)
    clip: float = _f(0.1, "optimisation", "longest norm of the gradients; 0: any")
    accumulate: int = _f(1, "optimisation", "batches a step", 1, 65_536)
    ema: float = _f(0.0, "optimisation", "decay of averaged weights; 0: none", 0, 0.999999)
    amp: bool = _f(False, "optimisation", "float16 where safe, loss scaling")
    dtype: str = _f("float32", "optimisation", "of weights", choices=("float32", "float64"))
    seed: int = _f(0, "optimisation", "of weights, order, augmentation", 0, (1 << 62) - 1)

    # detections
    most: int = _f(100, "detections", "boxes of an image", 1, 10_000)
    score_threshold: float = _f(0.05, "detections", "retinanet: least score", 0, 1)
    iou_threshold: float = _f(0.5, "detections", "retinanet: of suppression", 0, 1)

    def __post_init__(self) -> None:
        problems = []
        for each in fields(self):
            value, kind = getattr(self, each.name), kind_of(each)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                object.__setattr__(self, each.name, float(value))
            problem = rule_of(each).problem(value, kind)
            if problem is not None:
                problems.append(f"{each.name} is {value!r}: {problem}")
        if not problems:
            problems += self._contradictions()
        if problems:
            raise UsageError(f"[detection recipe] {'; '.join(problems)}")

    def _contradictions(self) -> list[str]:
        found = []
        if self.network == "retinanet" and self.stages != 4:
            found.append(f"stages is {self.stages}: retinanet needs 4")
        if self.network == "detr" and (self.size % self.heads or self.size % 4):
            found.append(f"size is {self.size}: give a multiple of 4 and of {self.heads} heads")
        if self.short_side > self.long_side:
            found.append(f"short_side {self.short_side} exceeds long_side {self.long_side}")
        return found

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(each.name for each in fields(cls))

    @classmethod
    @checked
    def read(cls, source: str | os.PathLike[str], **given: Any) -> DetectionRecipe:
        """The recipe in a JSON file, or one of those that `detection_recipes` lists; settings in
        `given` that are not None go before it. Raises `UsageError`, which names the file."""
        path, text = _text_of(source)
        try:
            values = untrusted_json.parse(text)
        except ValueError as error:
            raise UsageError(f"[detection recipe] {path}: no JSON ({error}); correct it") from error
        chosen = {name: value for name, value in given.items() if value is not None}
        try:
            return replace(cls.of(values), **chosen)
        except UsageError as error:
            raise UsageError(f"{error} (in {path})") from error

    @classmethod
    @checked
    def of(cls, values: object) -> DetectionRecipe:
        """The recipe of plain values, which are as untrusted as a file."""
        if not isinstance(values, Mapping):
            raise UsageError(
                f"[detection recipe] {type(values).__name__}: give an object of settings"
            )
        unknown = [str(name) for name in values if name not in cls.names()]
        if unknown:
            raise UsageError(
                f"[detection recipe] unknown settings {', '.join(map(repr, unknown[:5]))}: "
                "`fl-vision detect --help` lists all, with - in place of _"
            )
        return cls(**values)

    def values(self) -> dict[str, Any]:
        """All settings as plain values."""
        return asdict(self)


def rule_of(each: Field[Any]) -> Rule:
    """What a field of `DetectionRecipe` may be."""
    rule: Rule = each.metadata["rule"]
    return rule


def kind_of(each: Field[Any]) -> type:
    """The type of a field: str, int, float or bool."""
    return type(each.default)


def detection_recipes() -> tuple[str, ...]:
    """The names of the recipes of the package, which `DetectionRecipe.read` takes for a path."""
    folder = resources.files("fl_vision.detectors") / "recipes"
    return tuple(sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".json")))


def _text_of(source: str | os.PathLike[str]) -> tuple[str, bytes]:
    name = os.fspath(source)
    if not Path(name).exists():
        if name in detection_recipes():
            folder = resources.files("fl_vision.detectors") / "recipes"
            return name, (folder / f"{name}.json").read_bytes()
        raise UsageError(
            f"[detection recipe] {name}: no such file; the recipes of the package are "
            f"{', '.join(detection_recipes())}"
        )
    with open_regular(name) as file:
        text = file.read(_MAX_BYTES + 1)
    if len(text) > _MAX_BYTES:
        raise UsageError(f"[detection recipe] {name}: longer than {_MAX_BYTES} bytes; give another")
    return name, text
