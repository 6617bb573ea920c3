"""`DetectionRecipe`: everything that decides which detector is trained, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fl_nn.extend import RecipeSettings, setting
from fl_vision.errors import RecipeError


@dataclass(frozen=True)
class DetectionRecipe(RecipeSettings):
    """Settings of a detector and of its training; the defaults are those of a small DETR.

    Every field is an option of `fl-vision detect --train`, `batch_size` as `--batch-size`, and a
    name of a recipe file, a JSON object. Raises `RecipeError`, which names all settings that make
    no sense.
    """

    PACKAGE: ClassVar[str] = "fl_vision"
    FOLDER: ClassVar[str] = "recipes/detection"
    COMMAND: ClassVar[str] = "fl-vision detect"
    ERROR: ClassVar[type[Exception]] = RecipeError

    # network
    network: str = setting("detr", "network", "kind", choices=("detr", "retinanet"))
    backbone: str = setting(
        "resnet18", "network", "of the maps", choices=("resnet18", "resnet34", "resnet50")
    )
    width: int = setting(64, "network", "channels of its first stage", 1, 4096)
    stages: int = setting(4, "network", "its stages; retinanet needs 4", 1, 4)
    small_stem: bool = setting(False, "network", "3x3 convolution at full size before its stages")
    frozen_norm: bool = setting(False, "network", "its batch normalisation is constant")
    sync_norm: bool = setting(False, "network", "batch normalisation over the batch of all ranks")
    freeze: str = setting(
        "", "network", "its stages up to this one do not learn", choices=("", "C2", "C3", "C4")
    )
    size: int = setting(128, "network", "features of transformer or pyramid", 4, 8192)
    queries: int = setting(20, "network", "detr: boxes of an image", 1, 10_000)
    heads: int = setting(8, "network", "detr: of attention", 1, 128)
    hidden: int = setting(512, "network", "detr: of feed-forward layers", 1, 65_536)
    encoder_layers: int = setting(3, "network", "detr", 0, 48)
    decoder_layers: int = setting(3, "network", "detr", 1, 48)
    dropout: float = setting(0.0, "network", "detr: probability", 0, 0.9)
    depth: int = setting(2, "network", "retinanet: convolutions of a head", 0, 32)
    extra_levels: int = setting(0, "network", "retinanet: levels above those of the backbone", 0, 3)
    anchor_scale: float = setting(
        4.0, "network", "retinanet: smallest anchors, in strides", 0.1, 64
    )

    # loss
    no_object: float = setting(0.1, "loss", "detr: weight of this class", 0, 1)
    auxiliary: bool = setting(True, "loss", "detr: losses of earlier decoder layers, too")
    box_loss: str = setting("giou", "loss", "retinanet", choices=("giou", "l1", "smooth_l1"))

    # images
    augmentation: str = setting(
        "flip", "images", "none, flip, flip_both, detr, or a JSON file of transforms"
    )
    short_side: int = setting(
        0, "images", "pixels; measured and detected so; 0: as images are", 0, 4096
    )
    long_side: int = setting(1333, "images", "most pixels, with short_side", 1, 8192)

    # optimisation
    epochs: int = setting(50, "optimisation", "passes over the training images", 1, 1_000_000)
    batch_size: int = setting(16, "optimisation", "images a step, of all ranks", 1, 65_536)
    optimizer: str = setting("adamw", "optimisation", "kind", choices=("adamw", "sgd"))
    lr: float = setting(3e-4, "optimisation", "learning rate, the peak of a schedule", 1e-12, 1e3)
    backbone_lr: float = setting(1.0, "optimisation", "factor for the backbone", 0, 100)
    weight_decay: float = setting(1e-4, "optimisation", "decoupled for adamw", 0, 10)
    schedule: str = setting(
        "step", "optimisation", "of the learning rate", choices=("step", "cosine", "constant")
    )
    warmup: int = setting(0, "optimisation", "steps of a linear rise")
    step_epochs: int = setting(
        40, "optimisation", "step: a decay every so many epochs", 1, 1_000_000
    )
    gamma: float = setting(0.1, "optimisation", "step: factor of a decay", 1e-9, 1)
    clip: float = setting(0.1, "optimisation", "longest norm of the gradients; 0: any")
    accumulate: int = setting(1, "optimisation", "batches a step", 1, 65_536)
    ema: float = setting(0.0, "optimisation", "decay of averaged weights; 0: none", 0, 0.999999)
    amp: bool = setting(False, "optimisation", "float16 where safe, loss scaling")
    dtype: str = setting("float32", "optimisation", "of weights", choices=("float32", "float64"))
    seed: int = setting(0, "optimisation", "of weights, order, augmentation", 0, (1 << 62) - 1)

    # detections
    most: int = setting(100, "detections", "boxes of an image", 1, 10_000)
    score_threshold: float = setting(0.05, "detections", "retinanet: least score", 0, 1)
    iou_threshold: float = setting(0.5, "detections", "retinanet: of suppression", 0, 1)

    def contradictions(self) -> list[str]:
        found = []
        if self.network == "retinanet" and self.stages != 4:
            found.append(f"stages is {self.stages}: retinanet needs 4")
        if self.network == "detr" and (self.size % self.heads or self.size % 4):
            found.append(f"size is {self.size}: give a multiple of 4 and of {self.heads} heads")
        if self.short_side > self.long_side:
            found.append(f"short_side {self.short_side} exceeds long_side {self.long_side}")
        return found
