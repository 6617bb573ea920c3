"""The step of a Trainer as a graph (``fl_nn.compile``).

Meters, logs, schedules and hooks of callbacks change objects of Python, and stay outside. With a
hook between backward and update, the graph ends with the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import fl_tensor as ft
from fl_nn.compiled import compile
from fl_nn.training.callback import Callback
from fl_nn.training.clip import ClipGradNorm
from fl_nn.training.work import Work
from fl_tensor.graph.compiled import Compiled

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class StepResult(NamedTuple):
    """Losses and outputs of the parts, figures of the step, and whether weights were updated: None
    where that is still to be done."""

    losses: list[ft.Tensor]
    outputs: list[Any]
    figures: dict[str, Any]
    made: bool | None


class CompiledStep:
    """A step of `work`: `call(parts, shares)`, of batches and of their shares in the mean."""

    def __init__(self, work: Work, callbacks: Sequence[Callback]) -> None:
        self.work, self.callbacks = work, [*callbacks]
        between = [c for c in callbacks if _hook(c) is not Callback.before_step]
        self._reported = 0
        clips = [c for c in between if isinstance(c, ClipGradNorm) and _is_plain(c)]
        splits = len(clips) < len(between)

        def step(parts: tuple[tuple[Any, ...], ...], shares: tuple[float, ...]) -> Any:
            work.optimizer.zero_grad()
            done = [work.backward(part, share) for part, share in zip(parts, shares, strict=True)]
            losses = [each.loss for each in done if each is not None]
            outputs = [each.output for each in done if each is not None]
            figures: dict[str, Any] = {}
            made = None
            if not splits:
                made = work.update(
                    losses, lambda: [figures.update(clip.clipped(work.optimizer)) for clip in clips]
                )
                if made and work.ema is not None:
                    work.ema.update()
            return losses, outputs, figures, made

        self.call: Compiled[Any] = compile(step)

    def is_of(self, work: Work, callbacks: Sequence[Callback]) -> bool:
        """Whether it is the step of these."""
        now, own = [*work, *callbacks], [*self.work, *self.callbacks]
        return len(now) == len(own) and all(a is b for a, b in zip(now, own, strict=True))

    def __call__(self, parts: Sequence[tuple[Any, ...]], shares: Sequence[float]) -> StepResult:
        # Floats are inputs of the graph, and 1 selects one without a product.
        wanted = [1 if share == 1.0 else share for share in shares]
        return StepResult(*self.call(tuple(parts), tuple(wanted)))

    def new_reasons(self) -> list[str]:
        """Why there was no graph, as far as that has not been said."""
        reasons = self.call.reasons()
        new, self._reported = reasons[self._reported :], len(reasons)
        return new


def step_of(trainer: Trainer, work: Work) -> CompiledStep | None:
    """The compiled step of a Trainer that wants one."""
    if not trainer.compiled or trainer.average is not None:
        return None
    known = trainer.compiled_step
    if known is None or not known.is_of(work, trainer.callbacks):
        known = trainer.compiled_step = CompiledStep(work, trainer.callbacks)
    return known


def _hook(callback: Callback) -> Any:
    return getattr(callback.before_step, "__func__", None)


def _is_plain(callback: ClipGradNorm) -> bool:
    clipped = getattr(callback.clipped, "__func__", None)
    return _hook(callback) is ClipGradNorm.before_step and clipped is ClipGradNorm.clipped
