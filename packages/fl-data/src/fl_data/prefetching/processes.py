"""Prefetching with worker processes."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from multiprocessing.connection import wait
from threading import RLock

from fl_data.dataset import Dataset
from fl_data.errors import IterationError, SampleTypeError, WorkerError
from fl_data.prefetching import shared_memory
from fl_data.prefetching.sample_pickle import pack, unpack, write
from fl_data.prefetching.worker_main import (
    DatasetReady,
    MakeSample,
    SampleFailed,
    SampleReady,
    UseDataset,
)
from fl_data.prefetching.worker_pool import WorkerHandle, WorkerPool
from fl_data.samples import Sample

_POLL_SECONDS = 0.5
"""Seconds between two looks at whether all is well, while nothing arrives."""

_MAX_IN_FLIGHT = 32
"""Samples that a worker is asked for and that have not been read from its pipe. Were both
directions of a pipe full, each side would wait for the other, for ever."""


class RemoteTraceback(Exception):
    """The traceback of an error in another process, as text: the cause of that error here."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class ProcessPipeline:
    """The way of samples `start .. stop - 1` from workers to the one who takes them in order.

    At most `depth` samples are asked for and not taken. There is no thread here: what has arrived
    is read, and more is asked for, when a sample is taken.
    """

    def __init__(
        self,
        pool: WorkerPool,
        start: int,
        stop: int,
        depth: int,
    ) -> None:
        self._pool = pool
        self._workers = pool.take()
        self._next, self._end = start, stop
        self._taken = start
        self._depth = depth
        self._made: dict[int, tuple[WorkerHandle, SampleReady | SampleFailed]] = {}
        self._makers: dict[int, WorkerHandle] = {}
        self._stopped = self._released = self._broken = False
        self._lock = RLock()

    def begin(self, ds: Dataset, seed: int, backend: str, default_dtype: str) -> None:
        """Send the dataset. Raises `SampleTypeError` when it cannot be pickled."""
        try:
            parcel, elements = pack(ds)
        except Exception as error:
            self._broken = True
            raise SampleTypeError(
                f"[prefetch] {ds!r} cannot be sent to worker processes ({error}): everything in it "
                "must be picklable, so no lambda, inner function or open file; define functions "
                "at the top of a module, or use Prefetch(..., threads=n)"
            ) from error
        message = UseDataset(parcel, seed, backend, default_dtype)
        descriptor = None
        if parcel.places:
            memory, descriptor = shared_memory.create(parcel.nbytes)
            write(parcel, elements, memoryview(memory))
        try:
            for worker in self._workers.members:
                worker.unready += 1
                worker.send(message)
                if descriptor is not None:
                    with suppress(OSError):
                        shared_memory.send(worker.connection, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def take(self, index: int) -> tuple[Sample | None, BaseException | None]:
        """Wait for sample `index`; `(None, None)` when the pipeline was stopped meanwhile."""
        if os.getpid() != self._workers.owner:
            raise IterationError(
                "[prefetch] the workers of this iterator belong to another process (this one was "
                "forked from it): begin a new iteration in this process"
            )
        try:
            with self._lock:
                return self._take(index)
        except BaseException:  # interrupted between two pieces of a message, perhaps
            self._broken = True
            raise

    def _take(self, index: int) -> tuple[Sample | None, BaseException | None]:
        self._request()
        while index not in self._made:
            if self._stopped:
                return None, None
            maker = self._makers[index]
            if maker.is_dead:
                raise self._death(maker)
            self._receive()
        worker, answer = self._made.pop(index)
        self._taken = index + 1
        try:
            if isinstance(answer, SampleFailed):
                return None, error_of(answer)
            return self._open(worker, answer), None
        finally:
            self._request()

    def _request(self) -> None:
        """Keep `depth` samples in the making, each with the worker that has least to do."""
        while not self._stopped and self._next < min(self._end, self._taken + self._depth):
            worker = min(self._workers.members, key=lambda worker: len(worker.requests))
            if len(worker.requests) >= _MAX_IN_FLIGHT:
                if not self._receive(patience=0.0):
                    return
                continue
            request = MakeSample(self._next, worker.slots.take())
            worker.requests.append(request)
            self._makers[self._next] = worker
            self._next += 1
            worker.send(request)

    def _receive(self, patience: float = _POLL_SECONDS) -> bool:
        """Read what has arrived; wait for something, but not for long. Whether there was any."""
        alive = {w.connection: w for w in self._workers.members if not w.is_dead}
        arrived = wait(alive, patience)
        for connection in arrived:
            worker = alive[connection]
            try:
                self._read(worker, worker.connection.recv())
            except (EOFError, OSError):
                worker.is_dead = True
        if patience and not arrived:
            # Something else may hold the other end of a dead worker's pipe.
            for worker in alive.values():
                worker.is_dead = not worker.process.is_alive()
        return bool(arrived)

    def _read(
        self, worker: WorkerHandle, answer: DatasetReady | SampleReady | SampleFailed
    ) -> None:
        if worker.unready:
            worker.unready -= 1
            if isinstance(answer, SampleFailed):
                self._broken = True
                raise IterationError(
                    f"[prefetch] a worker process could not read the dataset: {answer.kind}: "
                    f"{answer.message} (the traceback above is the worker's){_way_out(answer)}"
                ) from error_of(answer)
            return
        assert not isinstance(answer, DatasetReady)
        request = worker.requests.popleft()
        if isinstance(answer, SampleReady):
            if answer.is_new and answer.slot is not None:
                worker.slots.add(answer.slot, shared_memory.receive(worker.connection))
                if request.slot is not None:
                    worker.slots.drop(request.slot)
            elif answer.slot is None and request.slot is not None:
                worker.slots.put(request.slot)
        elif request.slot is not None:
            worker.slots.put(request.slot)
        del self._makers[request.number]
        self._made[request.number] = (worker, answer)

    def _open(self, worker: WorkerHandle, answer: SampleReady) -> Sample:
        """The sample. Its tensors show the slot, unless the consumer has kept many samples: then
        they are copied, so that shared memory does not grow with what is kept."""
        if answer.slot is None:
            return unpack(answer.sample, memoryview(b""), borrow=False)
        if sum(member.slots.lent for member in self._workers.members) < self._depth:
            return unpack(answer.sample, worker.slots.lend(answer.slot), borrow=True)
        try:
            return unpack(answer.sample, worker.slots.read(answer.slot), borrow=False)
        finally:
            worker.slots.put(answer.slot)

    def _death(self, worker: WorkerHandle) -> Exception:
        self._broken = True
        pid, end = worker.process.pid, worker.end()
        if worker.unready:
            return IterationError(
                f"[prefetch] worker process {pid} {end} before its first sample. A script that "
                "uses Prefetch(..., processes=n) keeps its main part under "
                "`if __name__ == '__main__':`, because every worker imports the script"
            )
        index = worker.requests[0].number
        return WorkerError(
            f"[prefetch] worker process {pid} {end} while it made sample {index}, without a "
            "Python error: a crash in a library, os._exit, or the system's memory running out",
            index,
        )

    def stop(self) -> None:
        """Let the workers go: to the next iteration if nothing is in the making, else for good."""
        self._stopped = True  # a consumer that waits sees it within _POLL_SECONDS, and unlocks
        with self._lock:
            if self._released:
                return
            self._released = True
            for worker, answer in self._made.values():
                if isinstance(answer, SampleReady) and answer.slot is not None:
                    worker.slots.put(answer.slot)
            self._made.clear()
            if self._makers or self._broken:
                self._workers.close()
            else:
                self._pool.put(self._workers)

    def join(self, timeout: float) -> None:
        """Nothing: `stop` has waited."""


def _way_out(answer: SampleFailed) -> str:
    """What to do about a class or function of the main program that a worker does not find."""
    if "__main__" not in answer.message:
        return ""
    return (
        ". Worker processes do not have what is defined in a notebook or an interactive session: "
        "define it in a module (a file .py) and import it, or use Prefetch(..., threads=n)"
    )


def error_of(answer: SampleFailed) -> BaseException:
    """The worker's error, with the worker's traceback as its cause."""
    remote = RemoteTraceback(answer.traceback)
    if answer.error is None:
        return remote
    with suppress(Exception):  # a class that is only there in the worker
        error = pickle.loads(answer.error)
        if isinstance(error, BaseException):
            error.__cause__ = remote
            return error
    return remote
