"""Trainer: the loop over epochs and batches, on one rank or many."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_data import Dataset, as_dataset, restore_seeds
from fl_nn import distributed
from fl_nn.checkpoint import Part
from fl_nn.data_parallel import GradientAverage
from fl_nn.errors import CheckpointError
from fl_nn.meters import AverageValueMeter, Meter
from fl_nn.module import Module
from fl_nn.optim import EMA, DynamicLossScaler, Optimizer
from fl_nn.schedules import LRScheduler, ReduceLROnPlateau
from fl_nn.training import checkpointing
from fl_nn.training.callback import Callback, states_of
from fl_nn.training.checks import (
    check_epochs,
    check_length,
    check_meters,
    check_not_sharded,
    check_parts,
    check_settings,
)
from fl_nn.training.compiled_step import CompiledStep
from fl_nn.training.inference import fixed_epoch_dataset, inference, measure, predicted, results
from fl_nn.training.position import Position
from fl_nn.training.report import report_of
from fl_nn.training.run_folder import CHECKPOINT, LOG, RunFolder
from fl_nn.training.signals import Interrupted, StopSignals, stop_signals
from fl_nn.training.step import train_step, windows
from fl_nn.training.work import Work
from fl_tensor.annotations import Checked


class Trainer(Checked):
    """Trains `model` on batches that are tuples (input, ..., target).

    model, optimizer   the optimizer holds parameters of the model, or of a loss that has some
                       (TrainingError otherwise)
    loss               `loss(model(input, ...), target)` is a scalar: the mean over the batch
    callbacks          what else happens, at which turn: EarlyStop, KeepBest, ClipGradNorm,
                       TensorBoard, and a `Callback` of yours
    communicator       ranks that train together, each with its share of every batch (`Batch(...,
                       rank=, world_size=)`). Rank 0's weights are given to all; gradients are
                       averaged over the samples of the global batch, whatever the shares
    meters             figures by name, `meter.add(output, target)`, for training and validation
    out                folder for `checkpoint.safetensors` and `log.jsonl`, which belongs to this
                       process while `fit` runs (`run_folder`); without, none is written
    overwrite          a run that `out` holds is replaced. Otherwise it is refused (RunFolderError)
                       unless `resume` goes on with it
    checkpoint_every   also write a checkpoint every so many steps, not just after each epoch
    log_every          log the loss of every so many steps (0: epochs alone)
    progress           False: say nothing. Only rank 0 speaks, on `stream` (standard error)
    schedule           learning rates: goes on after every step, and `ReduceLROnPlateau` after every
                       epoch, with the validation loss if there is one, or else the training loss
    accumulate         how many batches make a step, along the mean gradient of all their samples
    ema                averages of the weights, updated after every step: `evaluate` (validation
                       too) and `predict` use them
    compiled           run steps as graphs (`fl_nn.compile`). One that has none runs as without, and
                       the reason is reported once. Meters, schedule and hooks stay outside; after
                       the step, gradients are gone. Not yet with several ranks
    precision          model and loss run under `ag.autocast(precision)`: a policy, or "O1"
    scaler             scales the loss and may skip steps, of all ranks together: batches that make
                       no step. A loss that is not finite then is such a batch, and no error
    reducer            sums gradients over ranks: `fl_dist.BucketReducer(communicator)` unless
                       another is given, say one that compresses them
    parts              what else checkpoints keep, by name: modules, optimizers, all with a
                       `state_dict`
    metadata           plain values to keep in checkpoints

    `epoch` epochs, `batch` batches of the present one (of `batches`) and `step` steps in all are
    done; `samples` were trained on, on all ranks, since this object began. `last_loss` is that of
    the last step, `figures` has what callbacks say of it; `history` has a record for every epoch.
    `resume()` and the same `fit` continue an interrupted run, also from the middle of an epoch, and
    end with the same bits as one without interruption. Another number of ranks may go on: with the
    same global batches no sample is repeated or left out, and what is random in the model is drawn
    from other streams.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Callable[..., Any],
        *,
        callbacks: Iterable[Callback] = (),
        communicator: dist.Communicator | None = None,
        meters: Mapping[str, Meter] | None = None,
        out: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        checkpoint_every: int | None = None,
        log_every: int = 0,
        progress: bool = True,
        stream: TextIO | None = None,
        schedule: LRScheduler | None = None,
        accumulate: int = 1,
        ema: EMA | None = None,
        compiled: bool = False,
        precision: ag.Policy | str | None = None,
        scaler: DynamicLossScaler | None = None,
        reducer: dist.Reducer | None = None,
        parts: Mapping[str, Part] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        check_parts(model, optimizer, loss, communicator)
        check_settings(accumulate, checkpoint_every, log_every)
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.callbacks = list(callbacks)
        self.communicator = communicator or dist.local()
        check_meters(meters or {})
        self.meters: dict[str, Meter] = {"loss": AverageValueMeter(), **(meters or {})}
        self.out = None if out is None else Path(out)
        lead = self.communicator.rank == 0
        self._folder = RunFolder(self.out if lead else None, overwrite)
        self.checkpoint_every, self.accumulate = checkpoint_every, accumulate
        self.schedule, self.ema, self.scaler, self.precision = schedule, ema, scaler, precision
        self.compiled = compiled
        #: With `compiled`, the step since the first one; `compiled_step.call.explain()` says which
        #: graphs there are.
        self.compiled_step: CompiledStep | None = None
        self.metadata = dict(metadata or {})
        own = {"schedule": schedule, "scaler": scaler, "ema": ema}
        self.parts: dict[str, Part] = {**(parts or {}), **states_of(self.callbacks)}
        self.parts |= {name: part for name, part in own.items() if part is not None}
        several = self.communicator.world_size > 1
        #: What averages gradients over ranks; None on one rank.
        self.average = (
            GradientAverage(self.communicator, optimizer.parameters, reducer) if several else None
        )
        self.epoch = self.batch = self.step = self.samples = self.epochs = self.batches = 0
        self.last_loss = math.nan
        self.figures: dict[str, Any] = {}
        self.history: list[dict[str, Any]] = []
        self.report = report_of(
            lead,
            progress,
            stream,
            None if self.out is None else self.out / LOG,
            log_every,
        )
        self._signals = StopSignals()
        self._stopped = ""
        self._expected: int | None = None
        #: What `fit` was given: training data, and validation data if there are some.
        self.datasets: list[Dataset] = []
        self._restored: Position | None = None
        self._seconds = 0.0
        distributed.separate_generators(self.communicator, model)
        self._generators = [generator for _, generator in model.named_generators()]

    # ---- training ----------------------------------------------------------------------------

    def fit(
        self, train_batches: object, valid_batches: object | None = None, *, epochs: int
    ) -> list[dict[str, Any]]:
        """Train until `epochs` epochs are done in all, by this call and by those before it,
        validating after each; the history. TrainingWarning if none is left, but not after `resume`.

        Before epoch n the training data is told `set_epoch(n)`, n from 0, which reshuffles it.
        SIGINT, SIGTERM and SIGHUP end the run after the present step and a checkpoint:
        `Interrupted`; a second SIGINT or SIGTERM acts at once. Raises TrainingError for a loss or
        gradients that are not finite: weights and state are those before this step, and the last
        checkpoint stays as it is. Raises FileError after the first step of an epoch if the disk has
        no room for the checkpoint at its end.
        """
        resumed = self._restored is not None  # the same `fit` again, which may find all done
        check_epochs(epochs, 0 if resumed else self.epoch)
        train = as_dataset(train_batches)
        valid = None if valid_batches is None else as_dataset(valid_batches)
        with ExitStack() as stack:
            stack.enter_context(self._folder.writing())
            self._prepare(train, valid, epochs)
            stack.enter_context(ft.reproducible())
            self._signals = stack.enter_context(stop_signals())
            self._folder.begin()
            self.report.begin(self)
            stack.callback(self.tell, "on_fit_end")
            self.tell("on_fit_start")
            try:
                while not self._all_ranks_stop() and self.epoch < epochs:
                    self._train_epoch(train)
                    if self.batch >= self.batches:
                        self._end_epoch(valid)
                    self._save_if_wanted()
            except Interrupted as interrupted:
                self._save_if_wanted()
                self.report.say(str(interrupted))
                raise
        if self._stopped:
            self.report.say(f"stopped after epoch {self.epoch}: {self._stopped}")
        return self.history

    def tell(self, hook: str, *details: Any) -> None:
        """Call a hook of all callbacks."""
        for callback in self.callbacks:
            getattr(callback, hook)(self, *details)

    def stop(self, reason: str) -> None:
        """End `fit` after the present step or epoch, and after a checkpoint. With several ranks it
        is enough that one says so."""
        self._stopped = reason

    def train_step(self, *batches: Any) -> float:
        """One step on this rank's share of a batch, or of several, unless the scaler has to skip
        it; the mean loss over the samples of all ranks."""
        check_not_sharded("Trainer", self.optimizer)
        generators = [ft.default_generator(), *self._generators]
        return train_step(self, batches, generators)

    # ---- inference ---------------------------------------------------------------------------

    def evaluate(
        self, batches: object, between: Callable[[], Any] = lambda: None
    ) -> dict[str, float]:
        """Mean loss and meters over batches, without training; with several ranks over the batches
        of all of them (`Partition` shares a dataset out). `between` is called after each batch."""
        distributed.broadcast_buffers(self.communicator, self.model)
        with inference(self.model, self.ema, Work.of(self).casting()):
            meters = measure(self.model, self.loss, batches, self.meters, between)
        return results(meters, self.communicator)

    def predict(self, batches: object) -> list[Any]:
        """What the model gives for each batch of inputs, tuples (input, ...) without a target:
        averaged weights, precision and all as in `evaluate`. Raises TrainingError for a batch of
        several fields that the model does not take."""
        with inference(self.model, self.ema, Work.of(self).casting()):
            return [
                predicted(self.model, batch) for batch in fixed_epoch_dataset(batches).iterate()
            ]

    # ---- checkpoints -------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path:
        """Where `fit` writes its checkpoints. Raises CheckpointError without an out folder."""
        if self.out is None:
            raise CheckpointError("[Trainer] there is no out folder: give the path of a checkpoint")
        return self.out / CHECKPOINT

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a checkpoint (rank 0 does; every rank calls it). Default: the one in `out`."""
        target = self.checkpoint if path is None else Path(path)
        with self._folder.saving(target):
            checkpointing.save(self, target, self._seconds)
            self.tell("on_checkpoint", target)

    def resume(self, path: str | os.PathLike[str] | None = None) -> None:
        """Go back to where a checkpoint was written: weights, optimizer, schedule, averages,
        callbacks and other parts, random generators, position in the data, meters, log. Default:
        the one in `out`. Raises CheckpointError, and changes nothing, when it does not fit."""
        source = self.checkpoint if path is None else Path(path)
        with self._folder.resuming(source):
            position = checkpointing.resume(self, source)
        self.epoch, self.batch, self.step = position.epoch, position.batch, position.step
        self.history, self._seconds = position.history, position.seconds
        self._expected = position.batches or None
        self._restored = position

    # ---- parts -------------------------------------------------------------------------------

    def _prepare(self, train: Dataset, valid: Dataset | None, epochs: int) -> None:
        self.datasets = [train] if valid is None else [train, valid]
        if self._restored is not None:
            everyones, self._restored = self._restored.seeds, None
            mine = everyones[self.communicator.rank] if everyones else [None, None]
            for ds, seeds in zip(self.datasets, mine, strict=False):
                restore_seeds(seeds or None, ds)  # before they were kept they were 0
        everyone = dist.all_gather_object(self.communicator, len(train))
        check_length(len(train), everyone, self._expected)
        self.batches, self.epochs, self._expected = len(train), epochs, None
        distributed.broadcast_model(self.communicator, self.model)
        self._stopped = ""

    def _train_epoch(self, train: Dataset) -> None:
        start, before = time.monotonic(), self._seconds
        train.set_epoch(self.epoch)
        self.model.train()
        self.report.begin_epoch(self)
        self.tell("on_epoch_start")
        with train.iterate(self.batch) as batches, ExitStack() as stack:
            stack.callback(self.report.trained, self)
            looked = False
            for window in windows(batches, self.accumulate):
                step = self.step
                self.train_step(*window)
                self.batch += len(window)
                self._seconds = before + time.monotonic() - start
                if self.step == step:
                    self.report.skip(self)
                    self.tell("on_skip")
                else:
                    self.tell("on_step")
                    self.report.step(self)
                    if not looked:
                        state = (self.model, self.optimizer, *self.parts.values())
                        self._folder.check_free_space(*state)  # optimizers have all of theirs now
                        looked = True
                    if self.checkpoint_every and self.step % self.checkpoint_every == 0:
                        self._save_if_wanted()
                if self._all_ranks_stop():
                    return

    def _end_epoch(self, valid: Dataset | None) -> None:
        record: dict[str, Any] = {
            "epoch": self.epoch + 1,
            "step": self.step,
            "lr": self.optimizer.lr,
        }
        record |= {
            f"train_{name}": x for name, x in results(self.meters, self.communicator).items()
        }
        if valid is not None:
            # Ranks may have different numbers of batches, and stop together alone.
            alone = self.communicator.world_size == 1
            found = self.evaluate(valid, self._all_ranks_stop if alone else lambda: None)
            record |= {f"valid_{name}": x for name, x in found.items()}
        record["seconds"] = round(self._seconds, 3)
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(record.get("valid_loss", record["train_loss"]))
        self.tell("on_epoch_end", record)
        self.history.append(record)
        self.epoch, self.batch, self._seconds = self.epoch + 1, 0, 0.0
        for meter in self.meters.values():
            meter.reset()
        self.report.end_epoch(self, record)

    def _all_ranks_stop(self) -> bool:
        """Whether the run is to end; raises Interrupted where a signal says so, on every rank."""
        number, wishes = self._signals.received or 0, bool(self._stopped)
        if self.communicator.world_size > 1:
            seen = self.communicator.all_reduce(ft.asarray([number, wishes], ft.int64), "max")
            number, wishes = seen.tolist()
            if wishes:
                reasons = dist.all_gather_object(self.communicator, self._stopped)
                self._stopped = next(reason for reason in reasons if reason)
        if number:
            raise Interrupted(number, self.step, None if self.out is None else self.checkpoint)
        return bool(self._stopped)

    def _save_if_wanted(self) -> None:
        if self.out is not None:
            self.save()
