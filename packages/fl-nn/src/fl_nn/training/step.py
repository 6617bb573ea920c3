"""One training step: from batches to an update of the weights, or to an error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import fl_tensor as ft
from fl_autograd import Variable
from fl_memory import mark
from fl_nn.errors import DivergenceError, TrainingError
from fl_nn.layers.sync_batch_norm import is_synchronised, on_one_rank
from fl_nn.schedules import ReduceLROnPlateau
from fl_nn.training.checks import fields, scalar
from fl_nn.training.diagnosis import diagnose, gradients_are_finite, sums_are_finite
from fl_nn.training.inference import add
from fl_nn.values import tensor_of

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


class ForwardResult(NamedTuple):
    """A batch that went through the model and back; its loss has not been looked at."""

    loss: ft.Tensor
    share: float
    output: Any
    target: Any


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
    optimizer, scaler, average = trainer.optimizer, trainer.scaler, trainer.average
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
    unit: float = samples
    if average is not None:
        average.parameters = optimizer.parameters
        unit = average.begin(samples)
    loss, last = 0.0, None
    for number, part in enumerate(parts, start=1):
        loss += _measured(trainer, last)  # one part is computed after the other
        sends = average if number == len(parts) else None
        with nullcontext() if sends is None else sends.overlapped():
            last = _backward(trainer, part, len(part[-1]) / unit)
    if average is not None:
        loss = average.finish(loss + _measured(trainer, last))
        last, samples = None, average.samples
        if not samples:
            raise _no_samples(trainer)
    trainer.samples += samples
    made = _update(trainer, loss, last)
    loss += _measured(trainer, last)
    trainer.last_loss = loss
    if not made and scaler is None:
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
        if trainer.ema is not None:
            trainer.ema.update()
    return loss


def _update(trainer: Trainer, loss: float, last: ForwardResult | None) -> bool:
    """Step along the gradients if they are finite, and `loss` and that of `last`; whether it was
    so."""
    optimizer, scaler = trainer.optimizer, trainer.scaler
    if scaler is not None:
        scaler.pending = True  # also on a rank without a share
        if not scaler.unscale(optimizer):
            return False
        trainer.tell("before_step")
        optimizer.step()
        return True
    finite = sums_are_finite(optimizer.parameters, [] if last is None else [last.loss])
    trainer.tell("before_step")
    if not math.isfinite(loss):
        return False
    if optimizer.step_if(finite):
        return True
    # A sum may overflow where no element does.
    known = last is None or math.isfinite(last.loss.item())
    if known and gradients_are_finite(optimizer.parameters):
        optimizer.step()
        return True
    return False


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


def _backward(trainer: Trainer, part: tuple[Any, ...], share: float) -> ForwardResult | None:
    """Add `share` times the gradients of a batch."""
    *inputs, target = part
    if not len(target):
        _join_in(trainer, inputs)
        return None
    with trainer.casting():
        output = trainer.model(*inputs)
        loss = scalar(trainer.loss(output, target))
    scaled = loss if trainer.scaler is None else trainer.scaler.scale(loss)
    scaled.backward(None if share == 1.0 else ft.full((), share, scaled.dtype, scaled.device))
    seen = output if len(trainer.meters) > 1 else None  # an output that nobody sees is not kept
    return ForwardResult(tensor_of(loss), share, seen, target)


def _join_in(trainer: Trainer, inputs: list[Any]) -> None:
    """Do the collectives of a batch that has no samples on this rank."""
    with trainer.casting():
        output = trainer.model(*inputs)
        outputs = output if isinstance(output, (tuple, list)) else [output]
        sums = [ft.sum(x) for x in outputs if isinstance(x, Variable) and x.requires_grad]
    if sums:
        sum(sums[1:], sums[0]).backward()


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
        cause = diagnose(trainer.model, trainer.loss, parts, trainer.casting)
    kept = ""
    if trainer.out is not None and trainer.checkpoint.exists():
        kept = f" {trainer.checkpoint} holds the last good state."
    return (
        f"[Trainer] {problem} in {_place(trainer)}, lr={trainer.optimizer.lr}; the weights are "
        f"those before this step. First not finite: {cause}. Lower the learning "
        f"rate, clip gradients, or look at this batch.{kept}"
    )
