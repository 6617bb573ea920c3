"""EMA: exponential moving averages of parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from typing import Any

import fl_tensor as ft
from fl_memory.tags import STATE
from fl_nn.causes import in_update
from fl_nn.errors import ModuleError, StateDictError
from fl_nn.module import Module
from fl_nn.optim.precision import to_float32
from fl_nn.optim.vectors import cut, is_watched, join, small_groups, views
from fl_nn.settings import FRACTION, is_number
from fl_nn.tree import StateEntry, state_entries
from fl_nn.values import are_tensors, like
from fl_tensor.annotations import Checked


class EMA(Checked):
    """Averages of the parameters of `model`, which often do better than the last values:

        ema = nn.EMA(model, decay=0.999)
        ...; optimizer.step(); ema.update()
        with ema.applied():
            evaluate(model)

    They begin at the present values, and with every `update` become decay * average +
    (1 - decay) * value.

    warm_up   update number n uses min(decay, (1 + n) / (10 + n)), so that the first values are
              soon forgotten
    buffers   also average the persistent floating buffers, such as running statistics; otherwise
              those of the model itself are used

    Averages of 16-bit values are float32. Move the model to its device before.
    """

    def __init__(
        self, model: Module, decay: float = 0.999, *, warm_up: bool = False, buffers: bool = False
    ) -> None:
        if not FRACTION.fits(decay):
            raise ModuleError(f"[EMA] decay={decay!r}: give {FRACTION.words}")
        self.model, self.decay, self.warm_up, self.buffers = model, decay, warm_up, buffers
        #: Updates done.
        self.updates = 0
        self._named: dict[str, ft.Tensor] | None = {
            entry.name: copy(to_float32(entry.value)) for entry in self._state_entries()
        }
        self._shapes = {name: value.shape for name, value in self._named.items()}
        # The averages since an update until somebody asks for them by name: small ones joined.
        self._vectors: dict[tuple[str, ...], ft.Tensor] = {}

    @property
    def averages(self) -> dict[str, ft.Tensor]:
        """The averages by name."""
        return self._separate(views) if self._named is None else self._named

    @averages.setter
    def averages(self, values: Mapping[str, ft.Tensor]) -> None:
        self._named, self._vectors = dict(values), {}
        self._shapes = {name: value.shape for name, value in self._named.items()}

    @in_update(STATE)
    def update(self) -> None:
        """Move the averages towards the present values."""
        self.updates += 1
        decay = self.decay
        if self.warm_up:
            decay = min(decay, (1 + self.updates) / (10 + self.updates))
            if decay < self.decay:
                ft.per_step(decay, "decay of EMA while it warms up")
        entries = list(self._state_entries())
        owners = [entry.owner if entry.is_parameter else entry.value for entry in entries]
        vectors: dict[tuple[str, ...], ft.Tensor] = {}
        # Without values there is no time to save.
        alone = any(not x.backend.has_values for x in owners)
        gone = self._shapes.keys() - {entry.name for entry in entries}
        for name in gone:  # shared with another parameter since, or removed
            vectors[(name,)] = self.averages[name]
        for numbers in small_groups(owners, lambda i: i if alone else None):
            names = tuple(entries[i].name for i in numbers)
            average = self._vectors.get(names)
            if average is None:
                average = join([self.averages[name] for name in names])
            value = to_float32(join([owners[i] for i in numbers]))
            vectors[names] = decay * average + (1.0 - decay) * value
        self._named, self._vectors = None, vectors
        if is_watched():
            self._separate(cut)

    def _separate(self, pieces: Callable[..., list[ft.Tensor]]) -> dict[str, ft.Tensor]:
        found: dict[str, ft.Tensor] = {}
        for names, vector in self._vectors.items():
            found |= zip(names, pieces(vector, [self._shapes[name] for name in names]))
        self._named, self._vectors = {name: found[name] for name in self._shapes}, {}
        return self._named

    @in_update(STATE)
    def copy_to(self) -> None:
        """Give the model the averages, for good."""
        for entry in self._state_entries():
            entry.value = self.averages[entry.name].astype(entry.value.dtype)

    @contextmanager
    def applied(self) -> Iterator[Module]:
        """The model has the averages inside the block, and its own values again afterwards."""
        own = [(entry, entry.value) for entry in self._state_entries()]
        self.copy_to()
        try:
            yield self.model
        finally:
            for entry, value in own:
                entry.value = value

    def state_dict(self) -> dict[str, Any]:
        """A snapshot: `updates`, and the averages as `tensors`."""
        return {"updates": self.updates, "tensors": {k: copy(v) for k, v in self.averages.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state. Raises StateDictError, and changes nothing, when it does not fit."""
        updates, tensors = state.get("updates"), state.get("tensors")
        if not is_number(updates) or not are_tensors(tensors):
            raise StateDictError("this is not the state of an EMA")
        problems = [f"missing {name}" for name in self.averages if name not in tensors]
        problems += [f"unexpected {name}" for name in tensors if name not in self.averages]
        for name, own in self.averages.items():
            found = tensors.get(name, own)
            if found.shape != own.shape or found.dtype is not own.dtype:
                problems.append(
                    f"{name} is {found.dtype} {found.shape}, here {own.dtype} {own.shape}"
                )
        if problems:
            raise StateDictError(
                f"the state does not fit this EMA: {'; '.join(problems)}. Build the model with the "
                "settings it was saved with"
            )
        self.updates = state["updates"]
        self._named = {name: like(tensors[name], own) for name, own in self.averages.items()}

    def _state_entries(self) -> Iterator[StateEntry]:
        seen = set()
        for entry in state_entries(self.model, persistent=True):
            wanted = entry.is_parameter or (self.buffers and entry.value.dtype.is_floating)
            if wanted and entry.key not in seen:  # what two names share is averaged once
                seen.add(entry.key)
                yield entry

    def __repr__(self) -> str:
        return f"EMA({len(self._shapes)} tensors, decay={self.decay}, updates={self.updates})"
