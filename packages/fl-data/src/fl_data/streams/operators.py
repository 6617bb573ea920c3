"""The streams that the methods of `Stream` return."""

from __future__ import annotations

import queue
import threading
from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import closing
from contextvars import copy_context
from itertools import islice
from typing import Any, TypeAlias

import fl_tensor as ft
from fl_data.batches.collate import Collate, collate
from fl_data.errors import SampleTypeError
from fl_data.samples import Sample, as_sample, check_count
from fl_data.seeds import Seed, agree, mix
from fl_data.streams.stream import Stream, StreamPosition, position_of
from fl_data.views.permutation import permutation
from fl_data.views.select import check_rank

_Read: TypeAlias = Generator[tuple[Sample, StreamPosition], None, None]


class _Operator(Stream):
    """A stream out of one other, which is closed with it."""

    def __init__(self, source: Stream) -> None:
        self._source = source
        self._epoch = source.epoch

    @property
    def sources(self) -> tuple[Stream, ...]:
        return (self._source,)

    def read(self, place: StreamPosition = None) -> _Read:
        own, below = self._split(place)
        with closing(self._source.read(below)) as samples:
            yield from self._changed(samples, own)

    def _split(self, place: StreamPosition) -> tuple[Any, StreamPosition]:
        """What of a place is this stream's, and what the source's."""
        return None, place

    @abstractmethod
    def _changed(self, samples: _Read, own: Any) -> _Read: ...


class _Counting(_Operator):
    """A stream whose place begins with a count."""

    def _split(self, place: StreamPosition) -> tuple[int, StreamPosition]:
        if place is None:
            return 0, None
        count, below = position_of(place, int, object, where=type(self).__name__)
        return count, below


class Map(_Operator):
    def __init__(self, source: Stream, fn: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self._fn = _callable(fn, "map")

    def _changed(self, samples: _Read, own: None) -> _Read:
        for sample, place in samples:
            yield as_sample(self._fn(sample), "map"), place


class Filter(_Operator):
    def __init__(self, source: Stream, keep: Callable[[Any], bool]) -> None:
        super().__init__(source)
        self._keep = _callable(keep, "filter")

    def _changed(self, samples: _Read, own: None) -> _Read:
        for sample, place in samples:
            if self._keep(sample):
                yield sample, place


class RandomMap(_Counting):
    def __init__(
        self, source: Stream, fn: Callable[[Any, ft.Generator], Any], seed: int | None
    ) -> None:
        super().__init__(source)
        self._fn = _callable(fn, "random_map")
        self._seed = Seed(seed, "random_map")

    def _changed(self, samples: _Read, own: int) -> _Read:
        for number, (sample, place) in enumerate(samples, own):
            generator = ft.Generator(mix(self._seed.value, self._epoch, number))
            yield as_sample(self._fn(sample, generator), "random_map"), [number + 1, place]


class Take(_Counting):
    def __init__(self, source: Stream, count: int) -> None:
        super().__init__(source)
        self._count = check_count(count, "count", "take")

    def _changed(self, samples: _Read, own: int) -> _Read:
        # What lies behind the last one is not even read.
        left = islice(samples, max(0, self._count - own))
        for number, (sample, place) in enumerate(left, own + 1):
            yield sample, [number, place]


class Share(_Operator):
    def __init__(self, source: Stream, rank: int, world_size: int) -> None:
        super().__init__(source)
        check_rank(rank, world_size, "share")
        agree(world_size, source)
        self._rank, self._world_size = rank, world_size

    def _changed(self, samples: _Read, own: None) -> _Read:
        while len(group := list(islice(samples, self._world_size))) == self._world_size:
            yield group[self._rank][0], group[-1][1]


class BatchStream(_Operator):
    def __init__(self, source: Stream, size: int, collate: Collate | None, skip_last: bool) -> None:
        super().__init__(source)
        self._size = check_count(size, "size", "batch", least=1)
        self._collate = None if collate is None else _callable(collate, "batch")
        self._skip_last = skip_last

    def _changed(self, samples: _Read, own: None) -> _Read:
        stack = self._collate or collate
        while group := list(islice(samples, self._size)):
            if len(group) < self._size and self._skip_last:
                return
            yield as_sample(stack([sample for sample, _ in group]), "collate"), group[-1][1]


class ShuffleBlocks(_Operator):
    """Place: the number of the block, where it begins in the source, how many were handed out."""

    def __init__(self, source: Stream, buffer: int, seed: int | None) -> None:
        super().__init__(source)
        self._buffer = check_count(buffer, "buffer", "shuffle", least=1)
        self._seed = Seed(seed, "shuffle")

    def _split(self, place: StreamPosition) -> tuple[Any, StreamPosition]:
        if place is None:
            return (0, None, 0), None
        number, start, done = position_of(place, int, object, int, where="shuffle")
        return (number, start, done), start

    def _changed(self, samples: _Read, own: tuple[int, StreamPosition, int]) -> _Read:
        number, start, done = own
        block = list(islice(samples, self._buffer))
        while block:
            following: list[tuple[Sample, StreamPosition]] = []
            next_start = block[-1][1]
            generator = ft.Generator(mix(self._seed.value, self._epoch, number))
            for turn, row in enumerate(permutation(len(block), generator), 1):
                following.extend(islice(samples, 1))
                if turn > done:
                    yield block[row][0], [number, start, turn]
            number, start, done, block = number + 1, next_start, 0, following


class PrefetchStream(Stream):
    def __init__(self, source: Stream, depth: int, process: bool) -> None:
        self._source = source
        self._epoch = source.epoch
        self._process = process
        self._depth = check_count(depth, "depth", "prefetch", least=1)

    @property
    def sources(self) -> tuple[Stream, ...]:
        return (self._source,)

    def read(self, place: StreamPosition = None) -> _Read:
        if self._process:
            from fl_data.prefetching.stream_process import read_in_process

            return read_in_process(self._source, place, self._depth)
        return self._in_thread(place)

    def _in_thread(self, place: StreamPosition) -> _Read:
        made: queue.Queue[Any] = queue.Queue(self._depth)
        stopped = threading.Event()
        worker = threading.Thread(
            target=copy_context().run,
            args=(_fill, made, self._source, place, stopped),
            name="fl-data-stream",
            daemon=True,  # a read that never returns must not keep the process alive
        )
        worker.start()
        try:
            while (item := made.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()
            for _ in range(500):  # 5 seconds at most; it may wait for a free place
                while not made.empty():
                    made.get_nowait()
                worker.join(0.01)
                if not worker.is_alive():
                    break


def _fill(
    made: queue.Queue[Any], source: Stream, place: StreamPosition, stopped: threading.Event
) -> None:
    end: BaseException | None = None
    try:
        with closing(source.read(place)) as samples:
            for item in samples:
                if stopped.is_set():
                    return
                made.put(item)
    except BaseException as error:  # handed to the consumer, whatever it is
        end = error
    made.put(end)


def _callable(fn: Any, where: str) -> Any:
    if not callable(fn):
        raise SampleTypeError(f"[{where}] {fn!r} is not callable")
    return fn
