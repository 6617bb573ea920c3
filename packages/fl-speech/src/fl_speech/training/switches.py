"""Parts of a training that begin or end at a step: masks, linear segmentation, a window."""

from __future__ import annotations

from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_speech.criteria import ASG, LinearSegmentation
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser


class TrainingLoss(nn.Module):
    """The criterion of a recogniser; for the first `linseg` steps with linear segmentation, which
    shares its transitions."""

    def __init__(self, recipe: Recipe, recogniser: Recogniser) -> None:
        self.criterion = recogniser.criterion
        #: What is used in the first steps.
        self.first: LinearSegmentation | None = None
        self.is_first = False
        if recipe.linseg and isinstance(self.criterion, ASG):
            self.first = LinearSegmentation(self.criterion.classes, scale_mode=recipe.scale)
            self.first.transitions = self.criterion.transitions

    def forward(self, output: Any, targets: ft.Array) -> Any:
        if self.is_first and self.first is not None:
            return self.first(output, targets)
        return self.criterion(output, targets)


class StepSwitches(nn.Callback):
    """Turns masks on from `spec_augment_start` on, and linear segmentation and the soft window of
    attention off after their steps."""

    def __init__(self, recipe: Recipe, recogniser: Recogniser, loss: TrainingLoss) -> None:
        self.recipe, self.recogniser, self.loss = recipe, recogniser, loss

    def on_epoch_start(self, trainer: nn.Trainer) -> None:
        self._next(trainer.step)

    def on_step(self, trainer: nn.Trainer) -> None:
        self._next(trainer.step)

    def _next(self, step: int) -> None:
        recipe = self.recipe
        self.recogniser.masks = step >= recipe.spec_augment_start
        self.loss.is_first = step < recipe.linseg
        if hasattr(self.recogniser.criterion, "pretraining"):
            self.recogniser.criterion.pretraining = step < recipe.pretrain_window
