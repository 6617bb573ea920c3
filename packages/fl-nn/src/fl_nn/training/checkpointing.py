"""Checkpoints of a Trainer: written by rank 0 for all ranks, read by every rank."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_data import drawn_seeds
from fl_dist import all_gather_object
from fl_nn.checkpoint import generator_states, load_checkpoint, save_checkpoint
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
    changes nothing, when it does not fit.

    Of a run of another number of ranks, the random generators are split from those of its rank 0,
    and rank 0 takes what the meters of all ranks have seen.
    """
    checkpoint = load_checkpoint(path)
    size, rank = trainer.communicator.world_size, trainer.communicator.rank
    position = read_position(path, checkpoint.position)
    if len(checkpoint.generators) != size:
        checkpoint.generators = _split(checkpoint.generators, size)
        position = position.for_ranks(path, trainer.meters, size)
    meters = position.restored(path, trainer.meters, rank)
    checkpoint.restore(trainer.model, trainer.optimizer, rank, trainer.parts)
    for name, meter in meters.items():
        trainer.meters[name].load_state(meter.state())
    trainer.metadata = {**checkpoint.metadata, **trainer.metadata}
    trainer.report.goes_on_at = position.log
    return position


def _split(
    generators: list[dict[str, dict[str, int]]], size: int
) -> list[dict[str, dict[str, int]]]:
    """States of the generators of `size` ranks: streams of their own, split from those of the first
    rank of the run before."""
    found: list[dict[str, dict[str, int]]] = [{} for _ in range(size)]
    for name, state in generators[0].items() if generators else ():
        generator = ft.Generator(0)
        generator.set_state(state)
        for rank, part in enumerate(generator.split(size)):
            found[rank][name] = part.state()
    return found
