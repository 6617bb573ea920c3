"""``nccl``: one rank per GPU; tensors on CUDA devices go through NCCL (``fl-cupy[nccl]``).

``NcclCommunicator`` derives from that of ``processes``, which carries messages and tensors on the
host, compares calls before each collective and tells which ranks are gone. So ranks enter a
collective of NCCL together or not at all.

Collectives run on a stream of the communicator, behind the work that the caller's stream had when
they were called. The caller's stream waits for them; the host does not, unless it asks
(``Work.synchronize``, or reading a value). Provisional: several GPUs have not run it yet.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import fl_tensor as ft
from fl_cupy.streams import Order, StreamWork, order_of_call
from fl_cupy.watchdog import Watchdog
from fl_dist import Deadline, DistError, RankInfo, Work, derived
from fl_dist.call import Call
from fl_dist.errors import one_line
from fl_dist.processes import ProcessesCommunicator
from fl_tensor import Device, Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NcclCommunicator"]

#: Names of NCCL's constants. It has no int16 and no complex numbers.
_TYPES = {
    "int8": "NCCL_INT8",
    "uint8": "NCCL_UINT8",
    "int32": "NCCL_INT32",
    "uint32": "NCCL_UINT32",
    "int64": "NCCL_INT64",
    "uint64": "NCCL_UINT64",
    "float32": "NCCL_FLOAT32",
    "float64": "NCCL_FLOAT64",
}
#: A mean is a sum, divided afterwards.
_OPS = {
    "sum": "NCCL_SUM",
    "mean": "NCCL_SUM",
    "max": "NCCL_MAX",
    "min": "NCCL_MIN",
    "prod": "NCCL_PROD",
}
_HALF = ("float16", "bfloat16")

#: Type, operation and stream, as NCCL numbers them.
Target: TypeAlias = tuple[int, int, int]
#: Calls NCCL with the operand and the result, arrays of CuPy.
Enqueue: TypeAlias = Callable[[Any, Any, Target], None]

#: NCCL lets one thread at a time make calls.
_calling = threading.Lock()


class NcclCommunicator(ProcessesCommunicator):
    """Rank ``r`` of a host has the device ``cuda:r``.

    float16 and bfloat16 are summed in float32. Max and min of floating dtypes are computed on the
    host, because NCCL's lose NaN.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "nccl"
    capabilities = frozenset({"agreement"})  # NCCL chooses the order of a reduction
    native_devices = frozenset({"cpu", "cuda"})

    # ---- beginning and end

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> Self:
        cupy = import_cupy()
        count = cupy.cuda.runtime.getDeviceCount()
        if info.local_rank >= count:
            raise DistError(
                f"[join] rank {info.rank} is number {info.local_rank} of its host, which has "
                f"{count} CUDA devices: nccl takes one rank per device; start fewer ranks"
            )
        joined = super().join(info, timeout=timeout)
        assert isinstance(joined, cls)
        joined._connect(cupy, info.local_rank)
        return joined

    def _connect(self, cupy: Any, index: int) -> None:
        """Make the communicator of NCCL: its id travels from rank 0 to the others."""
        self._cupy = cupy
        self._index = index
        self._device = cupy.cuda.Device(index)
        nccl = cupy.cuda.nccl
        deadline = Deadline(self.timeout, f"[join] rank {self.rank} of {self.world_size}")
        mine = nccl.get_unique_id() if self.rank == 0 else bytes(nccl.NCCL_UNIQUE_ID_BYTES)
        shared = self.do_broadcast(ft.asarray(list(mine), ft.uint8, backend="numpy"), 0, deadline)
        with self._device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
            self._nccl = nccl.NcclCommunicator(self.world_size, bytes(shared.tolist()), self.rank)
        others = [place for place in range(self.world_size) if place != self.rank]
        self._watchdog = Watchdog(lambda deadline: self._look(others, deadline), self._give_up)

    def do_split(
        self, color: int | None, key: int, deadline: Deadline
    ) -> ProcessesCommunicator | None:
        part = super().do_split(color, key, deadline)
        if isinstance(part, NcclCommunicator):
            part._connect(self._cupy, self._index)
        return part

    def do_close(self, deadline: Deadline) -> None:
        self._watchdog.drain()
        self._nccl.destroy()
        super().do_close(deadline)

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self._nccl.abort()

    def _give_up(self, error: Exception) -> None:
        self._broken = one_line(error)
        self._nccl.abort()

    # ---- streams

    def start(self, call: Call, deadline: Deadline) -> Work:
        on_device = [x for x in call.values if self._is_here(x)]
        if not on_device:
            return super().start(call, deadline)
        order = Order(self._event(self._stream_of(on_device[0])), call.operation)
        token = order_of_call.set(order)
        try:
            work = super().start(call, deadline)
        finally:
            order_of_call.reset(token)
        return StreamWork(work, order, self._watchdog, lambda: self._stream_of(on_device[0]))

    def _stream_of(self, x: Tensor) -> Any:
        """The stream on which the backend of ``x`` works in this thread."""
        stream = x.backend.stream(x.device)
        if stream is None:
            return self._cupy.cuda.Stream.null
        return self._cupy.cuda.ExternalStream(stream) if isinstance(stream, int) else stream

    def _event(self, stream: Any) -> Any:
        with self._device:
            event = self._cupy.cuda.Event(disable_timing=True)
            event.record(stream)
        return event

    # ---- collectives

    def do_all_reduce(
        self, x: Tensor, op: str, deadline: Deadline, into: Tensor | None = None
    ) -> Tensor:
        if not self._reduces(x, op):
            return super().do_all_reduce(x, op, deadline, into)

        def enqueue(source: Any, out: Any, to: Target) -> None:
            self._nccl.allReduce(source.data.ptr, out.data.ptr, out.size, *to)

        return self._reduce(x, x.shape, op, enqueue, deadline)

    def do_reduce(self, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
        if not self._reduces(x, op):
            return super().do_reduce(x, op, root, deadline)

        def enqueue(source: Any, out: Any, to: Target) -> None:
            kind, operation, stream = to
            buffers = source.data.ptr, out.data.ptr
            self._nccl.reduce(*buffers, out.size, kind, operation, root, stream)

        total = self._reduce(x, x.shape, op, enqueue, deadline)
        return total if self.rank == root else None

    def do_reduce_scatter_tensor(
        self, x: Tensor, op: str, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        if not self._reduces(x, op):
            return super().do_reduce_scatter_tensor(x, op, counts, deadline)

        def enqueue(source: Any, out: Any, to: Target) -> None:
            kind, operation, stream = to
            if len(set(counts)) == 1:
                self._nccl.reduceScatter(source.data.ptr, out.data.ptr, out.size, *to)
                return
            with self._group():
                for root, rows in enumerate(parts(source, counts)):
                    buffers = rows.data.ptr, out.data.ptr
                    self._nccl.reduce(*buffers, rows.size, kind, operation, root, stream)

        shape = (counts[self.rank], *x.shape[1:])
        return self._reduce(x, shape, op, enqueue, deadline)

    def do_all_gather_tensor(
        self, x: Tensor, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        shape = (sum(counts), *x.shape[1:])
        if not self._is_here(x) or not math.prod(shape):
            return super().do_all_gather_tensor(x, counts, deadline)

        def enqueue(source: Any, out: Any, to: Target) -> None:
            kind, _, stream = to
            if len(set(counts)) == 1:
                self._nccl.allGather(source.data.ptr, out.data.ptr, source.nbytes, kind, stream)
                return
            with self._group():
                for root, rows in enumerate(parts(out, counts)):
                    mine = source if root == self.rank else rows
                    buffers = mine.data.ptr, rows.data.ptr
                    self._nccl.broadcast(*buffers, rows.nbytes, kind, root, stream)

        return self._run(x, shape, enqueue, self._target("uint8", "sum"), deadline)

    def do_all_reduce_many(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> list[Tensor]:
        if not any(map(self._is_here, xs)):
            return super().do_all_reduce_many(xs, op, deadline)
        return derived.all_reduce_many(self, xs, op, deadline)

    def do_reduce_scatter(self, xs: Sequence[Tensor], op: str, deadline: Deadline) -> Tensor:
        if not any(map(self._is_here, xs)):
            return super().do_reduce_scatter(xs, op, deadline)
        return derived.reduce_scatter(self, xs, op, deadline)

    def do_all_gather(self, x: Tensor, deadline: Deadline) -> list[Tensor]:
        order = order_of_call.get()
        # Lengths of axis 0 are gathered within another call, which reads them at once: no stream
        # of the caller waits for them.
        is_step = order is not None and order.operation != "all_gather"
        if is_step or not self._is_here(x):
            return super().do_all_gather(x, deadline)
        return derived.all_gather(self, x, deadline)

    def do_broadcast(self, x: Tensor, root: int, deadline: Deadline) -> Tensor:
        if not self._is_here(x) or not x.size:
            return super().do_broadcast(x, root, deadline)

        def enqueue(source: Any, out: Any, to: Target) -> None:
            kind, _, stream = to
            self._nccl.broadcast(source.data.ptr, out.data.ptr, out.nbytes, kind, root, stream)

        return self._run(x, x.shape, enqueue, self._target("uint8", "sum"), deadline)

    # ---- inside

    def _is_here(self, x: Tensor) -> bool:
        return x.device.kind == "cuda" and self.world_size > 1

    def _reduces(self, x: Tensor, op: str) -> bool:
        """Whether NCCL reduces it, as it is or in float32."""
        if not self._is_here(x) or not x.size or (x.dtype.kind == "f" and op in ("max", "min")):
            return False
        return str(x.dtype) in _TYPES or str(x.dtype) in _HALF

    def _target(self, dtype: str, op: str) -> Target:
        nccl = self._cupy.cuda.nccl
        return getattr(nccl, _TYPES[dtype]), getattr(nccl, _OPS[op]), self._stream.ptr

    def _reduce(
        self, x: Tensor, shape: tuple[int, ...], op: str, enqueue: Enqueue, deadline: Deadline
    ) -> Tensor:
        half = str(x.dtype) in _HALF
        to = self._target("float32" if half else str(x.dtype), op)

        def reduce(source: Any, out: Any, to: Target) -> None:
            wide = source.astype("float32") if half else source
            total = self._cupy.empty(shape, "float32") if half else out
            enqueue(wide, total, to)
            if op == "mean":
                total /= self.world_size
            if half:
                out[...] = total

        return self._run(x, shape, reduce, to, deadline)

    def _run(
        self,
        x: Tensor,
        shape: tuple[int, ...],
        enqueue: Enqueue,
        to: Target,
        deadline: Deadline,
    ) -> Tensor:
        """Put a collective on the stream of this communicator, behind what ``x`` depends on."""
        here = beside_device(x, Device("cuda", self._index))
        stream, order = self._stream_of(here), order_of_call.get()
        blocking, order = order is None, order or Order(self._event(stream))
        with self._device, self._stream:
            self._stream.wait_event(order.ready)
            source = self._cupy.ascontiguousarray(self._cupy.from_dlpack(here))
            out = self._cupy.empty(shape, source.dtype)
            with _calling:
                enqueue(source, out, to)
        order.done = self._event(self._stream)
        self._watchdog.watch(order.done, deadline, (source, out))
        if blocking or here is not x:  # it is moved back at once
            stream.wait_event(order.done)
        return beside_device(ft.from_dlpack(out, x.backend, here.device), x.device)

    @contextmanager
    def _group(self) -> Iterator[None]:
        """Calls of NCCL that it runs as one."""
        nccl = self._cupy.cuda.nccl
        nccl.groupStart()
        try:
            yield
        finally:
            nccl.groupEnd()


def beside_device(x: Tensor, device: Device) -> Tensor:
    return x if x.device == device else x.to(device)


def parts(rows: Any, counts: Sequence[int]) -> Iterator[Any]:
    """Views of axis 0, one for each rank."""
    begin = 0
    for count in counts:
        yield rows[begin : begin + count]
        begin += count


def import_cupy() -> Any:
    """CuPy with NCCL. Raises DistError with the way out."""
    try:
        import cupy
        from cupy.cuda import nccl

        if not getattr(nccl, "available", True):
            raise ImportError("this CuPy was built without NCCL")
    except ImportError as error:
        raise DistError(
            f"communicator 'nccl' needs CuPy with NCCL ({error}); install fl-cupy[cuda12,nccl] or "
            "fl-cupy[cuda13,nccl]"
        ) from error
    return cupy
