"""``ClassifierRecipe``: the settings of a classifier of short texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fl_nn.extend import RecipeSettings
from fl_nn.extend import setting as _f
from fl_text.errors import RecipeError

__all__ = ["ClassifierRecipe"]


@dataclass(frozen=True)
class ClassifierRecipe(RecipeSettings):
    """Settings of a `GRUClassifier` of characters and of its training.

    Every field is an option of `fl-text classify train`, `batch_size` as `--batch-size`, and a name
    of a recipe file, a JSON object. What neither gives is the default here. Raises `RecipeError`,
    which names all settings that make no sense.
    """

    PACKAGE: ClassVar[str] = "fl_text"
    FOLDER: ClassVar[str] = "recipes/classifiers"
    COMMAND: ClassVar[str] = "fl-text classify train"
    ERROR: ClassVar[type[Exception]] = RecipeError

    # data
    vocabulary: int = _f(1000, "data", "most characters; rarer ones are unknown", 8, 1_000_000)
    valid_share: float = _f(0.1, "data", "share of each class for validation", 0, 1, False, True)
    balanced: bool = _f(False, "data", "draw every class as often, with repetition")
    epoch_share: float = _f(
        1.0, "data", "balanced: texts of an epoch, a share of all", 0, 1000, True
    )

    # network
    size: int = _f(256, "network", "features of a character, and units of a layer", 1, 1 << 14)
    layers: int = _f(2, "network", "layers of GRU", 1, 100)
    dropout: float = _f(0.0, "network", "probability, between layers", 0, 0.99)

    # optimisation
    epochs: int = _f(10, "optimisation", "passes over the texts", 1, 1_000_000)
    batch_size: int = _f(32, "optimisation", "texts a step, of all ranks", 1, 1_000_000)
    optimizer: str = _f("adamw", "optimisation", "kind", choices=("adamw", "adam", "sgd"))
    lr: float = _f(2e-3, "optimisation", "learning rate", 0, 1e6, True)
    momentum: float = _f(0.0, "optimisation", "sgd", 0, 0.9999)
    weight_decay: float = _f(0.0, "optimisation", "decoupled for adamw", 0, 1e3)
    clip: float = _f(1.0, "optimisation", "longest norm of the gradients; 0: none")
    seed: int = _f(0, "optimisation", "of weights, order, held texts, dropout", 0, (1 << 62) - 1)

    def contradictions(self) -> list[str]:
        found = []
        if self.momentum and self.optimizer != "sgd":
            found.append(f"momentum with optimizer {self.optimizer}: it is of sgd")
        if self.epoch_share != 1 and not self.balanced:
            found.append("epoch_share without balanced: all texts are an epoch")
        return found
