"""The state that goes on from batch to batch, in the training of recurrent networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_dist import Communicator
from fl_text.training.objective import Objective


class CarriedState(nn.Callback):
    """Forgets the state of an `Objective` where an epoch begins, and keeps it in checkpoints: that
    of all ranks, which each gives to the others after every step."""

    def __init__(self, objective: Objective, communicator: Communicator) -> None:
        self.objective, self.communicator = objective, communicator
        #: Each array on every rank.
        self._everyones: list[list[ft.Tensor]] = []

    def on_epoch_start(self, trainer: nn.Trainer) -> None:
        if trainer.batch and self._everyones:
            rank = self.communicator.rank
            self.objective.state = [ranks[rank] for ranks in self._everyones]
        else:
            self.objective.state = [ft.zeros_like(array) for array in self.objective.state]

    def on_step(self, trainer: nn.Trainer) -> None:
        arrays = self.objective.state
        if self.communicator.world_size > 1:
            self._everyones = [list(self.communicator.all_gather(array)) for array in arrays]
        else:
            self._everyones = [[array] for array in arrays]

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        self._everyones = []

    def state_dict(self) -> dict[str, Any]:
        """The arrays that are carried, of each rank."""
        return {
            "tensors": {
                f"{place}-{rank}": array
                for place, ranks in enumerate(self._everyones)
                for rank, array in enumerate(ranks)
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError when it is of another callback, or of another
        number of ranks."""
        arrays, ranks = state.get("tensors"), range(self.communicator.world_size)
        if not isinstance(arrays, Mapping):
            raise nn.StateDictError("this is not the state of a CarriedState")
        count = len(self.objective.state) if arrays else 0
        if set(arrays) != {f"{place}-{rank}" for place in range(count) for rank in ranks}:
            raise nn.StateDictError(
                f"the state has {len(arrays)} arrays, and {count} on {len(ranks)} ranks are "
                "wanted: resume within an epoch on as many ranks as before"
            )
        now = self.objective.state
        if any(arrays[f"{p}-{r}"].shape != now[p].shape for p in range(count) for r in ranks):
            raise nn.StateDictError("arrays of this CarriedState have shapes of another network")
        self._everyones = [[arrays[f"{place}-{rank}"] for rank in ranks] for place in range(count)]
