"""Training settings, their values for each data set, and the learning-rate schedule."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

WARM_UP_STEPS = 50


@dataclass(frozen=True)
class Recipe:
    """Settings that decide the numbers of a run; two runs of one recipe on one data set are equal.

    epochs        passes over the training samples
    batch_size    samples per step, over all ranks together
    lr, lr_decay  Adam's peak learning rate, and its factor per epoch
    dropout       probability before the last layer; 0 switches it off
    shift         random shifts by up to so many pixels, in training
    dtype         of weights and activations, "float32" or "float64"
    seed          of the weights, the order of samples, dropout and shifts
    limit         use so many training samples only, spread evenly over all
    compiled      steps run as graphs, captured once (`fl_nn.compile`); not with several ranks
    amp           float16 where it is safe, with loss scaling (mixed precision)
    ema           decay of averaged weights, which tests and predictions then use; 0: none
    clip          longest norm of the gradients; 0: any
    accumulate    batches per step
    patience      stop after so many epochs without a better accuracy on held-out samples; 0: never
    validation    share of the training samples that is held out, to be measured after each epoch
                  instead of the test samples; 0: none, unless a choice depends on it, then 0.1
    """

    epochs: int = 10
    batch_size: int = 64
    lr: float = 1e-3
    lr_decay: float = 0.8
    dropout: float = 0.5
    shift: int = 0
    dtype: str = "float32"
    seed: int = 0
    limit: int | None = None
    compiled: bool = False
    amp: bool = False
    ema: float = 0.0
    clip: float = 0.0
    accumulate: int = 1
    patience: int = 0
    validation: float = 0.0

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings."""
        return tuple(field.name for field in fields(cls))


_RECIPES: dict[str, dict[str, Any]] = {
    "digits": {"epochs": 15, "batch_size": 32, "lr": 2e-3, "lr_decay": 0.8},
    "mnist": {"epochs": 6, "batch_size": 64, "lr": 1e-3, "lr_decay": 0.6, "shift": 1},
}


def recipe_for(dataset: str, **given: Any) -> Recipe:
    """The recipe of a data set, with the settings in `given` that are not None in its place."""
    chosen = {name: value for name, value in given.items() if value is not None}
    return Recipe(**{**_RECIPES.get(dataset, {}), **chosen})


def learning_rate(recipe: Recipe, step: int, steps_per_epoch: int) -> float:
    """The rate of step `step` (from 0): a short warm-up, then exponential decay.

    It does not depend on the number of epochs: a run that is resumed for more of them goes on as
    if it had been longer from the start.
    """
    warm_up = min(1.0, (step + 1) / WARM_UP_STEPS)
    return recipe.lr * warm_up * recipe.lr_decay ** (step / max(1, steps_per_epoch))
