"""FlatOptimizer: an optimizer over the shares of flat parameters, and its state in plain form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_nn.errors import StateDictError, TrainingError
from fl_nn.files.lazy import load_tensor
from fl_nn.optim import Optimizer
from fl_nn.optim import state_checks as states
from fl_nn.parallel.flat_parameter import FlatParameter
from fl_nn.parallel.sharded_parameter import assembled, own_part, whole_shape
from fl_nn.settings import plain
from fl_nn.values import like


class FlatOptimizer:
    """Gives `optimizer` the shares in place of its parameters. In the plain form of its state
    parameters are numbered, and their tensors shaped, as before."""

    def __init__(
        self, optimizer: Optimizer, flats: Sequence[FlatParameter], groups: Mapping[int, int]
    ) -> None:
        self.optimizer = optimizer
        self.parameters = optimizer.parameters
        self.sizes = [len(group["params"]) for group in optimizer.param_groups]
        self.numbers = {id(p): number for number, p in enumerate(self.parameters)}
        #: Those whose share the optimizer has, in the order of its parameters.
        self.flats: list[FlatParameter] = []
        for number, group in enumerate(optimizer.param_groups):
            own = [flat for flat in flats if groups.get(id(flat.parameters[0])) == number]
            group["params"] = [flat.share for flat in own]
            self.flats += own
        optimizer.state = [{} for _ in self.flats]
        optimizer.sharded = True
        self._step = optimizer.step
        optimizer.step = _refuse  # type: ignore[method-assign]

    def step(self) -> None:
        """The optimizer's own step."""
        self._step()

    # ---- state -------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """The state without its tensors."""
        counted = iter(range(len(self.parameters)))
        return {
            "type": type(self.optimizer).__name__,
            "param_groups": [
                {**group, "params": [next(counted) for _ in range(size)]}
                for group, size in zip(self.optimizer.param_groups, self.sizes)
            ],
            "numbers": {
                f"{self.numbers[id(parameter)]}.{slot}": value
                for flat, state in zip(self.flats, self.optimizer.state)
                for parameter in flat.parameters
                for slot, value in state.items()
                if not isinstance(value, ft.Tensor)
            },
        }

    def named_tensors(self) -> Iterator[tuple[str, ft.Tensor]]:
        """The tensors, one after another. All ranks call it, and go to the end."""
        for flat, state in zip(self.flats, self.optimizer.state):
            for slot in sorted(name for name, x in state.items() if isinstance(x, ft.Tensor)):
                whole = flat.unflatten(flat.gather(state[slot]))
                for parameter, tensor in zip(flat.parameters, whole):
                    key = f"{self.numbers[id(parameter)]}.{slot}"
                    yield key, assembled(parameter, tensor)

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over a state in plain form. StateDictError, and nothing is changed, where it does
        not fit."""
        problems = states.mismatches(
            _Structure(self), type(self.optimizer).__name__, state
        ) or self._differences(state)
        if problems:
            raise StateDictError(
                f"the state does not fit this {type(self.optimizer).__name__}: "
                f"{'; '.join(problems)}. Build the optimizer over the same parameters in the same "
                "order"
            )
        loaded = [self._own(flat, state) for flat in self.flats]
        for group, saved in zip(self.optimizer.param_groups, state["param_groups"]):
            group.update({name: plain(v) for name, v in saved.items() if name != "params"})
        self.optimizer.state = loaded

    def _own(self, flat: FlatParameter, state: Mapping[str, Any]) -> dict[str, Any]:
        keys = [str(self.numbers[id(parameter)]) for parameter in flat.parameters]

        def tensor(slot: str, index: int) -> ft.Tensor:
            whole = load_tensor(state["tensors"][f"{keys[index]}.{slot}"])
            return like(own_part(flat.parameters[index], whole), flat.share.tensor)

        own: dict[str, Any] = {
            slot: state["numbers"][f"{keys[0]}.{slot}"]
            for slot in self.optimizer.numbers
            if f"{keys[0]}.{slot}" in state["numbers"]
        }
        for slot in (*self.optimizer.slots, states.ROUNDING):
            if f"{keys[0]}.{slot}" in state["tensors"]:
                own[slot] = flat.own_elements(partial(tensor, slot))
        return own

    def _differences(self, state: Mapping[str, Any]) -> list[str]:
        # What one vector holds has one state.
        found = []
        for flat in self.flats:
            keys = [str(self.numbers[id(parameter)]) for parameter in flat.parameters]
            slots = [_slots(state["tensors"], key) for key in keys]
            counts = [_slots(state["numbers"], key) for key in keys]
            values = [{n: state["numbers"][f"{k}.{n}"] for n in of} for k, of in zip(keys, counts)]
            if any(one != slots[0] for one in slots) or any(one != values[0] for one in values):
                found.append(
                    f"{flat.names[0]} .. {flat.names[-1]} have gone through different numbers of "
                    "steps, and are one vector here"
                )
        return found


class _Shape(NamedTuple):
    shape: tuple[int, ...]
    dtype: ft.DType


class _Structure:
    """The optimizer over whole parameters, for comparison."""

    def __init__(self, flat: FlatOptimizer) -> None:
        optimizer = flat.optimizer
        self.slots, self.numbers = optimizer.slots, optimizer.numbers
        self.slot_shape, self.problems = optimizer.slot_shape, optimizer.problems
        self.parameters = [_Shape(whole_shape(p), p.dtype) for p in flat.parameters]
        self.state: list[dict[str, Any]] = [{} for _ in flat.parameters]
        self.param_groups = [
            {**group, "params": [None] * size}
            for group, size in zip(optimizer.param_groups, flat.sizes)
        ]


def _slots(entries: Mapping[str, Any], key: str) -> set[str]:
    return {name.partition(".")[2] for name in entries if name.startswith(f"{key}.")}


def _refuse() -> None:
    raise TrainingError(
        "[Sharded] optimizer.step(): this rank has a share of the parameters alone. Call "
        "sharded.step(), which averages the gradients before and gathers the parameters after"
    )
