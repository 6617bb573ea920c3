"""`Prefetch`: samples prepared by threads or processes, in order."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import fl_tensor as ft
from fl_data.dataset import Dataset, as_dataset
from fl_data.errors import DataError, IterationError, WorkerError
from fl_data.iterate import DataIterator
from fl_data.prefetching.seeded import seeded_sample
from fl_data.prefetching.threads import ThreadPipeline
from fl_data.samples import Sample, check_count
from fl_data.seeds import mix

if TYPE_CHECKING:
    from fl_data.prefetching.worker_pool import WorkerPool

StartMethod = Literal["spawn", "forkserver", "fork"]


class Prefetch(Dataset):
    """`ds`, with iteration that keeps up to `depth` samples ready, made by threads or processes.

    `Prefetch(ds)` has two threads, `Prefetch(ds, threads=n)` so many, `Prefetch(ds, processes=n)`
    processes; with 0 of either each sample is made when it is asked for. `depth` is two for each
    worker unless given.

    The order is that of `ds`, whoever makes the samples. Workers put batches together, too:
    `Prefetch(Batch(...))`; `Batch(Prefetch(...))` is iterated in the same way. Other datasets
    around it ask by index, which prefetches nothing. A sample that fails in a worker arrives in its
    turn as a `WorkerError` with the index, the original exception and its traceback as cause.

    Random numbers that a dataset draws from the default generator come from one of the sample's
    own, which depends on the seed of the default generator, the epoch and the index: they are the
    same with any number of workers of either kind, and the consumer's generator does not move.

    **Threads** run in a copy of the context in which the iteration began (backend, overrides, grad
    mode, default dtype) and end with it: on exhaustion, an error, `close()`, or when the iterator
    is dropped. They are right where the time goes into libraries that let other threads run
    (decoders, files).

    **Processes** are right where it goes into Python. Every iteration sends them `ds`, which must
    be picklable, the name of the backend and the default dtype, but no overrides. Elements of
    tensors, those in `ds` and those of samples, are in memory that the processes share and are
    never serialised; the memory of a sample is used again when its tensors are gone, never before.
    The processes stay for the next iteration if this one went to its end; they end with the
    `Prefetch` or its `close()`, on an error, and when an iterator is closed or dropped on its way.
    A worker that dies is a `WorkerError`, too.

    `start_method` is that of `multiprocessing`. The default, `"spawn"`, starts from nothing, as
    does `"forkserver"`; both import the main script, whose main part must be under
    `if __name__ == "__main__":`. `"fork"` copies this process, which is unsafe as soon as a library
    has threads (BLAS, compiled kernels): such a worker can wait forever for a lock.
    """

    def __init__(
        self,
        ds: object,
        threads: int | None = None,
        depth: int | None = None,
        *,
        processes: int = 0,
        start_method: StartMethod = "spawn",
    ) -> None:
        self._ds = as_dataset(ds)
        self._processes = check_count(processes, "processes", "Prefetch")
        if threads is None:
            threads = 0 if self._processes else 2
        self._threads = check_count(threads, "threads", "Prefetch")
        if self._threads and self._processes:
            raise DataError(
                f"[Prefetch] threads={threads} and processes={processes}: give one of the two"
            )
        workers = self._threads + self._processes
        self._depth = check_count(2 * workers if depth is None else depth, "depth", "Prefetch")
        if workers and not self._depth:
            raise DataError("[Prefetch] depth must be at least 1 when there are workers, got 0")
        if start_method not in get_args(StartMethod):
            raise DataError(
                f"[Prefetch] unknown start_method {start_method!r}: use one of "
                f"{get_args(StartMethod)}"
            )
        self._start_method: StartMethod = start_method
        self._pool: WorkerPool | None = None

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
        if self._processes and self._pool is None:
            from fl_data.prefetching.worker_pool import WorkerPool

            self._pool = WorkerPool(min(self._processes, self._depth), self._start_method)
        return PrefetchIterator(self._ds, start, self._threads, self._depth, self._pool)

    def around(self, ds: Dataset) -> Prefetch:
        """A `Prefetch` with these settings around `ds`, with workers of its own."""
        other = copy(self)
        other._ds = ds
        return other

    def close(self) -> None:
        """End the processes that wait for the next iteration, which would start new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_pool": None}  # processes cannot be sent

    def __repr__(self) -> str:
        count = self._processes or self._threads
        kind = "processes" if self._processes else "threads"
        return f"Prefetch({self._ds!r}, {kind}={count}, depth={self._depth})"


