"""What begins or ends at a step of the training: masks, effects, linear segmentation."""

from __future__ import annotations

from typing import Any

import fl_nn as nn
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser


class Phases(nn.Callback):
    """Turns masks on from `spec_augment_start` on, and other parts as `switches` say: functions
    that are given the number of the step that comes next."""

    def __init__(self, recipe: Recipe, recogniser: Recogniser, *switches: Any) -> None:
        self.recipe, self.recogniser, self.switches = recipe, recogniser, switches

    def on_epoch_start(self, trainer: nn.Trainer) -> None:
        self._next(trainer.step)

    def on_step(self, trainer: nn.Trainer) -> None:
        self._next(trainer.step)

    def _next(self, step: int) -> None:
        self.recogniser.masks = step >= self.recipe.spec_augment_start
        for switch in self.switches:
            switch(step)
