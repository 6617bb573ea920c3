"""`Stream`: sequential samples with a resumable place, without length or index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import fl_tensor as ft
from fl_data.errors import DataError, IterationError
from fl_data.samples import Sample, check_count
from fl_data.seeds import drawn_seeds, restore_seeds
from fl_tensor.annotations import Checked

if TYPE_CHECKING:
    from fl_data.batches.collate import Collate

StreamPosition: TypeAlias = Any
"""Where a stream is: None at its beginning, otherwise numbers and lists, as JSON has them."""


class Stream(Checked, ABC):
    """Samples of which nobody knows how many there are: logs, crawls, archives, sockets.

    `for sample in stream` is one pass, of the epoch that `set_epoch` said, or the next. `iter` has
    `state()` and `load_state(state)`, which go on at the exact sample. Streams are made of streams:
    `stream.shuffle(1000).map(f).batch(32).prefetch(4)`.

    A subclass gives `read`. What it yields depends on the place and the epoch alone.
    """

    _epoch = 0
    #: As in datasets: the epoch of the pass that began last, and whether `set_epoch` was called.
    _passed: int | None = None
    _fixed = False

    @property
    def sources(self) -> tuple[Stream, ...]:
        """The streams that this one is made of."""
        return ()

    @abstractmethod
    def read(
        self, place: StreamPosition = None
    ) -> Generator[tuple[Sample, StreamPosition], None, None]:
        """The samples from `place` on, each with the place behind it, which is a JSON value."""

    @property
    def epoch(self) -> int:
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Give the samples of epoch `epoch`, in its order, from the next pass on. Where it was
        never called, each pass is of the epoch after the pass before."""
        self._epoch = check_count(epoch, "epoch", type(self).__name__)
        self._fixed = True
        for source in self.sources:
            source.set_epoch(epoch)

    def __iter__(self) -> StreamIterator:
        return StreamIterator(self)

    def map(self, fn: Callable[[Any], Any]) -> Stream:
        """`fn(sample) -> sample` of every sample."""
        return _operators().Map(self, fn)

    def random_map(self, fn: Callable[[Any, ft.Generator], Any], seed: int | None = None) -> Stream:
        """`fn(sample, generator) -> sample`, with a generator that depends on `seed`, the epoch and
        the number of the sample alone; give every rank a seed of its own."""
        return _operators().RandomMap(self, fn, seed)

    def filter(self, keep: Callable[[Any], bool]) -> Stream:
        """The samples for which `keep(sample)` holds."""
        return _operators().Filter(self, keep)

    def shuffle(self, buffer: int, seed: int | None = None) -> Stream:
        """Every `buffer` neighbours in a random order, which depends on `seed` and the epoch.

        Twice as many samples are held: while those of one block are handed out, the next block is
        read, one for one. A resume reads at most these again. Shuffle shards as well, as a sample
        stays within its block.
        """
        return _operators().ShuffleBlocks(self, buffer, seed)

    def batch(
        self, size: int, collate: Collate | None = None, *, skip_last: bool = False
    ) -> Stream:
        """Batches of `size` samples; the last may be smaller, or is left out with `skip_last`."""
        return _operators().BatchStream(self, size, collate, skip_last)

    def share(self, rank: int, world_size: int) -> Stream:
        """The share of `rank`: sample `rank` of every `world_size` neighbours. A last round that
        does not suffice for all ranks is left out, so that all have equally many samples; each
        reads all of them (`ShardStream` shares out what is read)."""
        return _operators().Share(self, rank, world_size)

    def take(self, count: int) -> Stream:
        """The first `count` samples of each pass."""
        return _operators().Take(self, count)

    def prefetch(self, depth: int, *, process: bool = False) -> Stream:
        """The same samples, up to `depth` of them made ahead of time. Outermost.

        They are made by a thread, which is right where the time goes into libraries; or with
        `process` by a process, where it goes into Python. The process is sent the stream, which
        must be picklable: shards and functions of modules, no lambda. It begins with each pass and
        ends with it. Where one process is too slow, give each its share of the shards:
        `ShardStream(..., rank=i, world_size=n)`.
        """
        return _operators().PrefetchStream(self, depth, process)


def _operators() -> ModuleType:
    from fl_data.streams import operators  # made of streams: it cannot come first

    return operators


class StreamIterator(Iterator["Sample"]):
    """One pass over a stream, which knows its place.

    `state()` is plain data for a checkpoint; `load_state` of an iterator over an equally built
    stream goes on with exactly the sample that would have come next. The iterator can be closed,
    which lets go of files and threads, and goes on at its place when it is asked again. So it does
    after an error: the sample that failed is tried once more.
    """

    def __init__(self, stream: Stream) -> None:
        if stream._passed == stream.epoch and not stream._fixed:
            _set_epoch(stream, stream.epoch + 1)
        self._stream = stream
        self._epoch, self._place = stream.epoch, None
        self._samples: Generator[tuple[Sample, StreamPosition], None, None] | None = None

    def __next__(self) -> Sample:
        if self._stream.epoch != self._epoch:
            raise IterationError(
                f"[stream] went from epoch {self._epoch} to {self._stream.epoch} during a pass: "
                "call set_epoch before iter, and begin no other pass (after set_epoch several can "
                "go on side by side)"
            )
        self._stream._passed = self._epoch
        if self._samples is None:
            self._samples = self._stream.read(self._place)
        try:
            sample, self._place = next(self._samples)
        except StopIteration:
            raise
        except BaseException:
            self.close()  # the next call reads on from the last good place
            raise
        return sample

    def state(self) -> dict[str, Any]:
        """`{"epoch", "place"}`: behind the sample that was handed out last. `"seeds"` are there
        where some were drawn and not given."""
        state: dict[str, Any] = {"epoch": self._epoch, "place": self._place}
        if seeds := drawn_seeds(self._stream):
            state["seeds"] = seeds
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Set the stream's epoch and this place to those of `state`. Raises `DataError` when it is
        malformed."""
        missing = {"epoch", "place"} - set(state)
        if missing:
            raise DataError(f"[load_state] the state lacks {sorted(missing)}")
        epoch = check_count(state["epoch"], "epoch", "load_state")
        restore_seeds(state.get("seeds"), self._stream)
        self.close()
        _set_epoch(self._stream, epoch)
        self._epoch, self._place = epoch, state["place"]

    def close(self) -> None:
        samples, self._samples = self._samples, None
        if samples is not None:
            samples.close()

    def __enter__(self) -> StreamIterator:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _set_epoch(stream: Stream, epoch: int) -> None:
    # ``set_epoch``, after which passes go on by themselves if they did before.
    fixed = stream._fixed
    stream.set_epoch(epoch)
    stream._fixed = fixed


def position_of(place: StreamPosition, *kinds: type, where: str) -> list[Any]:
    """A place that is a list of such values. Raises `DataError` for one of another stream."""
    if isinstance(place, list | tuple) and len(place) == len(kinds):
        fits = zip(place, kinds, strict=True)
        if all(kind is object or (type(x) is int and x >= 0) for x, kind in fits):
            return list(place)
    raise DataError(
        f"[{where}] {place!r} is no place of such a stream: build the stream as it was when the "
        "state was taken"
    )
