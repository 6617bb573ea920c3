"""A stream that another process reads: samples come through a pipe, in order, with their places."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Generator
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from typing import Any

import fl_tensor as ft
from fl_data.errors import IterationError, SampleTypeError, WorkerError
from fl_data.prefetching.processes import error_of
from fl_data.prefetching.sample_pickle import SamplePickle, pack, unpack, write
from fl_data.prefetching.worker_main import SampleFailed, failed
from fl_data.samples import Sample
from fl_data.seeds import mix
from fl_data.streams.stream import Stream, StreamPosition
from fl_tensor.threads import set_num_threads

_JOIN_TIMEOUT = 5.0
"""Seconds that the process has for the sample that it is making, before it is killed."""

_END = "end"


def read_in_process(
    source: Stream, place: StreamPosition, depth: int
) -> Generator[tuple[Sample, StreamPosition], None, None]:
    """The samples of `source` from `place` on; the process makes at most `depth` ahead of time.

    Raises `SampleTypeError` where the stream cannot be pickled, and the error of the stream with
    the traceback of the process as its cause; `WorkerError` where the process dies.
    """
    owner, count = os.getpid(), 0
    seed = mix(ft.default_generator().seed, source.epoch)
    settings = depth, seed, ft.current_backend().name, ft.get_default_dtype().name
    try:
        task = _message((source, place))
    except Exception as error:
        raise SampleTypeError(
            f"[prefetch] {type(source).__name__} cannot be sent to a process ({error}): everything "
            "in it must be picklable, so no lambda, inner function or open file; define functions "
            "at the top of a module, or use prefetch(depth) with its thread"
        ) from error
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(
        target=_main, args=(there, settings), name="fl-data-stream", daemon=True
    )
    process.start()
    there.close()
    try:
        _send(here, task)
        while True:
            if os.getpid() != owner:
                raise IterationError(
                    "[prefetch] the process of this iterator belongs to another program: begin a "
                    "new pass here"
                )
            try:
                answer = _receive(here)
            except (EOFError, OSError):
                process.join(1.0)
                raise WorkerError(
                    f"[prefetch] the process that reads the stream ended with exit status "
                    f"{process.exitcode} while it made sample {count} of this pass, without a "
                    "Python error: a crash in a library, os._exit, or the system's memory running "
                    "out. A script keeps its main part under `if __name__ == '__main__':`",
                    count,
                ) from None
            if answer == _END:
                return
            if isinstance(answer, SampleFailed):
                raise error_of(answer)
            yield answer
            count += 1
            with suppress(OSError):  # it has ended: seen when the next sample is awaited
                here.send(None)
    finally:
        here.close()
        if os.getpid() == owner:
            process.join(_JOIN_TIMEOUT)
            if process.exitcode is None:
                process.kill()
                process.join()
            process.close()


def _main(connection: Connection, settings: tuple[int, int, str, str]) -> None:
    """Read the stream that comes through `connection`, until that is closed."""
    # Control-C reaches all processes of a terminal: the consumer decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    set_num_threads(1)
    depth, seed, backend, default_dtype = settings
    with suppress(EOFError, OSError):
        try:
            ft.use(backend)
            ft.set_default_dtype(default_dtype)
            ft.set_default_generator(ft.Generator(seed))
            source, place = _receive(connection)
            with closing(source.read(place)) as samples:
                for number, sample in enumerate(samples):
                    if number >= depth:
                        connection.recv()  # one was taken
                    _send(connection, _message(sample))
            answer: Any = _END
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except BaseException as error:  # handed to the consumer, whatever it is
            answer = failed(error)
        _send(connection, _message(answer))


def _message(obj: object) -> tuple[SamplePickle, bytearray]:
    parcel, elements = pack(obj)
    memory = bytearray(parcel.nbytes)
    write(parcel, elements, memoryview(memory))
    return parcel, memory


def _send(connection: Connection, message: tuple[SamplePickle, bytearray]) -> None:
    parcel, memory = message
    connection.send_bytes(pickle.dumps(parcel, pickle.HIGHEST_PROTOCOL))
    if memory:
        connection.send_bytes(memory)


def _receive(connection: Connection) -> Any:
    parcel: SamplePickle = pickle.loads(connection.recv_bytes())
    memory = connection.recv_bytes() if parcel.nbytes else b""
    return unpack(parcel, memoryview(memory), borrow=True)
