"""Samples made ahead of time in threads."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from functools import partial

import fl_tensor as ft
from fl_data.dataset import Dataset, Sample, as_dataset, check_count
from fl_data.errors import DataError, IterationError, WorkerError
from fl_data.iterate import DataIterator
from fl_data.seeds import mix


class Prefetch(Dataset):
    """`ds`, with iteration that keeps up to `depth` samples ready, made by `threads` threads.

    The order is that of `ds`, whatever the number of threads. It belongs outermost,
    `Prefetch(Batch(...))`: datasets around it ask by index, which prefetches nothing.
    A sample that fails in a thread arrives in its turn as a `WorkerError` with the index, the
    original exception and its traceback as cause. Threads run in a copy of the context in which
    the iteration began (backend, overrides, grad mode) and end with it: on exhaustion, an error,
    `close()`, or when the iterator is dropped. `threads=0` makes each sample when it is asked for.

    Random numbers that a dataset draws from the default generator come from one of the sample's
    own, which depends on the seed of the default generator, the epoch and the index: they are the
    same with any number of threads, and the consumer's generator does not move.
    """

    def __init__(self, ds: object, threads: int = 2, depth: int = 4) -> None:
        self._ds = as_dataset(ds)
        self._threads = check_count(threads, "threads", "Prefetch")
        self._depth = check_count(depth, "depth", "Prefetch")
        if threads and not depth:
            raise DataError("[Prefetch] depth must be at least 1 when there are threads, got 0")

    @property
    def sources(self) -> tuple[Dataset, ...]:
        return (self._ds,)

    def __len__(self) -> int:
        return len(self._ds)

    def __getitem__(self, index: int) -> Sample:
        return self._ds[index]

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        return self._ds.__getitems__(indices)

    def iterate(self, start: int = 0) -> DataIterator:
        return PrefetchIterator(self._ds, start, self._threads, self._depth)

    def __repr__(self) -> str:
        return f"Prefetch({self._ds!r}, threads={self._threads}, depth={self._depth})"


class PrefetchIterator(DataIterator):
    """The iterator of `Prefetch`. Threads start with the first sample that is asked for."""

    def __init__(self, ds: Dataset, start: int, threads: int, depth: int) -> None:
        super().__init__(ds, start)
        self._threads, self._depth = threads, depth
        self._context = copy_context()
        self._seed: int | None = None
        self._pipeline: _Pipeline | None = None
        self._stop: weakref.finalize[[], PrefetchIterator] | None = None

    def _fetch(self, index: int) -> Sample:
        if self._seed is None:
            self._seed = ft.default_generator().seed
        make = partial(_make, self._ds, mix(self._seed, self._epoch))
        if self._threads == 0:
            return self._context.copy().run(make, index)
        pipeline = self._pipeline  # another thread may close this iterator at any moment
        if pipeline is None:
            pipeline = _Pipeline(make, index, self._length, self._depth)
            # The threads know the pipeline only, so a dropped iterator really goes away.
            self._stop = weakref.finalize(self, pipeline.stop)
            self._pipeline = pipeline
            try:
                pipeline.start(self._threads, self._context)
            except RuntimeError as refused:
                self.close()
                raise IterationError(
                    f"[prefetch] {self._threads} threads cannot be started ({refused}): "
                    "use Prefetch with fewer threads"
                ) from refused
        sample, error = pipeline.take(index)
        if error is not None:
            self.close()
            raise WorkerError(
                f"[prefetch] sample {index} of {self._ds!r} failed in a worker thread with "
                f"{type(error).__name__}: {error} (the traceback above is the worker's)",
                index,
            ) from error
        if sample is None:
            raise IterationError("[prefetch] the iterator was closed while a sample was awaited")
        return sample

    def load_state(self, state: Mapping[str, int]) -> None:
        super().load_state(state)
        self._seed = None  # the default generator may have been restored as well

    def close(self) -> None:
        """Stop the threads and wait for the samples that they are making (at most 5 seconds)."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            if self._stop is not None:
                self._stop.detach()
            pipeline.stop()
            pipeline.join(timeout=5.0)


def _make(ds: Dataset, seed: int, index: int) -> Sample:
    """Sample `index`, with a default generator of its own (in the context of this thread)."""
    ft.set_default_generator(ft.Generator(mix(seed, index)))
    try:
        return ds[index]
    except StopIteration as error:  # would end the loop as if all samples had been seen
        raise DataError(f"[prefetch] sample {index} raised StopIteration") from error


class _Pipeline:
    """What the threads share: the next index to make, and the samples made but not yet taken."""

    def __init__(self, make: Callable[[int], Sample], start: int, stop: int, depth: int) -> None:
        self._make = make
        self._next, self._end = start, stop
        self._taken = start
        self._depth = depth
        self._made: dict[int, tuple[Sample | None, BaseException | None]] = {}
        self._stopped = False
        self._changed = threading.Condition()
        self._workers: list[threading.Thread] = []

    def start(self, threads: int, context: Context) -> None:
        for number in range(min(threads, self._depth, self._end - self._next)):
            # A context can be entered by one thread only: each gets its own copy.
            worker = threading.Thread(
                target=context.copy().run,
                args=(self._work,),
                name=f"fl-data-prefetch-{number}",
                daemon=True,  # a read that never returns must not keep the process alive
            )
            worker.start()
            self._workers.append(worker)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._may_go_on)
                if self._stopped or self._next >= self._end:
                    return
                index = self._next
                self._next += 1
            sample, error = None, None
            try:
                sample = self._make(index)
            except BaseException as caught:  # handed to the consumer, whatever it is
                error = caught
            with self._changed:
                if not self._stopped:
                    self._made[index] = (sample, error)
                self._changed.notify_all()
            del sample, error  # nothing may be kept alive by a waiting thread

    def _may_go_on(self) -> bool:
        return self._stopped or self._next >= self._end or self._next - self._taken < self._depth

    def take(self, index: int) -> tuple[Sample | None, BaseException | None]:
        """Wait for sample `index`; `(None, None)` when the pipeline was stopped meanwhile."""
        with self._changed:
            while not self._changed.wait_for(lambda: self._stopped or index in self._made, 1.0):
                if not any(worker.is_alive() for worker in self._workers):
                    raise IterationError(
                        "[prefetch] the threads of this iterator are gone (a forked process has "
                        "none): begin a new iteration in this process"
                    )
            made = self._made.pop(index, (None, None))
            self._taken = index + 1
            self._changed.notify_all()
            return made

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._made.clear()
            self._changed.notify_all()

    def join(self, timeout: float) -> None:
        for worker in tuple(self._workers):
            if worker is not threading.current_thread():
                worker.join(timeout)