class Pipeline(Protocol):
    """Workers on their way through the samples."""

    def take(self, index: int) -> tuple[Sample | None, BaseException | None]:
        """Wait for sample `index`, or its error; `(None, None)` when stopped meanwhile."""

    def stop(self) -> None:
        """Let the workers go."""

    def join(self, timeout: float) -> None:
        """Wait for them."""


class PrefetchIterator(DataIterator):
    """The iterator of `Prefetch`. Workers start with the first sample that is asked for."""

    def __init__(
        self, ds: Dataset, start: int, threads: int, depth: int, pool: WorkerPool | None
    ) -> None:
        super().__init__(ds, start)
        self._threads, self._depth, self._pool = threads, depth, pool
        self._context = copy_context()
        self._seed: int | None = None
        self._pipeline: Pipeline | None = None
        self._stop: weakref.finalize[[], PrefetchIterator] | None = None

    def _fetch(self, index: int) -> Sample:
        if self._seed is None:
            self._seed = ft.default_generator().seed
        if self._threads == 0 and self._pool is None:
            seed = mix(self._seed, self._epoch)
            return self._context.copy().run(seeded_sample, self._ds, seed, index)
        # Another thread may close this iterator at any moment.
        pipeline = self._pipeline or self._begin(mix(self._seed, self._epoch), index)
        try:
            sample, error = pipeline.take(index)
        except BaseException:  # interrupted, or the workers are gone: the next call begins anew
            self.close()
            raise
        if error is not None:
            self.close()
            raise WorkerError(
                f"[prefetch] sample {index} of {self._ds!r} failed in a worker "
                f"{'thread' if self._pool is None else 'process'} with "
                f"{type(error).__name__}: {error} (the traceback above is the worker's)",
                index,
            ) from error
        if sample is None:
            raise IterationError("[prefetch] the iterator was closed while a sample was awaited")
        return sample

    def _begin(self, seed: int, index: int) -> Pipeline:
        """Workers that make samples from `index` on; they stop when this iterator is dropped."""
        pipeline: Pipeline
        if self._pool is not None:
            from fl_data.prefetching.processes import ProcessPipeline

            backend = self._context.run(ft.current_backend).name
            dtype = self._context.run(ft.get_default_dtype).name
            pipeline = ProcessPipeline(self._pool, index, self._length, self._depth)
            begin = partial(pipeline.begin, self._ds, seed, backend, dtype)
        else:
            make = partial(seeded_sample, self._ds, seed)
            pipeline = ThreadPipeline(make, index, self._length, self._depth)
            begin = partial(pipeline.begin, self._threads, self._context)
        # The workers know the pipeline only, so a dropped iterator really goes away.
        self._stop = weakref.finalize(self, pipeline.stop)
        self._pipeline = pipeline
        try:
            begin()
        except BaseException:
            self.close()
            raise
        return pipeline

    def load_state(self, state: Mapping[str, Any]) -> None:
        super().load_state(state)
        self._seed = None  # the default generator may have been restored as well

    def close(self) -> None:
        """Stop the workers and wait for the samples that they are making (at most 5 seconds)."""
        pipeline, self._pipeline = self._pipeline, None
        if pipeline is not None:
            if self._stop is not None:
                self._stop.detach()
            pipeline.stop()
            pipeline.join(timeout=5.0)
