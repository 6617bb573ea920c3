"""Seeds of datasets and streams, and independent seeds derived from a seed and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import fl_tensor as ft
from fl_data.errors import DataError
from fl_tensor.annotations import explained
from fl_tensor.arguments import seed_of


class Tree(Protocol):
    """A dataset or stream: it may hold a seed, and is made of others."""

    @property
    def sources(self) -> tuple[Any, ...]: ...


_MASK = (1 << 64) - 1


class Seed:
    """The seed of a dataset or stream: the given one, or one that the default generator (`ft.seed`)
    gives now, another each time, which states of iterators and checkpoints then hold."""

    __slots__ = ("drawn", "value")

    def __init__(self, given: int | None, where: str) -> None:
        self.drawn = given is None
        self.value = seed_of(where, ft.default_generator().spawn().seed if given is None else given)

    def __repr__(self) -> str:
        return str(self.value)


def drawn_seeds(*trees: Tree) -> list[int]:
    """The seeds in datasets or streams that were drawn and not given, in an order of their own."""
    return [seed.value for seed in _drawn(*trees)]


def restore_seeds(seeds: Sequence[int] | None, *trees: Tree) -> None:
    """Put back what `drawn_seeds` found in equally built datasets or streams; None is of the time
    when seeds that were not given were 0. Raises `DataError` where they have another number of
    drawn seeds."""
    found = list(_drawn(*trees))
    values = [0] * len(found) if seeds is None else [seed_of("load_state", n) for n in seeds]
    if len(found) != len(values):
        raise DataError(
            f"[load_state] the state holds {len(values)} seeds that were drawn, here are "
            f"{len(found)}: give seed= to the same datasets as before"
        )
    for seed, value in zip(found, values, strict=True):
        seed.value = value


def agree(world_size: int, *trees: Tree) -> None:
    """Where several ranks share the samples: let seeds that were not given be 0, as every rank
    would have drawn another. They still count as drawn: states hold them, and may bring others."""
    if world_size > 1:
        for seed in _drawn(*trees):
            seed.value = 0


def _drawn(*trees: Tree) -> Iterator[Seed]:
    seen: set[int] = set()
    waiting = list(trees)
    while waiting:
        tree = waiting.pop()
        seed = getattr(tree, "_seed", None)
        if isinstance(seed, Seed) and seed.drawn and id(seed) not in seen:
            seen.add(id(seed))
            yield seed
        waiting.extend(tree.sources)


@explained
def mix(seed: int, *counters: int) -> int:
    """A 63-bit seed that depends on `seed` and every counter (SplitMix64 after each). Raises
    ArgumentError unless `0 <= seed < 2**64`."""
    state = seed if 0 <= seed <= _MASK else seed_of("mix", seed)
    for counter in counters:
        z = (state + 0x9E3779B97F4A7C15 * (counter + 1)) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        state = z ^ (z >> 31)
    return state >> 1
