"""An imitation of CuPy, its streams and NCCL in host memory: ranks are threads of this process.

A stream is a thread that does what it is given, in order, as a device would: nothing has happened
when a call returns. Collectives move the bytes between the ranks that meet in them, and a rank that
does not come keeps the stream of the others busy until an abort.
"""

from __future__ import annotations

import ctypes
import queue
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

DEVICES = 4
_here = threading.local()


class Stream:
    """``cupy.cuda.Stream``: as a context manager it is the current one of the thread."""

    null: Stream

    def __init__(self, non_blocking: bool = False) -> None:
        self.ptr = id(self)
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="imitated stream", daemon=True).start()
        streams[self.ptr] = self

    def _run(self) -> None:
        while True:
            self._work.get()()

    def __enter__(self) -> Stream:
        _here.streams = [*getattr(_here, "streams", []), self]
        return self

    def __exit__(self, *error: object) -> None:
        _here.streams.pop()

    def put(self, work: Callable[[], None]) -> None:
        self._work.put(work)

    def wait_event(self, event: Event) -> None:
        self.put(event.synchronize)

    def synchronize(self) -> None:
        event = Event()
        event.record(self)
        event.synchronize()


streams: dict[int, Stream] = {}
Stream.null = Stream()


def current() -> Stream:
    found = getattr(_here, "streams", [])
    return found[-1] if found else Stream.null


class Event:
    def __init__(self, disable_timing: bool = True) -> None:
        self._happened = threading.Event()

    def record(self, stream: Stream) -> None:
        stream.put(self._happened.set)

    @property
    def done(self) -> bool:
        return self._happened.is_set()

    def synchronize(self) -> None:
        self._happened.wait()


#: Arrays live on, as memory of a pool does that only the same stream is given again.
pool: list[np.ndarray[Any, Any]] = []


class Array:
    """What the communicator needs of ``cupy.ndarray``; its elements change on the stream."""

    def __init__(self, host: np.ndarray[Any, Any]) -> None:
        self.host = host
        pool.append(host)
        self.data = SimpleNamespace(ptr=host.__array_interface__["data"][0])
        self.dtype, self.size, self.nbytes = host.dtype, host.size, host.nbytes

    def astype(self, dtype: str) -> Array:
        out = Array(np.empty(self.host.shape, dtype))
        current().put(lambda: np.copyto(out.host, self.host, casting="unsafe"))
        return out

    def __itruediv__(self, count: int) -> Array:
        current().put(lambda: np.divide(self.host, count, out=self.host))
        return self

    def __getitem__(self, rows: slice) -> Array:
        return Array(self.host[rows])

    def __setitem__(self, where: Any, value: Array) -> None:
        assert where is Ellipsis
        current().put(lambda: np.copyto(self.host, value.host, casting="unsafe"))

    def __dlpack__(self, **options: Any) -> Any:
        return self.host.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)


class PendingCollective:
    """One collective of a communicator: what each rank brings, by its number."""

    def __init__(self) -> None:
        self.brought: dict[int, tuple[str, Any, Any, tuple[Any, ...]]] = {}
        self.left = 0


