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
        #: How many arrays each cache has, the tokens in it, and each array on every rank.
        self._sizes: list[int] = []
        self._steps = 0
        self._everyones: list[list[ft.Tensor]] = []

    def on_epoch_start(self, trainer: nn.Trainer) -> None:
        self.objective.caches = None
        if not trainer.batch or not self._everyones:
            return
        caches = self.objective.network.caches()
        arrays = iter([ranks[self.communicator.rank] for ranks in self._everyones])
        for cache, size in zip(caches, self._sizes, strict=True):
            cache.update([next(arrays) for _ in range(size)], self._steps)
        self.objective.caches = caches

    def on_step(self, trainer: nn.Trainer) -> None:
        caches = self.objective.caches or []
        self._sizes = [len(cache.arrays) for cache in caches]
        self._steps = caches[0].steps if caches else 0
        arrays = [array for cache in caches for array in cache.arrays]
        if self.communicator.world_size > 1:
            self._everyones = [list(self.communicator.all_gather(array)) for array in arrays]
        else:
            self._everyones = [[array] for array in arrays]

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        self._sizes, self._everyones = [], []

    def state_dict(self) -> dict[str, Any]:
        """The arrays of all caches, of each rank."""
        return {
            "sizes": self._sizes,
            "steps": self._steps,
            "tensors": {
                f"{place}-{rank}": array
                for place, ranks in enumerate(self._everyones)
                for rank, array in enumerate(ranks)
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError when it is of another callback, or of another
        number of ranks."""
        sizes, steps, arrays = (state.get(name) for name in ("sizes", "steps", "tensors"))
        if (
            not isinstance(sizes, list)
            or not all(type(size) is int and 0 <= size < 100 for size in sizes)
            or type(steps) is not int
            or not isinstance(arrays, Mapping)
        ):
            raise nn.StateDictError("this is not the state of a CarriedState")
        ranks, count = range(self.communicator.world_size), sum(sizes)
        if set(arrays) != {f"{place}-{rank}" for place in range(count) for rank in ranks}:
            raise nn.StateDictError(
                f"the state has {len(arrays)} arrays, and {count} on {len(ranks)} ranks are "
                "wanted: resume within an epoch on as many ranks as before"
            )
        self._sizes, self._steps = sizes, steps
        self._everyones = [[arrays[f"{place}-{rank}"] for rank in ranks] for place in range(count)]
