"""Forward, backward and update of a training step, without meters, logs and hooks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import fl_autograd as ag
import fl_tensor as ft
from fl_nn.module import Module
from fl_nn.optim import EMA, DynamicLossScaler, Optimizer
from fl_nn.training.checks import scalar
from fl_nn.training.diagnosis import gradients_are_finite, sums_are_finite
from fl_nn.values import tensor_of

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class ForwardResult(NamedTuple):
    """A batch that went through the model and back; its loss has not been looked at."""

    loss: ft.Tensor
    share: float
    output: Any
    target: Any


class Work(NamedTuple):
    """The parts of a Trainer that a step computes with."""

    model: Module
    loss: Callable[..., Any]
    optimizer: Optimizer
    scaler: DynamicLossScaler | None
    ema: EMA | None
    precision: ag.Policy | str | None
    #: Whether meters look at outputs.
    shows: bool

    @classmethod
    def of(cls, trainer: Trainer) -> Work:
        """That of a Trainer as it is now."""
        t = trainer
        shows = len(t.meters) > 1
        return cls(t.model, t.loss, t.optimizer, t.scaler, t.ema, t.precision, shows)

    def casting(self) -> AbstractContextManager[Any]:
        """The precision of model and loss, as a context."""
        return nullcontext() if self.precision is None else ag.autocast(self.precision)

    def backward(self, part: tuple[Any, ...], share: float) -> ForwardResult | None:
        """Add `share` times the gradients of a batch."""
        *inputs, target = part
        if not len(target):
            self._join_in(inputs)
            return None
        with self.casting():
            output = self.model(*inputs)
            loss = scalar(self.loss(output, target))
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward(None if share == 1.0 else ft.full((), share, scaled.dtype, scaled.device))
        seen = output if self.shows else None  # an output that nobody sees is not kept
        return ForwardResult(tensor_of(loss), share, seen, target)

    def _join_in(self, inputs: list[Any]) -> None:
        """Do the collectives of a batch that has no samples on this rank."""
        with self.casting():
            output = self.model(*inputs)
            outputs = output if isinstance(output, (tuple, list)) else [output]
            sums = [ft.sum(x) for x in outputs if isinstance(x, ag.Variable) and x.requires_grad]
        if sums:
            sum(sums[1:], sums[0]).backward()

    def update(
        self, losses: Sequence[ft.Tensor], before_step: Callable[[], object], known: float = 0.0
    ) -> bool:
        """Step along the gradients if they, `losses`, and the sum of `known` ones are finite;
        whether it was so."""
        optimizer, scaler = self.optimizer, self.scaler
        if scaler is not None:
            scaler.pending = True  # also on a rank without a share
            if not scaler.unscale(optimizer):
                return False
            before_step()
            optimizer.step()
            return True
        finite = sums_are_finite(optimizer.parameters, losses)
        before_step()
        if not math.isfinite(known):
            return False
        if optimizer.step_if(finite):
            return True
        # A sum may overflow where no element does.
        if all(math.isfinite(loss.item()) for loss in losses) and gradients_are_finite(
            optimizer.parameters
        ):
            optimizer.step()
            return True
        return False
