"""A run that is cut off after a step, as by a crash."""

from __future__ import annotations

import fl_nn as nn


class Cut(Exception):
    """What ends a run that is not told to end."""


class CutAt(nn.Callback):
    def __init__(self, step):
        self.at = step

    def on_step(self, trainer):
        if trainer.step == self.at:
            raise Cut
