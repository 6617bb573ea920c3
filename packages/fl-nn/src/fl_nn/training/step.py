"""One step of a Trainer: from batches to an update of the weights, or to the reason for none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_nn import ranks
from fl_nn.errors import TrainingError
from fl_nn.optim.precision import wide_dtype
from fl_nn.schedules import ReduceLROnPlateau
from fl_nn.training.diagnosis import diagnose, gradients_are_finite
from fl_nn.training.inference import add
from fl_nn.training.messages import fields, scalar

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


def train_step(
    trainer: Trainer, batches: Sequence[Any], generators: Sequence[ft.Generator]
) -> float:
    """Train on this rank's share of batches that make one step; the mean loss over the samples of
    all ranks. Nothing is updated where the scaler has to skip. Raises TrainingError for a loss or a
    gradient that is not finite, which the scaler would have skipped; the weights are as before.

    generators   what the model draws from: it draws the same again when the cause is looked for
    """
    parts = [part for part in map(fields, batches) if len(part[-1])]  # a short batch: no share
    optimizer, scaler, communicator = trainer.optimizer, trainer.scaler, trainer.communicator
    # All batches are at hand, so that their weights in the mean are known from the first.
    samples = int(ranks.total(communicator, sum(len(part[-1]) for part in parts), ft.int64))
    states = [generator.state() for generator in generators]
    optimizer.zero_grad()
    loss = sum(_backward(trainer, part, len(part[-1]) / samples) for part in parts)
    loss = ranks.total(communicator, loss, wide_dtype(optimizer.parameters[0].dtype))
    trainer.last_loss, trainer.figures, trainer.samples = loss, {}, trainer.samples + samples
    problem = "" if math.isfinite(loss) or scaler is not None else f"the loss is {loss}"
    if not problem:
        ranks.sum_gradients(communicator, optimizer.parameters)
        if scaler is not None:
            scaler.pending = True  # also on a rank without a share
            if not scaler.unscale(optimizer):
                return loss
        elif not gradients_are_finite(optimizer.parameters):
            problem = f"the loss is {loss:g}, but its gradients are not finite"
    if problem:
        for generator, state in zip(generators, states):
            generator.set_state(state)
        raise TrainingError(_explained(trainer, problem, parts))
    trainer.tell("before_step")
    optimizer.step()
    trainer.step += 1
    if trainer.schedule is not None and not isinstance(trainer.schedule, ReduceLROnPlateau):
        trainer.schedule.step()
    if trainer.ema is not None:
        trainer.ema.update()
    return loss


def windows(batches: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """`size` batches at a time, at the end those that are left."""
    window: list[Any] = []
    for batch in batches:
        window.append(batch)
        if len(window) == size:
            yield window
            window = []
    if window:
        yield window


def _backward(trainer: Trainer, part: tuple[Any, ...], share: float) -> float:
    """Add `share` times the gradients of a batch; as much of its loss."""
    *inputs, target = part
    with trainer.casting():
        output = trainer.model(*inputs)
        loss = scalar(trainer.loss(output, target))
    value = float(loss.item())
    finite = math.isfinite(value)
    if trainer.scaler is not None:
        loss = trainer.scaler.scale(loss)
    elif not finite:
        return value
    loss.backward(None if share == 1.0 else ft.full((), share, loss.dtype, loss.device))
    if finite:
        add(trainer.meters, value, output, target)
    return value * share


def _explained(trainer: Trainer, problem: str, parts: Sequence[tuple[Any, ...]]) -> str:
    place = f"epoch {trainer.epoch + 1}, batch {trainer.batch + 1} (step {trainer.step + 1})"
    cause = diagnose(trainer.model, trainer.loss, parts, trainer.casting)
    kept = ""
    if trainer.out is not None and trainer.checkpoint.exists():
        kept = f" {trainer.checkpoint} holds the last good state."
    return (
        f"[Trainer] {problem} in {place}, lr={trainer.optimizer.lr}; the weights are those before "
        f"this step. First not finite: {cause}. Lower the learning rate, clip gradients, or "
        f"look at this batch.{kept}"
    )
