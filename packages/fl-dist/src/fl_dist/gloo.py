"""``gloo``: ``all_reduce`` through Gloo's Python bindings, on Python 3.10 (``fl-dist[gloo]``).

Everything else is ``processes``, from which ``GlooCommunicator`` derives: messages, the comparison
of calls, news of ranks that are gone. pygloo 0.2.1 is the last release of its bindings. They hold
the interpreter's lock in each call, so nothing overlaps, and they set no timeout: a rank that stops
inside of a call is noticed after Gloo's own 30 seconds.
"""

from __future__ import annotations

import pickle
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import fl_tensor as ft
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, DistTimeoutError, one_line
from fl_dist.host_arrays import HostArray, empty
from fl_dist.processes import ProcessesCommunicator, fold
from fl_dist.rank_info import RankInfo
from fl_tensor import DType

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["GlooCommunicator"]

#: Gloo's names of NumPy's types.
_TYPES = {
    "int8": "glooInt8",
    "uint8": "glooUint8",
    "int32": "glooInt32",
    "uint32": "glooUint32",
    "int64": "glooInt64",
    "uint64": "glooUint64",
    "float32": "glooFloat32",
    "float64": "glooFloat64",
}
#: A mean is a sum, divided afterwards.
_OPS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PRODUCT"}
#: Tag of the addresses that ranks of Gloo exchange; behind those of ``processes``.
_ADDRESS = 0xFFF0
#: Seconds in which the news that a rank is gone follows an error of Gloo.
_NEWS = 1.0


class GlooCommunicator(ProcessesCommunicator):
    """Sums, means and products of all dtypes, max and min of integers, through Gloo's ring.

    float16 and bfloat16 are summed in float32. Max and min of floating dtypes, where Gloo loses
    NaN, and what Gloo has no type for are reduced as ``processes`` does it.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "gloo"
    capabilities = frozenset({"agreement"})  # Gloo chooses the order of a reduction
    _gloo: _Mesh | None = None

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> Self:
        pygloo = import_pygloo()
        joined = super().join(info, timeout=timeout)
        assert isinstance(joined, cls)
        joined._connect(pygloo, Deadline(timeout, f"[join] {joined}", default=cls.timeout))
        return joined

    def _connect(self, pygloo: Any, deadline: Deadline) -> None:
        if self.world_size > 1:
            here = set(self._ranks) <= set(self._world.neighbours)
            try:
                self._gloo = _Mesh(pygloo, self, deadline, "127.0.0.1" if here else _own_address())
            except RuntimeError as error:
                self._explain(error, deadline)
            self.do_barrier(deadline)  # nobody closes a connection that another still makes

    def do_split(
        self, color: int | None, key: int, deadline: Deadline
    ) -> ProcessesCommunicator | None:
        part = super().do_split(color, key, deadline)
        if isinstance(part, GlooCommunicator) and self._gloo is not None:
            part._connect(self._gloo.pygloo, deadline)
        return part

    def do_close(self, deadline: Deadline) -> None:
        self._gloo = None
        super().do_close(deadline)

    def _reduce_all(
        self, x: HostArray, out: HostArray, op: str, dtype: DType, deadline: Deadline
    ) -> None:
        half = dtype is ft.float16 or dtype is ft.bfloat16
        kind = "float32" if half else dtype.name
        loses_nan = dtype.kind == "f" and op in ("max", "min")
        if self._gloo is None or not x.size or kind not in _TYPES or loses_nan:
            super()._reduce_all(x, out, op, dtype, deadline)
            return
        mine = fold.widened(dtype, x) if half else x
        total = empty(mine.size, mine.dtype) if half else out
        try:
            self._gloo.all_reduce(mine, total, kind, op)
        except RuntimeError as error:
            self._explain(error, deadline)
        fold.finish(op, total, self.world_size)
        if half:
            fold.narrowed(dtype, total, out)

    def _explain(self, error: RuntimeError, deadline: Deadline) -> NoReturn:
        """Gloo does not say which rank is gone; our sockets do, as soon as their thread may run."""
        others = [place for place in range(self.world_size) if place != self.rank]
        end = time.monotonic() + _NEWS
        while time.monotonic() < end:
            self._look(others, deadline)
            time.sleep(0.01)
        raise DistTimeoutError(f"{deadline.where}: Gloo gave up ({one_line(error)})") from error


class _Mesh:
    """Gloo's connections of every rank to every other."""

    def __init__(
        self, pygloo: Any, comm: GlooCommunicator, deadline: Deadline, address: str
    ) -> None:
        self.pygloo = pygloo
        self._context = pygloo.rendezvous.Context(comm.rank, comm.world_size)
        # The bindings keep none of these alive.
        self._attributes = pygloo.transport.tcp.attr(address)
        self._device = pygloo.transport.tcp.CreateDevice(self._attributes)
        self._addresses = _Addresses(comm, deadline)
        self._store = pygloo.rendezvous.CustomStore(self._addresses)
        self._context.connectFullMesh(self._store, self._device)

    def all_reduce(self, x: HostArray, out: HostArray, kind: str, op: str) -> None:
        """The interpreter stands still until it returns."""
        self.pygloo.allreduce(
            self._context,
            x.ctypes.data,
            out.ctypes.data,
            x.size,
            getattr(self.pygloo.glooDataType_t, _TYPES[kind]),
            getattr(self.pygloo.ReduceOp, _OPS[op]),
            self.pygloo.allreduceAlgorithm.RING,
        )


class _Addresses:
    """The store in which ranks of Gloo meet. Rank 3 sets the keys ``3`` and ``rank_3``; it sends
    them to all others."""

    def __init__(self, comm: GlooCommunicator, deadline: Deadline) -> None:
        self._comm = comm
        self._deadline = deadline
        self._known: dict[str, bytes] = {}

    def set(self, key: str, value: bytes) -> None:
        self._known[key] = value
        data = pickle.dumps((key, value))
        message = ft.frombytes(data, len(data), ft.uint8)
        for other in range(self._comm.world_size):
            if other != self._comm.rank:
                self._comm.do_send(message, other, _ADDRESS, self._comm.channel, self._deadline)

    def get(self, key: str) -> bytes:
        owner = int(key.rpartition("_")[2])
        while key not in self._known:
            message = self._comm.do_recv(owner, _ADDRESS, self._comm.channel, self._deadline)
            found, value = pickle.loads(bytes(message.tobytes()))
            self._known[found] = value
        return self._known[key]

    def wait(self, keys: list[str]) -> None:
        for key in keys:
            self.get(key)


def import_pygloo() -> Any:
    """Raises DistError where it cannot be imported: it has wheels for Python to 3.10 only."""
    try:
        import pygloo  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        here = f"this is Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise DistError(
            f"communicator 'gloo' needs pygloo 0.2.1 on Python 3.10, and {here} ({error}); install "
            "fl-dist[gloo] for Python 3.10, or use 'processes'"
        ) from error
    return pygloo


def _own_address() -> str:
    return socket.gethostbyname(socket.gethostname())
