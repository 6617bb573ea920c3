"""One training step: from batches to an update of the weights, or to an error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import fl_tensor as ft
from fl_memory import mark
from fl_nn.errors import DivergenceError, TrainingError
from fl_nn.layers.sync_batch_norm import is_synchronised, on_one_rank
from fl_nn.schedules import ReduceLROnPlateau
from fl_nn.training.checks import fields
from fl_nn.training.compiled_step import CompiledStep, step_of
from fl_nn.training.diagnosis import diagnose
from fl_nn.training.inference import add
from fl_nn.training.work import ForwardResult, Work

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


def train_step(
    trainer: Trainer, batches: Sequence[Any], generators: Sequence[ft.Generator]
) -> float:
    """Train on this rank's share of batches that make one step; the mean loss over the samples of
    all ranks. Nothing is updated where the scaler has to skip. DivergenceError for a loss or a
    gradient that is not finite, which the scaler would have skipped; the weights are as before.

    A deferred backend computes the step as a whole: on one rank without a scaler nothing is looked
    at before the weights are updated.

    generators   what the model draws from: it draws the same again when the cause is looked for
    """
    optimizer, average, work = trainer.optimizer, trainer.average, Work.of(trainer)
    parts = [*map(fields, batches)]
    if average is None or not is_synchronised(trainer.model):
        parts = [part for part in parts if len(part[-1])]  # a short batch: no share
    # All batches are at hand, so that their weights in the mean are known from the first.
    samples = sum(len(part[-1]) for part in parts)
    if average is None and not samples:
        raise _no_samples(trainer)
    states = [generator.state() for generator in generators]
    mark("step", trainer.step)
    optimizer.zero_grad()
    trainer.figures = {}
    compiled = step_of(trainer, work)
    if compiled is not None:
        loss, made = _by_graph(trainer, work, compiled, parts, samples)
    else:
        loss, made = _by_code(trainer, work, parts, samples)
    trainer.last_loss = loss
    if not made and trainer.scaler is None:
        for generator, state in zip(generators, states):
            generator.set_state(state)
        optimizer.zero_grad()
        problem = f"the loss is {loss}"
        if math.isfinite(loss):
            problem = f"the loss is {loss:g}, but its gradients are not finite"
        raise DivergenceError(_explained(trainer, problem, parts))
    if made:
        trainer.step += 1
        if trainer.schedule is not None and not isinstance(trainer.schedule, ReduceLROnPlateau):
            trainer.schedule.step()
    return loss


def _by_code(
    trainer: Trainer, work: Work, parts: Sequence[tuple[Any, ...]], samples: int
) -> tuple[float, bool]:
    """The mean loss, and whether the weights were updated."""
    average = trainer.average
    unit: float = samples
    if average is not None:
        average.parameters = work.optimizer.parameters
        unit = average.begin(samples)
    loss, last = 0.0, None
    for number, part in enumerate(parts, start=1):
        loss += _measured(trainer, last)  # one part is computed after the other
        sends = average if number == len(parts) else None
        with nullcontext() if sends is None else sends.overlapped():
            last = work.backward(part, len(part[-1]) / unit)
    if average is not None:
        loss = average.finish(loss + _measured(trainer, last))
        last, samples = None, average.samples
        if not samples:
            raise _no_samples(trainer)
    trainer.samples += samples
    made = _update(trainer, work, [] if last is None else [last.loss], loss)
    return loss + _measured(trainer, last), made


def _by_graph(
    trainer: Trainer,
    work: Work,
    compiled: CompiledStep,
    parts: Sequence[tuple[Any, ...]],
    samples: int,
) -> tuple[float, bool]:
    """As `_by_code`, on one rank."""
    shares = [len(part[-1]) / samples for part in parts]
    losses, outputs, trainer.figures, made = compiled(parts, shares)
    for reason in compiled.new_reasons():
        trainer.report.not_compiled(reason)
    trainer.samples += samples
    if made is None:
        made = _update(trainer, work, losses)
    loss = 0.0
    for part, value, share, output in zip(parts, losses, shares, outputs):
        loss += _measured(trainer, ForwardResult(value, share, output, part[-1]))
    return loss, made


def _update(trainer: Trainer, work: Work, losses: Sequence[ft.Tensor], known: float = 0.0) -> bool:
    made = work.update(losses, lambda: trainer.tell("before_step"), known)
    if made and work.ema is not None:
        work.ema.update()
    return made


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


def _measured(trainer: Trainer, done: ForwardResult | None) -> float:
    """The share of a batch in the loss; meters are given the batch if its loss is finite."""
    if done is None:
        return 0.0
    value = float(done.loss.item())
    if math.isfinite(value):
        add(trainer.meters, value, done.output, done.target)
    return value * done.share


def _no_samples(trainer: Trainer) -> TrainingError:
    return TrainingError(f"[Trainer] no samples in {_place(trainer)}: leave empty batches out")


def _place(trainer: Trainer) -> str:
    return f"epoch {trainer.epoch + 1}, batch {trainer.batch + 1} (step {trainer.step + 1})"


def _explained(trainer: Trainer, problem: str, parts: Sequence[tuple[Any, ...]]) -> str:
    with on_one_rank(trainer.model):
        cause = diagnose(trainer.model, trainer.loss, parts, Work.of(trainer).casting)
    kept = ""
    if trainer.out is not None and trainer.checkpoint.exists():
        kept = f" {trainer.checkpoint} holds the last good state."
    return (
        f"[Trainer] {problem} in {_place(trainer)}, lr={trainer.optimizer.lr}; the weights are "
        f"those before this step. First not finite: {cause}. Lower the learning "
        f"rate, clip gradients, or look at this batch.{kept}"
    )
