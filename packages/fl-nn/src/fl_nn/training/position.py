"""The position of a training run, as stored in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from fl_nn.errors import CheckpointError
from fl_nn.meters import Meter


@dataclass
class Position:
    """epoch     epochs done
    batch     batches of the present epoch done
    step      optimizer steps done in all
    batches   batches in an epoch
    seconds   time spent in the present epoch
    log       length of the log file
    meters    per rank, the states of the meters by name
    history   a record per epoch
    seeds     per rank, and for training and validation data each, the seeds that were drawn and
              not given; [] before they were kept
    """

    epoch: int
    batch: int
    step: int
    batches: int
    seconds: float
    log: int
    meters: list[dict[str, dict[str, float]]]
    history: list[dict[str, Any]]
    seeds: list[list[list[int]]] = field(default_factory=list)

    def for_ranks(self, path: Path, meters: Mapping[str, Meter], size: int) -> Position:
        """The same position in a run of `size` ranks, of which rank 0 has what the meters of all
        ranks have seen. Between epochs the number of batches may change with that of ranks. Raises
        CheckpointError for other meters than `meters`."""
        first, fresh = ({name: meter.fresh() for name, meter in meters.items()} for _ in range(2))
        for rank in range(len(self.meters)):
            for name, meter in self.restored(path, meters, rank).items():
                first[name].merge(meter.state())
        return replace(
            self,
            batches=self.batches if self.batch else 0,
            meters=[
                {name: meter.state() for name, meter in found.items()}
                for found in (first, *[fresh] * (size - 1))
            ],
            seeds=self.seeds[:1] * size,
        )

    def restored(self, path: Path, meters: Mapping[str, Meter], rank: int) -> dict[str, Meter]:
        """Meters like `meters` that go on from here. Raises CheckpointError when they differ."""
        found = {name: meter.fresh() for name, meter in meters.items()}
        try:
            states = self.meters[rank]
            if states.keys() != found.keys():
                raise KeyError(*(states.keys() ^ found.keys()))
            for name, meter in found.items():
                meter.load_state(states[name])
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"{path}: was not written by a Trainer with these meters ({error!r})"
            ) from error
        return found


def read_position(path: Path, plain: Mapping[str, Any]) -> Position:
    """The Position in a checkpoint. Raises CheckpointError when there is none."""
    names = [each.name for each in fields(Position)]
    numbers = [plain.get(name) for name in names[:6]]
    if {*plain, "seeds"} != set(names) or not all(
        isinstance(n, (int, float)) and n >= 0 for n in numbers
    ):
        raise CheckpointError(f"{path}: was not written by a Trainer; restore it yourself")
    if not isinstance(plain["meters"], list) or not isinstance(plain["history"], list):
        raise CheckpointError(f"{path}: its position is malformed")
    return Position(**plain)
