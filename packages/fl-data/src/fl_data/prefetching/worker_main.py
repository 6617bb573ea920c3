"""The main function of a worker process: make samples, write them into shared memory."""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

import fl_tensor as ft
from fl_data.dataset import Dataset
from fl_data.prefetching import shared_memory
from fl_data.prefetching.sample_pickle import SamplePickle, pack, unpack, write
from fl_data.prefetching.seeded import seeded_sample
from fl_tensor.threads import set_num_threads


class UseDataset(NamedTuple):
    """To a worker: samples of this dataset from now on. Its memory, if it has some, follows."""

    dataset: SamplePickle
    seed: int
    backend: str
    default_dtype: str


class MakeSample(NamedTuple):
    """To a worker: make this sample, in this slot if it is large enough."""

    number: int
    slot: int | None


class DatasetReady(NamedTuple):
    """From a worker: the dataset has arrived."""


class SampleReady(NamedTuple):
    """From a worker: a sample is in this slot, whose memory follows if it is new."""

    sample: SamplePickle
    slot: int | None
    is_new: bool


class SampleFailed(NamedTuple):
    """From a worker: an error, pickled if it can be, and its traceback as text."""

    kind: str
    message: str
    error: bytes | None
    traceback: str


def main(connection: Connection, inherited: Sequence[Connection]) -> None:
    """Serve the process at the other end of `connection` until that end is closed."""
    for end in inherited:
        end.close()
    # Control-C, and the end of a terminal, reach all its processes: the consumer decides.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    set_num_threads(1)  # the workers are what runs in parallel
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        _Worker(connection).serve()


class _Worker:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._slots: dict[int, mmap.mmap] = {}
        self._count = 0

    def serve(self) -> None:
        begin = self._connection.recv()
        while True:
            begin = self._serve_one(begin)

    def _serve_one(self, begin: UseDataset) -> UseDataset:
        """Make samples of one dataset until the next arrives."""
        memory = shared_memory.receive(self._connection) if begin.dataset.places else b""
        try:
            ft.use(begin.backend)
            ft.set_default_dtype(begin.default_dtype)
            dataset = unpack(begin.dataset, memoryview(memory), borrow=True)
            answer: DatasetReady | SampleFailed = DatasetReady()
        except BaseException as error:
            answer = failed(error)
        self._connection.send(answer)
        while isinstance(message := self._connection.recv(), MakeSample):
            if isinstance(answer, DatasetReady):  # else the consumer gives up
                self._make(dataset, begin.seed, message)
        assert isinstance(message, UseDataset)
        return message

    def _make(self, dataset: Dataset, seed: int, request: MakeSample) -> None:
        try:
            parcel, elements = pack(seeded_sample(dataset, seed, request.number))
            slot, descriptor = self._slot_for(parcel.nbytes, request.slot)
            if slot is not None:
                write(parcel, elements, memoryview(self._slots[slot]))
        except BaseException as error:  # handed to the consumer, whatever it is
            self._connection.send(failed(error))
            return
        self._connection.send(SampleReady(parcel, slot, descriptor is not None))
        if descriptor is not None:
            shared_memory.send(self._connection, descriptor)
            os.close(descriptor)

    def _slot_for(self, nbytes: int, slot: int | None) -> tuple[int | None, int | None]:
        """A slot of at least `nbytes`, and its descriptor if it is new; it takes the place of
        `slot` where that one is too small."""
        if nbytes == 0:
            return None, None
        if slot is not None and len(self._slots[slot]) >= nbytes:
            return slot, None
        memory, descriptor = shared_memory.create(nbytes)
        if slot is not None:
            del self._slots[slot]
        self._count += 1
        self._slots[self._count] = memory
        return self._count, descriptor


def failed(error: BaseException) -> SampleFailed:
    """What is sent of an error."""
    pickled = None
    # Not every exception can be made again from its arguments: try it here, where failing is easy.
    with suppress(Exception):
        pickled = pickle.dumps(error)
        pickle.loads(pickled)
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if sys.version_info < (3, 11):  # later ones write them
        text += "".join(f"{note}\n" for note in getattr(error, "__notes__", ()))
    return SampleFailed(type(error).__name__, str(error), pickled, text)
