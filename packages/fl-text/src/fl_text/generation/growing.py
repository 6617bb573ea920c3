"""Rows of networks whose caches grow, or hold a state of fixed size: without graphs.

Rows of equal length are one batch. States of fixed size have no positions, so that rows of any
lengths become one batch behind their prompts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_text.models.caches import StateCache, join_rows


class GrowingNetwork(Protocol):
    """What a `GrowingState` needs of the network that it is for, a `CompiledNetwork`."""

    network: Any
    vocabulary: int | None

    def numbers(self, values: Any) -> Any:
        """Whole numbers as a tensor where the network is."""
        ...


def takes_fixed_caches(network: Any, caches: Sequence[Any]) -> bool:
    """Whether a network can run on `fl_nn.CacheStep`s, which have the same shapes at every step."""
    if not all(type(cache) is nn.KVCache for cache in caches):
        return False
    modules: Iterable[Any] = network.modules() if isinstance(network, nn.Module) else ()
    for module in modules:
        if isinstance(module, nn.RelativePositionEmbedding):
            return False
        if isinstance(module, nn.RotaryEmbedding) and module.scaling["rope_type"] == "dynamic":
            return False
    return True


@dataclass
class _Group:
    """Rows that are one batch: their caches, and their numbers among all rows."""

    caches: Sequence[Any]
    numbers: list[int]


class GrowingState:
    """The caches of rows, in batches of equal length."""

    def __init__(self, of: GrowingNetwork, rows: list[list[int]]) -> None:
        self._of = of
        by_length: dict[int, list[int]] = {}
        for number, row in enumerate(rows):
            by_length.setdefault(len(row), []).append(number)
        self._groups = []
        for length, numbers in by_length.items():
            caches = of.network.caches()
            if length > 1:
                with ag.no_grad():
                    of.network(of.numbers([rows[number][:-1] for number in numbers]), caches)
            self._groups.append(_Group(caches, numbers))
        fixed = all(type(cache) is StateCache for group in self._groups for cache in group.caches)
        if fixed and 1 not in by_length:
            self._groups = [self._joined()]

    def _joined(self) -> _Group:
        numbers = [number for group in self._groups for number in group.numbers]
        caches = self._of.network.caches()
        chosen = [self._of.numbers(range(len(group.numbers))) for group in self._groups]
        for place, cache in enumerate(caches):
            join_rows(cache, [group.caches[place] for group in self._groups], chosen)
        return _Group(caches, numbers)

    def step(self, tokens: list[int]) -> ft.Array:
        """Scores (rows, vocabulary) after one more token for each row."""
        found = []
        with ag.no_grad():
            for group in self._groups:
                column = self._of.numbers([[tokens[number]] for number in group.numbers])
                found.append(self._of.network(column, group.caches)[:, -1])
        together = found[0] if len(found) == 1 else ft.concatenate(found, 0)
        order = [number for group in self._groups for number in group.numbers]
        if order != sorted(order):
            places = sorted(range(len(order)), key=order.__getitem__)
            together = ft.gather(together, self._of.numbers(places), 0)
        value: ft.Array = together.tensor if isinstance(together, ag.Variable) else together
        self._of.vocabulary = value.shape[1]
        return value

    def select(self, rows: list[int]) -> None:
        """Keep these rows, in this order; one may come several times."""
        groups = []
        for group in self._groups:
            place = {number: at for at, number in enumerate(group.numbers)}
            kept = [(new, place[row]) for new, row in enumerate(rows) if row in place]
            if not kept:
                continue
            chosen = self._of.numbers([at for _, at in kept])
            for cache in group.caches:
                cache.select(chosen)
            groups.append(_Group(group.caches, [new for new, _ in kept]))
        self._groups = groups
