"""Losses on the validation text during a training, and the best weights."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_data import Dataset
from fl_dist import Communicator
from fl_text.training.objective import Objective


def measure(
    objective: Objective, batches: Dataset, communicator: Communicator, most: int = 0
) -> tuple[float, int]:
    """The mean loss over targets in nats, -log p, and how many there were, over the batches of all
    ranks. A state is carried as in training, from an empty one. `most`: after so many targets of
    this rank no more batches are taken; 0 for all."""
    before, objective.caches = objective.caches, None
    total, count = 0.0, 0
    try:
        with nn.evaluating(objective), ft.reproducible():
            batches.set_epoch(batches.epoch)
            fields: Any
            for fields in batches.iterate():
                *inputs, targets = fields
                if not targets.size:
                    continue
                head = objective.network.head
                head.eval()
                loss = head.loss(objective(*inputs), targets, reduction="sum")
                total, count = total + float(loss.item()), count + targets.size
                if most and count >= most:
                    break
    finally:
        objective.caches = before
    if communicator.world_size > 1:
        both = communicator.all_reduce(ft.asarray([total, float(count)], ft.float64), "sum")
        total, count = float(both[0].item()), int(both[1].item())
    return total / max(1, count), count


class Validate(nn.Callback):
    """Measures a model after every epoch, and every so many steps: `valid_loss` in nats for each
    target and `valid_perplexity`. `keep` is called where the loss is the lowest so far.

    `points` has the step and the loss of each measurement.
    """

    def __init__(
        self,
        objective: Objective,
        batches: Dataset | None,
        keep: Callable[[], object],
        every: int = 0,
        most: int = 0,
    ) -> None:
        self.objective, self.batches, self.keep = objective, batches, keep
        self.every, self.most = every, most
        self.points: list[dict[str, Any]] = []
        self.best, self.best_step = math.inf, 0

    def on_step(self, trainer: nn.Trainer) -> None:
        # The end of an epoch is measured anyway.
        inside = trainer.batch < trainer.batches
        if self.every and trainer.step % self.every == 0 and inside:
            trainer.figures |= self.validate(trainer)

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        record["train_perplexity"] = _exp(record["train_loss"])
        record |= self.validate(trainer)

    def validate(self, trainer: nn.Trainer) -> dict[str, float]:
        """Measure now; the figures."""
        if self.batches is None:
            self.keep()
            return {}
        averages = trainer.ema.applied() if trainer.ema is not None else contextlib.nullcontext()
        precision = trainer.precision
        casting = contextlib.nullcontext() if precision is None else ag.autocast(precision)
        with averages:
            with casting:
                loss, _ = measure(self.objective, self.batches, trainer.communicator, self.most)
            if not math.isfinite(loss):
                raise nn.DivergenceError(
                    f"[train] the validation loss is {loss} after step {trainer.step}, "
                    f"lr={trainer.optimizer.lr}: lower the learning rate, or clip gradients"
                )
            self.points.append({"step": trainer.step, "valid_loss": loss})
            if loss < self.best:
                self.best, self.best_step = loss, trainer.step
                self.keep()
        return {"valid_loss": loss, "valid_perplexity": _exp(loss)}

    def finish(self, trainer: nn.Trainer) -> None:
        """Measure at the end of a training, unless that was just done."""
        if self.batches is None or not self.points or self.points[-1]["step"] != trainer.step:
            self.validate(trainer)

    def state_dict(self) -> dict[str, Any]:
        """Plain values: all measurements."""
        return {"points": [[point["step"], point["valid_loss"]] for point in self.points]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError when it is of another callback."""
        points = state.get("points")
        if not isinstance(points, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int for pair in points
        ):
            raise nn.StateDictError("this is not the state of a Validate")
        self.points = [{"step": step, "valid_loss": float(loss)} for step, loss in points]
        for point in self.points:
            if point["valid_loss"] < self.best:
                self.best, self.best_step = point["valid_loss"], point["step"]


class Figures(nn.Callback):
    """Perplexity, learning rate and tokens a second of each step, for the log. `tokens` are those
    of a step, 0 where they differ."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self._last = self._rate = 0.0

    def on_epoch_start(self, trainer: nn.Trainer) -> None:
        self._last, self._rate = time.monotonic(), trainer.optimizer.lr

    def on_step(self, trainer: nn.Trainer) -> None:
        now = time.monotonic()
        trainer.figures["perplexity"] = _exp(trainer.last_loss)
        trainer.figures["lr"] = self._rate
        if self.tokens:
            trainer.figures["tokens_per_second"] = self.tokens / max(1e-9, now - self._last)
        self._last, self._rate = now, trainer.optimizer.lr


def _exp(loss: float) -> float:
    return math.exp(min(loss, 700.0))
