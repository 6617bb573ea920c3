"""``Recipe``: everything that decides what a classifier is, and how it is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fl_nn.extend import RecipeSettings, setting
from fl_vision.errors import RecipeError

__all__ = ["Recipe", "rates_of", "recipe_for"]

NETWORKS = (
    *("cnn", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    *("vit_ti", "vit_s", "vit_b", "vit_l", "convnext_t", "convnext_s", "convnext_b"),
)


@dataclass(frozen=True)
class Recipe(RecipeSettings):
    """Settings of a classifier and of its training: two runs of one recipe on one data set are
    equal, to the bit.

    Every field is an option of `fl-vision train`, `batch_size` as `--batch-size`, and a name of a
    recipe file, a JSON object. What neither gives is the default here. Raises `RecipeError`, which
    names all settings that make no sense.
    """

    PACKAGE: ClassVar[str] = "fl_vision"
    FOLDER: ClassVar[str] = "recipes/classification"
    COMMAND: ClassVar[str] = "fl-vision train"
    ERROR: ClassVar[type[Exception]] = RecipeError

    # network
    network: str = setting("cnn", "network", "kind and size", choices=NETWORKS)
    width: int = setting(0, "network", "resnet: channels of the first stage; 0: 64", 0, 4096)
    small_stem: bool = setting(False, "network", "resnet: for images of some 32 pixels")
    sync_norm: bool = setting(False, "network", "batch normalisation over the batch of all ranks")
    patch: int = setting(16, "network", "vit: pixels of a patch", 1, 1024)
    dropout: float = setting(0.5, "network", "cnn, vit: probability", 0, 1, below=True)
    drop_path: float = setting(
        0.0, "network", "vit, convnext: probability of the last block", 0, 1, below=True
    )
    weights: str = setting("", "network", "file of weights to begin with, of any classes")
    weights_from: str = setting(
        "fl",
        "network",
        "who wrote the names in that file",
        choices=("fl", "torchvision", "hugging_face"),
    )
    freeze: str = setting("", "network", "stem and stages up to this one do not learn: C2, C3, ...")
    rates: str = setting("", "network", "factors of the rate by name: conv1=0.1,layer1=0.1")

    # images
    normalise: str = setting(
        "data",
        "images",
        "mean and deviation of the training images, or of ImageNet",
        choices=("data", "imagenet"),
    )
    augment: str = setting("none", "images", "a chain by name, or a JSON file")
    shift: int = setting(0, "images", "random shifts of up to so many pixels", 0, 10_000)
    erase: float = setting(0.0, "images", "probability of random erasing", 0, 1)
    mixup: float = setting(0.0, "images", "alpha of mixup; 0: none", 0, 1e6)
    cutmix: float = setting(0.0, "images", "alpha of cutmix; 0: none", 0, 1e6)
    mix_switch: float = setting(0.5, "images", "share of cutmix where both are on", 0, 1)
    repeats: int = setting(1, "images", "copies of an image next to one another", 1, 100)

    # optimisation
    epochs: int = setting(10, "optimisation", "passes over the training set", 1, 1_000_000)
    batch_size: int = setting(64, "optimisation", "samples a step, of all ranks", 1, 1_000_000)
    optimizer: str = setting(
        "adam", "optimisation", "rule of the steps", choices=("adam", "adamw", "sgd")
    )
    lr: float = setting(1e-3, "optimisation", "peak learning rate", 0, 1e6, True)
    momentum: float = setting(0.9, "optimisation", "sgd", 0, 1, below=True)
    nesterov: bool = setting(False, "optimisation", "sgd: Nesterov's momentum")
    weight_decay: float = setting(0.0, "optimisation", "decoupled for adamw", 0, 1e3)
    decay_vectors: bool = setting(True, "optimisation", "biases and scales decay, too")
    schedule: str = setting(
        "exponential",
        "optimisation",
        "learning rate over the steps",
        choices=("exponential", "constant", "step", "cosine", "onecycle"),
    )
    lr_decay: float = setting(0.8, "optimisation", "exponential: factor of an epoch", 0, 1e3, True)
    milestones: str = setting("", "optimisation", "step: epochs of a decay, 60,90,120")
    gamma: float = setting(0.1, "optimisation", "step: factor of a decay", 0, 1, True)
    warmup: float = setting(0.0, "optimisation", "epochs of a linear rise", 0, 1e6)
    min_lr: float = setting(0.0, "optimisation", "least learning rate", 0, 1e6)
    label_smoothing: float = setting(
        0.0, "optimisation", "share of a label for all classes", 0, 1, below=True
    )
    class_weights: float = setting(
        0.0, "optimisation", "classes count by frequency to minus this power; 0: alike", 0, 10
    )
    clip: float = setting(0.0, "optimisation", "longest norm of the gradients; 0: any")
    accumulate: int = setting(1, "optimisation", "batches a step", 1, 1_000_000)
    ema: float = setting(
        0.0, "optimisation", "decay of averaged weights; 0: none", 0, 1, below=True
    )
    amp: bool = setting(False, "optimisation", "float16 where safe, loss scaling")
    compiled: bool = setting(False, "optimisation", "run steps as graphs; one rank")
    dtype: str = setting("float32", "optimisation", "of weights", choices=("float32", "float64"))
    seed: int = setting(0, "optimisation", "of weights, order, changes", 0, (1 << 62) - 1)

    # samples
    limit: int = setting(0, "samples", "training samples, evenly spread; 0: all")
    patience: int = setting(
        0, "samples", "stop after so many epochs of no better accuracy; 0: never", 0, 1_000_000
    )
    validation: float = setting(
        0.0, "samples", "share held out to choose by; 0: none, or 0.1 if needed", 0, 1, below=True
    )

    def contradictions(self) -> list[str]:
        kind = self.network.partition("_")[0]
        found = []
        if (self.width or self.small_stem) and not kind.startswith("resnet"):
            found.append(f"width and small_stem are of a resnet, and network is {self.network}")
        if self.drop_path and kind not in ("vit", "convnext"):
            found.append(f"drop_path is of vit and convnext, and network is {self.network}")
        if self.freeze and kind in ("cnn", "vit"):
            found.append(f"freeze is of resnet and convnext, and network is {self.network}")
        if self.weights_from != "fl" and not self.weights:
            found.append(f"weights_from is {self.weights_from} without weights: give a file")
        if self.schedule == "step" and not self.milestones:
            found.append("schedule step needs milestones: give epochs, such as 60,90,120")
        for text, read in ((self.milestones, milestones_of), (self.rates, rates_of)):
            try:
                read(text)
            except RecipeError as error:
                found.append(error.problem)
        return found


def milestones_of(text: str) -> tuple[int, ...]:
    """The epochs of "60,90,120". Raises `RecipeError`."""
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise RecipeError(f"milestones are {text!r}: give epochs, such as 60,90,120")
    return tuple(map(int, parts))


def rates_of(text: str) -> dict[str, float]:
    """Factors by names of "conv1=0.1,layer1=0.5". Raises `RecipeError`."""
    found = {}
    for part in text.split(",") if text.strip() else []:
        name, _, factor = part.strip().partition("=")
        try:
            found[name] = float(factor)
        except ValueError:
            found[name] = -1.0
        if not name or not 0 <= found[name] < float("inf"):
            raise RecipeError(f"rates are {text!r}: give NAME=FACTOR,NAME=FACTOR")
    return found


_RECIPES: dict[str, dict[str, Any]] = {
    "digits": {"epochs": 15, "batch_size": 32, "lr": 2e-3, "lr_decay": 0.8},
    "mnist": {"epochs": 6, "batch_size": 64, "lr": 1e-3, "lr_decay": 0.6, "shift": 1},
}


def recipe_for(dataset: str, **given: Any) -> Recipe:
    """The recipe of a data set, with the settings in `given` that are not None in its place."""
    chosen = {name: value for name, value in given.items() if value is not None}
    return Recipe(**{**_RECIPES.get(dataset, {}), **chosen})