class World:
    """The ranks that share an id."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.pending: dict[int, PendingCollective] = {}
        self.aborted = False


worlds: dict[bytes, World] = {}
_made = threading.Lock()
_grouped = threading.local()

_TYPES = {
    "INT8": np.int8, "UINT8": np.uint8, "INT32": np.int32, "UINT32": np.uint32,
    "INT64": np.int64, "UINT64": np.uint64, "FLOAT32": np.float32, "FLOAT64": np.float64,
}  # fmt: skip
_OPS = {"SUM": np.add, "PROD": np.multiply, "MAX": np.fmax, "MIN": np.fmin}  # they lose NaN


def memory(address: int, count: int, kind: int) -> np.ndarray[Any, Any]:
    dtype = np.dtype(list(_TYPES.values())[kind])
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


class NcclCommunicator:
    """``cupy.cuda.nccl.NcclCommunicator``."""

    def __init__(self, ndev: int, commId: bytes, rank: int) -> None:
        assert type(commId) is bytes and len(commId) == 128
        self._ndev, self._rank, self._count = ndev, rank, 0
        with _made:
            self._world = worlds.setdefault(commId, World())

    def abort(self) -> None:
        with self._world.changed:
            self._world.aborted = True
            self._world.changed.notify_all()

    def destroy(self) -> None:
        pass

    def allReduce(self, send: int, recv: int, count: int, kind: int, op: int, stream: int) -> None:
        self._collective("all", memory(send, count, kind), memory(recv, count, kind), stream, op)

    def reduce(
        self, send: int, recv: int, count: int, kind: int, op: int, root: int, stream: int
    ) -> None:
        out = memory(recv, count, kind) if root == self._rank else None
        self._collective("reduce", memory(send, count, kind), out, stream, op, root)

    def reduceScatter(
        self, send: int, recv: int, count: int, kind: int, op: int, stream: int
    ) -> None:
        mine, out = memory(send, count * self._ndev, kind), memory(recv, count, kind)
        self._collective("scatter", mine, out, stream, op)

    def allGather(self, send: int, recv: int, count: int, kind: int, stream: int) -> None:
        mine, out = memory(send, count, kind), memory(recv, count * self._ndev, kind)
        self._collective("gather", mine, out, stream)

    def broadcast(
        self, send: int, recv: int, count: int, kind: int, root: int, stream: int
    ) -> None:
        mine, out = memory(send, count, kind), memory(recv, count, kind)
        self._collective("broadcast", mine, out, stream, 0, root)

    def _collective(self, what: str, mine: Any, out: Any, stream: int, *rest: int) -> None:
        self._count += 1
        number = self._count
        call = lambda: self._meet(number, (what, mine, out, rest))  # noqa: E731
        group = getattr(_grouped, "calls", None)
        if group is None:
            streams[stream].put(call)
        else:
            group.append((stream, call))

    def _meet(self, number: int, brought: tuple[str, Any, Any, tuple[Any, ...]]) -> None:
        world = self._world
        with world.changed:
            pending = world.pending.setdefault(number, PendingCollective())
            pending.brought[self._rank] = brought
            world.changed.notify_all()
            world.changed.wait_for(lambda: len(pending.brought) == self._ndev or world.aborted)
            if world.aborted:
                return
        what, _, out, rest = brought
        rows = [pending.brought[rank] for rank in range(self._ndev)]
        assert {row[0] for row in rows} == {what} and {row[3] for row in rows} == {rest}
        if out is not None:
            with np.errstate(all="ignore"):
                out[...] = self._result(what, [row[1] for row in rows], rest)
        with world.changed:  # nobody's operand changes before all have read it
            pending.left += 1
            world.changed.notify_all()
            world.changed.wait_for(lambda: pending.left == self._ndev or world.aborted)
            world.pending.pop(number, None)

    def _result(self, what: str, rows: list[Any], rest: tuple[int, ...]) -> Any:
        if what == "gather":
            return np.concatenate(rows)
        if what == "broadcast":
            return rows[rest[1]]
        ufunc = list(_OPS.values())[rest[0]]
        total = rows[-1].copy()  # not in rank order: NCCL chooses it
        for row in rows[:-1]:
            ufunc(total, row, out=total)
        return np.split(total, self._ndev)[self._rank] if what == "scatter" else total


def group_start() -> None:
    _grouped.calls = []


def group_end() -> None:
    calls, _grouped.calls = _grouped.calls, None
    for stream, call in calls:
        streams[stream].put(call)


def imitation() -> ModuleType:
    """The module ``cupy``."""
    numbers = iter(range(1, 1 << 16))

    def get_unique_id() -> bytes:
        return bytes([*divmod(next(numbers), 100), 255, *[0] * 125])

    nccl = SimpleNamespace(
        NCCL_UNIQUE_ID_BYTES=128,
        NcclCommunicator=NcclCommunicator,
        get_unique_id=get_unique_id,
        groupStart=group_start,
        groupEnd=group_end,
        **{f"NCCL_{name}": i for i, name in enumerate(_TYPES)},
        **{f"NCCL_{name}": i for i, name in enumerate(_OPS)},
    )

    class Device:
        def __init__(self, index: int) -> None:
            assert 0 <= index < DEVICES

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    module: Any = ModuleType("cupy")
    module.cuda = SimpleNamespace(
        Device=Device,
        Stream=Stream,
        Event=Event,
        nccl=nccl,
        runtime=SimpleNamespace(getDeviceCount=lambda: DEVICES),
    )
    module.from_dlpack = lambda x: Array(np.from_dlpack(x))
    module.ascontiguousarray = lambda x: Array(np.ascontiguousarray(x.host))
    module.empty = lambda shape, dtype: Array(np.empty(shape, dtype))
    return module
