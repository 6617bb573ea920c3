"""The state of parameters that are updated as one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import fl_tensor as ft
from fl_autograd import SparseGradient
from fl_nn.optim.vectors import cut, is_watched, join, small_groups, views
from fl_nn.parameter import Parameter

State: TypeAlias = dict[str, Any]


class JoinedStates:
    """What parameters have of slots and numbers: `own` for each, or for several as one vector.

    A set of parameters is a tuple of their numbers.
    """

    def __init__(self, own: list[State]) -> None:
        self.own = own
        self._joined: dict[tuple[int, ...], State] = {}

    def sets(
        self, parameters: Sequence[Parameter], groups: Sequence[int], numbers: Sequence[int]
    ) -> list[tuple[int, ...]]:
        """`numbers` in sets that can be updated together: small parameters of the same group, with
        as many steps behind them, and the same kind of value, gradient and state."""
        held = {i: state for key, state in self._joined.items() for i in key}
        kinds: dict[int, Any] = {}

        def kind(position: int) -> Any:
            i = numbers[position]
            state = held.get(i, self.own[i])
            if id(state) not in kinds:
                kinds[id(state)] = tuple(
                    (k, None if isinstance(v, ft.Tensor) else v) for k, v in state.items()
                )
            grad = parameters[i].grad
            assert grad is not None
            alone = i if isinstance(grad, SparseGradient) else None
            return groups[i], grad.dtype, alone, kinds[id(state)]

        found = small_groups([parameters[i] for i in numbers], kind)
        return [tuple(numbers[position] for position in one) for one in found]

    def of(self, sets: Sequence[tuple[int, ...]], parameters: Sequence[Parameter]) -> list[State]:
        """The states of sets, each of one vector. Those of other sets become those of each."""
        self.separate(parameters, self._joined.keys() - set(sets))
        return [self.own[key[0]] if len(key) == 1 else self._vectors(key) for key in sets]

    def separate(
        self,
        parameters: Sequence[Parameter],
        sets: Iterable[tuple[int, ...]] | None = None,
        pieces: Callable[..., list[ft.Tensor]] = views,
    ) -> list[State]:
        """Give each parameter of `sets`, or of all, its part of a joined state; all states."""
        for key in [*self._joined] if sets is None else sets:
            shapes = [parameters[i].shape for i in key]
            for name, value in self._joined.pop(key).items():
                joined = isinstance(value, ft.Tensor)
                parts = pieces(value, shapes) if joined else [value] * len(key)
                for i, part in zip(key, parts):
                    self.own[i][name] = part
        return self.own

    def separate_if_watched(self, parameters: Sequence[Parameter]) -> None:
        """At the end of a step."""
        if is_watched():
            self.separate(parameters, pieces=cut)

    def _vectors(self, key: tuple[int, ...]) -> State:
        if key not in self._joined:
            own = [self.own[i] for i in key]
            self._joined[key] = {
                name: join([state[name] for state in own]) if isinstance(v, ft.Tensor) else v
                for name, v in own[0].items()
            }
            for state in own:
                state.clear()
        return self._joined[key]
