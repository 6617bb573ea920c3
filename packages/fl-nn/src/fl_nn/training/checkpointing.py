"""Checkpoints of a Trainer: written by rank 0 for all ranks, read by every rank."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from fl_data import drawn_seeds
from fl_dist import all_gather_object
from fl_nn.checkpoint import generator_states, load_checkpoint, save_checkpoint
from fl_nn.errors import CheckpointError
from fl_nn.training.position import Position, read_position

if TYPE_CHECKING:
    from fl_nn.training.trainer import Trainer


def save(trainer: Trainer, path: Path, seconds: float) -> None:
    """Write a checkpoint; `seconds` is the time spent in the present epoch."""
    communicator, log = trainer.communicator, trainer.report.log
    own = {
        "generators": generator_states(trainer.model),
        "meters": {name: meter.state() for name, meter in trainer.meters.items()},
        "seeds": [drawn_seeds(ds) for ds in trainer.datasets],
    }
    everyone = all_gather_object(communicator, own)
    if communicator.rank == 0:
        position = Position(
            epoch=trainer.epoch,
            batch=trainer.batch,
            step=trainer.step,
            batches=trainer.batches,
            seconds=seconds,
            log=log.position if log is not None else 0,
            meters=[one["meters"] for one in everyone],
            history=trainer.history,
            seeds=[one["seeds"] for one in everyone],
        )
        save_checkpoint(
            path,
            trainer.model,
            trainer.optimizer,
            position=asdict(position),
            metadata=trainer.metadata,
            generators=[one["generators"] for one in everyone],
            parts=trainer.parts,
        )
    communicator.barrier()


def resume(trainer: Trainer, path: Path) -> Position:
    """Put everything back that a checkpoint holds; where it was. Raises CheckpointError, and
    changes nothing, when it does not fit."""
    checkpoint = load_checkpoint(path)
    size, rank = trainer.communicator.world_size, trainer.communicator.rank
    if len(checkpoint.generators) != size:
        raise CheckpointError(
            f"{path}: was written by {len(checkpoint.generators)} ranks, this run has {size}; "
            "go on with as many, or start anew from its weights"
        )
    position = read_position(path, checkpoint.position)
    meters = position.restored(path, trainer.meters, rank)
    checkpoint.restore(trainer.model, trainer.optimizer, rank, trainer.parts)
    for name, meter in meters.items():
        trainer.meters[name].load_state(meter.state())
    trainer.metadata = {**checkpoint.metadata, **trainer.metadata}
    if trainer.report.log is not None:
        trainer.report.log.rewind(position.log)
    trainer.report.begun = True
    return position
