"""Streams over shards that are opened one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, nullcontext
from itertools import islice
from typing import Any, cast

import fl_tensor as ft
from fl_data.dataset import Dataset
from fl_data.errors import DataError, SampleTypeError
from fl_data.samples import Sample, as_sample
from fl_data.seeds import Seed, agree, mix
from fl_data.streams.stream import Stream, StreamPosition, position_of
from fl_data.views.permutation import permutation
from fl_data.views.select import check_rank


class ShardStream(Stream):
    """The samples of `open(shard)` for every shard: any iterable, or a dataset.

    With `shuffle` (the default) every epoch has a new order of shards, which depends on `seed` and
    the epoch alone (without a `seed` one is drawn as in `Resample`; with several ranks it is 0).
    With `rank` and `world_size`, rank `r` reads shards `r, r + world_size, ...` of that order and
    nothing else; ranks may have unequally many samples then, and `take` makes them equal. A resume
    opens one shard and goes to the place: at once in a dataset (`FileBlob`, say), otherwise by
    reading past what was seen.

    Raises `DataError` when there are fewer shards than ranks.
    """

    def __init__(
        self,
        shards: Iterable[Any],
        open: Callable[[Any], Iterable[Any]],
        *,
        shuffle: bool = True,
        seed: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._shards: Sequence[Any] = list(shards)
        if not callable(open):
            raise SampleTypeError(f"[ShardStream] {open!r} is not callable")
        check_rank(rank, world_size, "ShardStream")
        if len(self._shards) < world_size:
            raise DataError(
                f"[ShardStream] {len(self._shards)} shards for {world_size} ranks: make more of "
                "them, or use stream.share(rank, world_size)"
            )
        self._open, self._shuffle = open, shuffle
        self._seed = Seed(seed if shuffle else 0, "ShardStream")
        agree(world_size, self)
        self._rank, self._world_size = rank, world_size

    def read(
        self, place: StreamPosition = None
    ) -> Generator[tuple[Sample, StreamPosition], None, None]:
        number, seen = (
            (0, 0) if place is None else position_of(place, int, int, where="ShardStream")
        )
        for turn, shard in enumerate(self._order()[number:], number):
            opened = self._open(shard)
            with closing(cast(Any, opened)) if hasattr(opened, "close") else nullcontext():
                for sample in self._from(opened, seen):
                    seen += 1
                    yield as_sample(sample, "ShardStream"), [turn, seen]
            seen = 0

    def _order(self) -> list[Any]:
        numbers: Sequence[int] = range(len(self._shards))
        if self._shuffle:
            generator = ft.Generator(mix(self._seed.value, self._epoch))
            numbers = permutation(len(self._shards), generator)
        return [self._shards[i] for i in numbers[self._rank :: self._world_size]]

    def _from(self, opened: Iterable[Any], seen: int) -> Iterable[Any]:
        if isinstance(opened, Dataset):
            opened.set_epoch(self._epoch)
            return opened.iterate(min(seen, len(opened)))
        return islice(opened, seen, None)


class IterableStream(ShardStream):
    """The samples of `make()`, an iterable that begins anew each time: a generator function, say.

    A resume reads past what was seen.
    """

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        if not callable(make):
            raise SampleTypeError(
                f"[IterableStream] {type(make).__name__} is not callable: give a function that "
                "makes the iterable, lambda: iter(...), as every pass begins anew"
            )
        super().__init__([make], lambda make: make(), shuffle=False)
