"""Trainer: the loop over epochs and batches, on one rank or many."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import fl_autograd as ag
import fl_dist as dist
import fl_tensor as ft
from fl_data import Dataset, as_dataset
from fl_nn import ranks
from fl_nn.checkpoint import Stateful, generator_states, load_checkpoint, save_checkpoint
from fl_nn.errors import CheckpointError, TrainingError
from fl_nn.meters import AverageValueMeter, Meter
from fl_nn.modes import evaluating
from fl_nn.module import Module
from fl_nn.optim import DynamicLossScaler, Optimizer
from fl_nn.optim.precision import wide_dtype
from fl_nn.schedules import LRScheduler, ReduceLROnPlateau
from fl_nn.training.log import JsonLog
from fl_nn.training.messages import fields, introduction, not_finite
from fl_nn.training.position import Position, read_position
from fl_nn.training.progress import Progress

CHECKPOINT = "checkpoint.safetensors"
LOG = "log.jsonl"


class Trainer:
    """Trains `model` on batches that are tuples (input, ..., target).

    model, optimizer   the optimizer holds the parameters of the model
    loss               `loss(model(input, ...), target)` is a scalar: the mean over the batch
    communicator       ranks that train together, each with its share of every batch (`Batch(...,
                       rank=, world_size=)`). Rank 0's weights are given to all; gradients are
                       averaged over the samples of the global batch, whatever the shares
    meters             figures by name, `meter.add(output, target)`, for training and validation
    out                folder for `checkpoint.safetensors` and `log.jsonl`; without, none is written
    checkpoint_every   also write a checkpoint every so many steps, not just after each epoch
    log_every          log the loss of every so many steps (0: epochs alone)
    progress           False: say nothing. Only rank 0 speaks, on `stream` (standard error)
    schedule           learning rates: goes on after every step, and `ReduceLROnPlateau` after every
                       epoch, with the validation loss if there is one, or else the training loss
    before_step        `before_step(trainer)` when the gradients are in place, to clip them, say
    on_step            `on_step(trainer)` after every step: averages, early ends
    precision          model and loss run under `ag.autocast(precision)`: a policy, or "O1"
    scaler             scales the loss and may skip steps, of all ranks together: batches that make
                       no step. A loss that is not finite then is such a batch, and no error
    parts              what else checkpoints keep, by name: `{"ema": ema}`, all with a state_dict
    metadata           plain values to keep in checkpoints

    `epoch` epochs, `batch` batches of the present one and `step` steps in all are done; `last_loss`
    is that of the last step; `history` has a record for every epoch. `resume()` and the same `fit`
    continue an interrupted run, also from the middle of an epoch, and end with the same bits as one
    without interruption.
    """

    def __init__(
        self,
        model: Module,
        optimizer: Optimizer,
        loss: Callable[..., Any],
        *,
        communicator: dist.Communicator | None = None,
        meters: Mapping[str, Meter] | None = None,
        out: str | os.PathLike[str] | None = None,
        checkpoint_every: int | None = None,
        log_every: int = 0,
        progress: bool = True,
        stream: TextIO | None = None,
        schedule: LRScheduler | None = None,
        before_step: Callable[[Trainer], Any] | None = None,
        precision: ag.Policy | str | None = None,
        scaler: DynamicLossScaler | None = None,
        on_step: Callable[[Trainer], None] | None = None,
        parts: Mapping[str, Stateful] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.optimizer, self.loss = model, optimizer, loss
        self.communicator = communicator or dist.local()
        self.meters: dict[str, Meter] = {"loss": AverageValueMeter(), **(meters or {})}
        self.out = None if out is None else Path(out)
        self.checkpoint_every, self.log_every = checkpoint_every, log_every
        self.before_step, self.on_step = before_step, on_step
        self.schedule, self.metadata = schedule, dict(metadata or {})
        self.parts = dict(parts or {})
        if schedule is not None:
            self.parts["schedule"] = schedule
        self._casting = nullcontext() if precision is None else ag.autocast(precision)
        self.scaler = scaler
        if scaler is not None:
            self.parts["scaler"] = scaler
            scaler.communicator = self.communicator
        self.epoch = self.batch = self.step = 0
        self.last_loss = math.nan
        self.history: list[dict[str, Any]] = []
        self._lead = self.communicator.rank == 0
        self._speaks, self._stream = progress and self._lead, stream
        self._log = JsonLog(self.out / LOG) if self.out is not None and self._lead else None
        self._begun = False
        self._length: int | None = None
        self._expected: int | None = None
        self._seconds = 0.0
        ranks.separate_generators(self.communicator, model)

    # ---- training ----------------------------------------------------------------------------

    def fit(
        self, train_batches: object, valid_batches: object | None = None, *, epochs: int
    ) -> list[dict[str, Any]]:
        """Train until `epochs` epochs are done in all, validating after each; the history.

        Before epoch n the training data is told `set_epoch(n)`, n from 0, which reshuffles it.
        Raises TrainingError for a loss that is not finite; the last checkpoint stays as it is.
        """
        train = self._training_data(train_batches)
        valid = None if valid_batches is None else as_dataset(valid_batches)
        ranks.broadcast_model(self.communicator, self.model)
        if self._log is not None and not self._begun:
            self._log.clear()
            size, count = self.communicator.world_size, len(train)
            self._log.write(introduction(self.optimizer, size, count, epochs, self.metadata))
        self._begun = True
        while self.epoch < epochs:
            self._train_epoch(train, f"epoch {self.epoch + 1}/{epochs}")
            record = {"epoch": self.epoch + 1, "step": self.step, "lr": self.optimizer.lr}
            record |= {f"train_{name}": x for name, x in self._results(self.meters).items()}
            if valid is not None:
                record |= {f"valid_{name}": x for name, x in self.evaluate(valid).items()}
            self._close_epoch(record, epochs)
        return self.history

    def train_step(self, batch: Any) -> float:
        """One step on this rank's share of a batch, unless the scaler has to skip it; the mean loss
        over the global batch."""
        *inputs, target = fields(batch)
        count = len(target)
        self.optimizer.zero_grad()
        loss = None
        if count:  # a rank may have no share of a short batch
            with self._casting:
                output = self.model(*inputs)
                loss = self.loss(output, target)
            if loss.shape != ():
                raise TrainingError(
                    f"[Trainer] the loss has shape {loss.shape}: reduce it to the mean of the batch"
                )
        value = 0.0 if loss is None else float(loss.item())
        dtype = wide_dtype(self.optimizer.parameters[0].dtype)
        mean, share = ranks.mean_over_samples(self.communicator, value, count, dtype)
        self.last_loss = mean
        finite = math.isfinite(mean)
        if not finite and self.scaler is None:
            place = (self.epoch + 1, self.batch + 1, self.step + 1)
            raise TrainingError(not_finite(mean, place, self.optimizer.lr, self._last_good()))
        if loss is not None:
            if self.scaler is not None:
                loss = self.scaler.scale(loss)
            loss.backward(None if share == 1.0 else ft.full((), share, loss.dtype, loss.device))
            if finite:
                self._add(self.meters, value, output, target)
        ranks.sum_gradients(self.communicator, self.optimizer.parameters)
        if self.scaler is not None:
            self.scaler.pending = True  # also on a rank without a share
            if not self.scaler.unscale(self.optimizer):
                return mean
        if self.before_step is not None:
            self.before_step(self)
        self.optimizer.step()
        self.step += 1
        if self.schedule is not None and not isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step()
        return mean

    def evaluate(self, batches: object) -> dict[str, float]:
        """Mean loss and meters over batches, without training; with several ranks over the batches
        of all of them (`Partition` shares a dataset out)."""
        meters = {name: meter.fresh() for name, meter in self.meters.items()}
        ranks.broadcast_buffers(self.communicator, self.model)
        with evaluating(self.model):
            for batch in as_dataset(batches).iterate():
                *inputs, target = fields(batch)
                if len(target):
                    with self._casting:
                        output = self.model(*inputs)
                        loss = self.loss(output, target)
                    self._add(meters, loss.item(), output, target)
        return self._results(meters)

    # ---- checkpoints -------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a checkpoint (rank 0 does; every rank calls it). Default: the one in `out`."""
        own = {
            "generators": generator_states(self.model),
            "meters": {name: meter.state() for name, meter in self.meters.items()},
        }
        everyone = ranks.all_gather_plain(self.communicator, own)
        if self._lead:
            position = Position(
                epoch=self.epoch,
                batch=self.batch,
                step=self.step,
                batches=self._length or 0,
                seconds=self._seconds,
                log=self._log.position if self._log is not None else 0,
                meters=[one["meters"] for one in everyone],
                history=self.history,
            )
            save_checkpoint(
                self._path(path),
                self.model,
                self.optimizer,
                position=asdict(position),
                metadata=self.metadata,
                generators=[one["generators"] for one in everyone],
                parts=self.parts,
            )
        self.communicator.barrier()

    def resume(self, path: str | os.PathLike[str] | None = None) -> None:
        """Go back to where a checkpoint was written: weights, optimizer, schedule and other
        parts, random generators, position in the data, meters, log. Default: the one in `out`.
        Raises CheckpointError, and changes nothing, when the checkpoint does not fit."""
        found = self._path(path)
        checkpoint = load_checkpoint(found)
        size, rank = self.communicator.world_size, self.communicator.rank
        if len(checkpoint.generators) != size:
            raise CheckpointError(
                f"{found}: was written by {len(checkpoint.generators)} ranks, this run has {size}; "
                "go on with as many, or start anew from its weights"
            )
        position = read_position(found, checkpoint.position)
        meters = position.restored(found, self.meters, rank)
        checkpoint.restore(self.model, self.optimizer, rank, self.parts)
        self.epoch, self.batch, self.step = position.epoch, position.batch, position.step
        self.history, self._seconds = position.history, position.seconds
        self._expected = position.batches or None
        for name, meter in meters.items():
            self.meters[name].load_state(meter.state())
        self.metadata = {**checkpoint.metadata, **self.metadata}
        if self._log is not None:
            self._log.rewind(position.log)
        self._begun = True

    # ---- parts -------------------------------------------------------------------------------

    def _train_epoch(self, train: Dataset, title: str) -> None:
        start = time.monotonic()
        before = self._seconds
        train.set_epoch(self.epoch)
        self.model.train()
        bar = Progress(title, len(train), self.batch, self._stream) if self._speaks else None
        with train.iterate(self.batch) as batches, bar or nullcontext():
            for batch in batches:
                step = self.step
                loss = self.train_step(batch)
                self.batch += 1
                self._seconds = before + time.monotonic() - start
                if self.step == step:
                    self._note_skip()
                    continue
                if self._log is not None and self.log_every and self.step % self.log_every == 0:
                    self._log.write({"event": "step", "step": self.step, "loss": loss})
                if self.on_step is not None:
                    self.on_step(self)
                if self.checkpoint_every and self.step % self.checkpoint_every == 0:
                    self._save_if_wanted()
                if bar is not None:
                    bar.update(self.batch, f"loss {loss:.4f}")

    def _note_skip(self) -> None:
        if self._log is not None and self.log_every and self.scaler is not None:
            record = {"event": "skip", "step": self.step, "batch": self.batch}
            self._log.write({**record, "factor": self.scaler.factor})

    def _close_epoch(self, record: dict[str, Any], epochs: int) -> None:
        record["seconds"] = round(self._seconds, 3)
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(record.get("valid_loss", record["train_loss"]))
        self.history.append(record)
        self.epoch, self.batch, self._seconds = self.epoch + 1, 0, 0.0
        for meter in self.meters.values():
            meter.reset()
        if self._log is not None:
            self._log.write({"event": "epoch", **record})
        if self._speaks:
            figures = "  ".join(f"{k} {v:.4g}" for k, v in record.items() if "_" in k)
            line = f"epoch {self.epoch}/{epochs}  {figures}  {record['seconds']:.1f} s"
            print(line, file=self._stream or sys.stderr, flush=True)
        self._save_if_wanted()

    def _training_data(self, batches: object) -> Dataset:
        train = as_dataset(batches)
        lengths = ranks.all_gather_plain(self.communicator, len(train))
        if len(set(lengths)) > 1:
            raise TrainingError(
                f"[Trainer] the ranks have {lengths} batches: all need as many. Share each batch, "
                "Batch(ds, size, rank=rank, world_size=world_size), not the dataset"
            )
        if not len(train):
            raise TrainingError("[Trainer] there are no training batches")
        if self._expected not in (None, len(train)):
            raise CheckpointError(
                f"[Trainer] the run began with {self._expected} batches per epoch, now there are "
                f"{len(train)}: use the same data and batch size"
            )
        self._length, self._expected = len(train), None
        return train

    def _add(self, meters: Mapping[str, Any], loss: float, output: Any, target: Any) -> None:
        for name, meter in meters.items():
            if name == "loss":
                meter.add(float(loss), len(target))
            else:
                meter.add(output, target)

    def _last_good(self) -> Path | None:
        path = None if self.out is None else self.out / CHECKPOINT
        return path if path is not None and path.exists() else None

    def _results(self, meters: Mapping[str, Meter]) -> dict[str, float]:
        results = {}
        for name, meter in meters.items():
            whole = meter.fresh()
            whole.merge(meter.state())
            whole.sync(self.communicator)
            results[name] = whole.result()
        return results

    def _save_if_wanted(self) -> None:
        if self.out is not None:
            self.save()

    def _path(self, path: str | os.PathLike[str] | None) -> Path:
        if path is not None:
            return Path(path)
        if self.out is None:
            raise CheckpointError("[Trainer] there is no out folder: give the path of a checkpoint")
        return self.out / CHECKPOINT
