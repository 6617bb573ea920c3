"""ClipGradNorm: gradient clipping before every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_nn.errors import TrainingError
from fl_nn.optim import Optimizer
from fl_nn.optim.clipping import clip_grad_norm_
from fl_nn.training.callback import Callback

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class ClipGradNorm(Callback):
    """`clip_grad_norm_` over all parameters of the optimizer before every step; the norm as it was
    is the figure `grad_norm` of the step. With several ranks it is that of the whole batch."""

    def __init__(self, max_norm: float, norm_type: float = 2.0) -> None:
        if not max_norm > 0.0:
            raise TrainingError(f"[ClipGradNorm] max_norm={max_norm}: give a number above 0")
        self.max_norm, self.norm_type = max_norm, norm_type

    def before_step(self, trainer: Trainer) -> None:
        trainer.figures.update(self.clipped(trainer.optimizer))

    def clipped(self, optimizer: Optimizer) -> dict[str, ft.Tensor]:
        """Clip the gradients of an optimizer; the figures of the step."""
        norm = clip_grad_norm_(optimizer.parameters, self.max_norm, self.norm_type)
        return {"grad_norm": norm}
