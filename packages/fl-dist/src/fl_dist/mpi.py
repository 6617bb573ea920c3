"""``mpi``: the ranks are the processes of an MPI job (install ``fl-dist[mpi]``).

A program that mpiexec or srun started joins with ``dist.init("mpi")``; ``MPICommunicator.run``
starts mpiexec itself. Collectives are MPI's nonblocking ones, polled until their deadline.

MPI differs from the contract in three points. It has no float16 and bfloat16: they are reduced as
float32. Its max and min of floating dtypes treat NaN differently on each rank: the derived
algorithm computes them. It does not say which rank is gone: ranks tell it (``fl_dist.mpi_world``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import fl_tensor as ft
from fl_dist import host_arrays
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import ArgumentError, DistError
from fl_dist.host_arrays import HostArray
from fl_dist.mpi_world import MPIWorld, import_mpi, mpiexec
from fl_dist.processes import fold
from fl_dist.rank_info import RankInfo
from fl_tensor import DType, Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MPICommunicator"]

#: The operations of MPI. A mean is a sum, divided afterwards.
_OPS = {"sum": "SUM", "mean": "SUM", "max": "MAX", "min": "MIN", "prod": "PROD"}
#: The elements of a message begin at a multiple of this, after ``float32 2 3`` and a zero byte.
_ALIGNMENT = 64
#: No header is longer: NumPy has at most 64 axes.
_LONGEST = 2048


class MPICommunicator(Communicator):
    """Ranks of an MPI job, or of a part of it: each has a communicator of MPI of its own.

    MPI must run with MPI_THREAD_MULTIPLE, which is what mpi4py asks for: asynchronous operations
    and messages poll on threads of their own.
    """

    CONTRACT: ClassVar[tuple[int, int]] = (1, 0)
    name = "mpi"
    own_launcher = True  # mpiexec
    capabilities = frozenset({"agreement"})  # MPI chooses the order of a reduction
    native_dtypes = frozenset(
        "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 "
        "complex128".split()
    )

    def __init__(
        self, world: MPIWorld, mpi: Any, ranks: Sequence[int], is_group: bool = False
    ) -> None:
        """mpi: an intracommunicator of mpi4py. ranks: its ranks, numbered as in the job."""
        super().__init__(mpi.Get_rank(), mpi.Get_size())
        self._world = world
        self._mpi = mpi
        self._ranks = list(ranks)
        self._is_group = is_group
        self._words = np.empty((2, 2), np.int64)

    # ---- beginning and end

    @classmethod
    def join(cls, info: RankInfo, *, timeout: float | None = None) -> Self:
        MPI = import_mpi()
        place = f"[join] rank {info.rank} of {info.world_size}"
        world = MPI.COMM_WORLD
        found = world.Get_rank(), world.Get_size()
        if found != (info.rank, info.world_size):
            raise ArgumentError(
                f"{place}: MPI has started this process as rank {found[0]} of {found[1]}; start "
                f"the program with mpiexec -n {info.world_size} (or srun --mpi=pmi2)"
            )
        comm, request = world.Idup()
        deadline = Deadline(timeout, place, default=cls.timeout)
        while not request.Test():
            if not deadline.remaining():
                raise deadline.error("the other ranks to join")
        joined = cls(MPIWorld(MPI, comm, info.local_size), comm, range(found[1]))
        joined.timeout = cls.timeout if timeout is None else timeout
        return joined

    @classmethod
    def offers(cls, world_size: int) -> bool:
        return world_size >= 1 and mpiexec() is not None

    @classmethod
    def run(
        cls, world_size: int, fn: Callable[..., Any], *args: Any, timeout: float | None = None
    ) -> list[Any]:
        from fl_dist.launch import mpiexec

        return mpiexec.run(cls, world_size, fn, *args, timeout=timeout)

    def do_close(self, deadline: Deadline) -> None:
        self._world.flush(deadline.remaining())
        if not self._is_group:
            self._world.tell("its program ended", failed=False)
        elif not self._world.abandoned:  # MPI can have some 2,000 communicators at a time
            self._mpi.Free()

    def abort(self, cause: str) -> None:
        super().abort(cause)
        self._world.tell(cause, failed=True)

    def buffer(self, shape: Sequence[int], dtype: DType | str = "float32") -> Tensor:
        return host_arrays.zeros(shape, dtype)

    # ---- messages

    def do_send(self, x: Tensor, dst: int, tag: int, channel: int, deadline: Deadline) -> None:
        elements = host_arrays.flat(x).view(np.uint8)
        header = " ".join([str(x.dtype), *map(str, x.shape)]).encode()
        begin = _ALIGNMENT * -(-(len(header) + 1) // _ALIGNMENT)
        message = np.empty(begin + elements.size, np.uint8)
        message[:begin] = np.frombuffer(header.ljust(begin - 1) + b"\0", np.uint8)
        message[begin:] = elements
        self._world.send(self._mpi, message, dst, self._tag(tag, channel, deadline))

    def do_recv(
        self, src: int, tag: int, channel: int, deadline: Deadline, like: Tensor | None = None
    ) -> Tensor:
        tag = self._tag(tag, channel, deadline)
        _, message = self._world.receive(self._mpi, src, tag, deadline, [self._ranks[src]])
        return _unpacked(message, like)

    def do_probe(self, src: int, tag: int, channel: int) -> bool:
        deadline = Deadline(None, f"[probe] rank {self.rank} of {self.world_size}")
        tag = self._tag(tag, channel, deadline)
        if self._mpi.Iprobe(src, tag):
            return True
        self._world.check_present(deadline, [self._ranks[src]])
        return False

    def do_recv_any(self, tag: int, channel: int, deadline: Deadline) -> tuple[int, Tensor]:
        ANY_SOURCE = self._world.MPI.ANY_SOURCE
        tag = self._tag(tag, channel, deadline)
        others = [rank for rank in self._ranks if rank != self._world.rank]
        src, message = self._world.receive(self._mpi, ANY_SOURCE, tag, deadline, others, need=any)
        return src, _unpacked(message)

    def _tag(self, tag: int, channel: int, deadline: Deadline) -> int:
        number = tag + (channel << 16)
        limit: int = self._mpi.Get_attr(self._world.MPI.TAG_UB)
        if number > limit:
            raise DistError(
                f"{deadline.where}: tag {tag} of channel {channel} is {number} in MPI, and this "
                f"MPI has tags to {limit}; split the world itself, which needs no channels"
            )
        return number

    # ---- collectives

    def do_check_consistent(self, fingerprint: int, deadline: Deadline) -> bool:
        mine, largest = self._words
        mine[:] = fingerprint, -fingerprint
        self._complete(self._mpi.Iallreduce(mine, largest, self._op("max")), self._words, deadline)
        return bool(largest[0] == -largest[1])

    def do_barrier(self, deadline: Deadline) -> None:
        self._complete(self._mpi.Ibarrier(), None, deadline)

    def do_all_reduce(
        self, x: Tensor, op: str, deadline: Deadline, into: Tensor | None = None
    ) -> Tensor:
        if not self._reduces(x, op):
            return super().do_all_reduce(x, op, deadline)
        own = None if _is_half(x) else host_arrays.reusable(into)
        array = self._world.MPI.IN_PLACE if own is not None else self._operand(x)
        out = own if own is not None else host_arrays.empty(array.size, array.dtype)
        self._complete(self._mpi.Iallreduce(array, out, self._op(op)), (array, out), deadline)
        return self._result(x, op, out, x.shape)

    def do_reduce(self, x: Tensor, op: str, root: int, deadline: Deadline) -> Tensor | None:
        if not self._reduces(x, op):
            return super().do_reduce(x, op, root, deadline)
        array = self._operand(x)
        out = host_arrays.empty(array.size, array.dtype) if self.rank == root else None
        request = self._mpi.Ireduce(array, out, self._op(op), root)
        self._complete(request, (array, out), deadline)
        return None if out is None else self._result(x, op, out, x.shape)

    def do_reduce_scatter_tensor(
        self, x: Tensor, op: str, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        if not self._reduces(x, op):
            return super().do_reduce_scatter_tensor(x, op, counts, deadline)
        array = self._operand(x)
        sizes = [count * (array.size // x.shape[0]) for count in counts]
        out = host_arrays.empty(sizes[self.rank], array.dtype)
        request = self._mpi.Ireduce_scatter(array, out, sizes, self._op(op))
        self._complete(request, (array, out, sizes), deadline)
        return self._result(x, op, out, (counts[self.rank], *x.shape[1:]))

    def do_all_gather_tensor(
        self, x: Tensor, counts: tuple[int, ...], deadline: Deadline
    ) -> Tensor:
        shape = (sum(counts), *x.shape[1:])
        array = host_arrays.flat(x)
        out = host_arrays.empty(math.prod(shape), array.dtype)
        row = math.prod(x.shape[1:]) * array.itemsize
        sizes = [count * row for count in counts]
        BYTE = self._world.MPI.BYTE
        received = [out.view(np.uint8), sizes, None, BYTE]
        request = self._mpi.Iallgatherv([array.view(np.uint8), BYTE], received)
        self._complete(request, (array, out, sizes), deadline)
        return host_arrays.tensor(out, shape, x.dtype, like=x)

    def do_broadcast(self, x: Tensor, root: int, deadline: Deadline) -> Tensor:
        array = host_arrays.flat(x)
        out = host_arrays.empty(array.size, array.dtype)
        if self.rank == root:
            out[...] = array
        request = self._mpi.Ibcast([out.view(np.uint8), self._world.MPI.BYTE], root)
        self._complete(request, out, deadline)
        return host_arrays.tensor(out, x.shape, x.dtype, like=x)

    def do_split(self, color: int | None, key: int, deadline: Deadline) -> Communicator | None:
        MPI = self._world.MPI
        part = self._mpi.Split(MPI.UNDEFINED if color is None else color, key)
        if part == MPI.COMM_NULL:
            return None
        numbers = part.Get_group().Translate_ranks(None, self._mpi.Get_group())
        return type(self)(self._world, part, [self._ranks[r] for r in numbers], True)

    # ---- inside

    def _complete(self, request: Any, memory: Any, deadline: Deadline) -> None:
        self._world.complete(request, memory, deadline, self._ranks)

    def _op(self, op: str) -> Any:
        return getattr(self._world.MPI, _OPS[op])

    def _reduces(self, x: Tensor, op: str) -> bool:
        """Whether MPI reduces it, as it is or in float32."""
        if x.dtype.kind == "f" and op in ("max", "min"):
            return False
        return x.size > 0 and (_is_half(x) or str(x.dtype) in self.native_dtypes)

    def _operand(self, x: Tensor) -> HostArray:
        array = host_arrays.flat(x)
        return fold.widened(x.dtype, array) if _is_half(x) else array

    def _result(self, x: Tensor, op: str, total: HostArray, shape: tuple[int, ...]) -> Tensor:
        fold.finish(op, total, self.world_size)
        if _is_half(x):
            wide, total = total, host_arrays.empty(total.size, host_arrays.storage(x.dtype))
            fold.narrowed(x.dtype, wide, total)
        return host_arrays.tensor(total, shape, x.dtype, like=x)


def _is_half(x: Tensor) -> bool:
    return x.dtype is ft.float16 or x.dtype is ft.bfloat16


def _unpacked(message: HostArray, like: Tensor | None = None) -> Tensor:
    """The tensor of a message; over its memory."""
    end = bytes(message[:_LONGEST]).index(0)
    begin = _ALIGNMENT * -(-(end + 1) // _ALIGNMENT)
    name, *sizes = bytes(message[:end]).decode().split()
    dtype, shape = ft.dtype(name), tuple(map(int, sizes))
    elements = message[begin:].view(host_arrays.storage(dtype))
    return host_arrays.tensor(elements, shape, dtype, like)
