"""Programs that the suite runs on every rank.

Functions of a module with plain data in and out, so that a launcher may carry them to other
processes. Operands come from ``fl_dist.testing.data``, where the expectations come from as well.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import fl_tensor as ft
from fl_dist import derived
from fl_dist.call import LIST_OPERATIONS
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import DistError, DistTimeoutError
from fl_dist.testing.data import Plain, Spec, flat, random_bytes
from fl_dist.testing.failure_programs import error_of
from fl_dist.work import Work
from fl_tensor import Tensor


def plain(x: Tensor | None) -> Plain | None:
    """``(dtype, shape, values)`` of a tensor."""
    return None if x is None else (str(x.dtype), x.shape, ft.reshape(x, (-1,)).tolist())


def operand(rank: int, spec: Spec) -> Tensor:
    shape, dtype = spec
    return ft.reshape(ft.asarray(flat(rank, spec), dtype=ft.dtype(dtype)), shape)


def plain_result(result: Any) -> Any:
    return [plain(x) for x in result] if isinstance(result, list) else plain(result)


def collective(
    comm: Communicator,
    name: str,
    specs: Sequence[Spec],
    parameters: dict[str, Any],
    async_op: bool = False,
) -> dict[str, Any]:
    """One collective, and whether the values in and out behaved as values."""
    xs = [operand(comm.rank + comm.world_size * i, spec) for i, spec in enumerate(specs)]
    before = [bytes(x.tobytes()) for x in xs]
    arguments: list[Any] = [xs] if name in LIST_OPERATIONS else xs
    result = getattr(comm, name)(*arguments, **parameters, async_op=async_op)
    works = []
    if async_op:
        work, result = result, result.wait()
        works = [isinstance(work, Work), work.done, work.error is None, work.wait() is result]
        works.append(work.result is result)
    report = {
        "result": plain_result(result),
        "operands unchanged": before == [bytes(x.tobytes()) for x in xs],
        "work": works,
    }
    outputs = [y for y in (result if isinstance(result, list) else [result]) if y is not None]
    if xs:
        place = [(y.backend is xs[0].backend, str(y.device) == str(xs[0].device)) for y in outputs]
        report["same backend and device"] = all(same == (True, True) for same in place)
    report["new handles"] = len({id(y) for y in (*xs, *outputs)}) == len(xs) + len(outputs)
    # What one rank does to its result is nobody else's business.
    comm.barrier()
    if comm.rank == 0:
        for y in outputs:
            y[...] = 0
    comm.barrier()
    if comm.rank != 0:
        report["result after rank 0 wrote to its own"] = plain_result(result)
    report["operands stayed"] = before == [bytes(x.tobytes()) for x in xs]
    return report


def introduce(comm: Communicator, *args: Any) -> tuple[Any, ...]:
    return (comm.rank, comm.world_size, *args)


def reduced_bytes(comm: Communicator, name: str, op: str, dtype: str, count: int) -> list[bytes]:
    """The bits of one reduction of numbers whose sum depends on the order, twice."""
    x = ft.frombytes(random_bytes(comm.rank, dtype, count), (count,), ft.dtype(dtype))
    found = []
    for _ in range(2):
        y = comm.all_reduce(x, op) if name == "all_reduce" else comm.all_reduce_many([x, x], op)[1]
        found.append(bytes(y.tobytes()))
    return found


def special_values(comm: Communicator) -> list[str]:
    """NaN, infinities and signed zero through max, min and sum."""
    mine = [float("nan"), 1.0, 2.0, float("-inf")]
    x = ft.asarray([mine[(comm.rank + i) % 4] for i in range(4)], dtype=ft.float32)
    return [str(comm.all_reduce(x, op).tolist()) for op in ("max", "min", "sum")]


def own_and_derived(comm: Communicator) -> list[tuple[str, Any, Any]]:
    """Every collective as the communicator does it and as send and recv alone do it."""
    n = comm.world_size
    specs: list[Spec] = [((2, 3), "float32")] + [((i,), "float32") for i in range(1, n)]
    xs = [operand(comm.rank + n * i, spec) for i, spec in enumerate(specs)]
    x, last = xs[0], n - 1
    dealt = xs if comm.rank == 0 else []
    counts = (2, *[0] * (n - 1))
    limit = Deadline(60.0, "[own_and_derived]")

    def by_messages() -> dict[str, Any]:
        derived.barrier(comm, limit)
        return {
            "all_reduce": derived.all_reduce(comm, x, "sum", limit),
            "all_reduce_many": derived.all_reduce_many(comm, xs, "sum", limit),
            "broadcast": derived.broadcast(comm, x, last, limit),
            "reduce": derived.reduce(comm, x, "max", last, limit),
            "all_gather": derived.all_gather(comm, x, limit),
            "all_gather_tensor": derived.all_gather_tensor(comm, x, (2,) * n, limit),
            "reduce_scatter": derived.reduce_scatter(comm, xs, "sum", limit),
            "reduce_scatter_tensor": derived.reduce_scatter_tensor(comm, x, "sum", counts, limit),
            "gather": derived.gather(comm, x, last, limit),
            "scatter": derived.scatter(comm, dealt, 0, limit),
            "all_to_all": derived.all_to_all(comm, xs, limit),
        }

    own = {
        "all_reduce": comm.all_reduce(x),
        "all_reduce_many": comm.all_reduce_many(xs),
        "broadcast": comm.broadcast(x, last),
        "reduce": comm.reduce(x, "max", last),
        "all_gather": comm.all_gather(x),
        "all_gather_tensor": comm.all_gather_tensor(x),
        "reduce_scatter": comm.reduce_scatter(xs),
        "reduce_scatter_tensor": comm.reduce_scatter_tensor(x, counts=counts),
        "gather": comm.gather(x, last),
        "scatter": comm.scatter(dealt or None, 0),
        "all_to_all": comm.all_to_all(xs),
    }
    other = comm._on_transport(by_messages)
    return [(name, plain_result(own[name]), plain_result(other[name])) for name in own]


def uneven(comm: Communicator, async_op: bool) -> list[Any]:
    """Joined rows and divided rows where every rank has another number of them."""
    r, n = comm.rank, comm.world_size
    mine = ft.reshape(ft.asarray([10.0 * r + i for i in range(2 * r)], dtype="float32"), (r, 2))
    counts = list(range(n))
    x = ft.asarray([float(i) for i in range(sum(counts))], dtype="float32")
    results = [
        comm.all_gather_tensor(mine, async_op=async_op),
        comm.all_gather_tensor(mine, counts=counts, async_op=async_op),
        comm.reduce_scatter_tensor(x, counts=counts, async_op=async_op),
    ]
    return [plain(y.wait() if async_op else y) for y in results]


def scattered(comm: Communicator, dtype: str, async_op: bool) -> list[Any]:
    """One tensor per rank, of different shapes, from every root."""
    found = []
    for root in range(comm.world_size):
        xs = [operand(r + 10 * root, ((r, 2), dtype)) for r in range(comm.world_size)]
        y = comm.scatter(xs if comm.rank == root else None, root, async_op=async_op)
        found.append(plain(y.wait() if async_op else y))
    return found


def donated(comm: Communicator) -> list[Any]:
    """Two donated tensors: one that another handle shares, one of the transport's memory."""
    x = ft.full((4,), 3.0)
    other = copy.copy(x)
    total = comm.all_reduce(x, donate=True)
    used = error_of(lambda: x + 1.0)
    y = comm.buffer((4,), "float32")
    zeros = y.tolist()
    y[...] = other
    second = comm.all_reduce(y, donate=True, async_op=True).wait()
    return [total.tolist(), other.tolist(), used, zeros, second.tolist()]


def explained(comm: Communicator) -> dict[str, str]:
    found = {}
    for dtype in sorted(ft.current_backend().dtypes, key=str):
        x = ft.zeros((2,), dtype)
        for operation in ("all_reduce", "broadcast"):
            found[f"{operation} of {dtype}"] = comm.explain(operation, x)
    return found


def sums_of_halves(comm: Communicator) -> dict[str, Any]:
    """For each 16-bit dtype a sum, less its first term, that rounding at every step would lose; and
    a mean whose sum is beyond float16."""
    found = {}
    known = {str(dtype) for dtype in ft.current_backend().dtypes}
    for dtype, big in (("float16", 2048.0), ("bfloat16", 256.0)):  # whose spacing is 2 there
        if dtype in known:
            x = ft.asarray(1.0 if comm.rank else big).astype(ft.dtype(dtype))
            y = ft.asarray(40000.0).astype(ft.dtype(dtype))
            total, mean = comm.all_reduce(x), comm.all_reduce(y, "mean")
            found[dtype] = [total.item() - big, mean.item() == y.item()]
    return found


def in_parts(comm: Communicator, name: str) -> list[float]:
    """A collective in each of two parts, the even and the odd ranks."""
    part = comm.split(comm.rank % 2)
    assert part is not None
    x = ft.asarray(float(comm.rank))
    arguments = () if name == "barrier" else (x,)
    result = getattr(part, name)(*arguments)
    several = result if isinstance(result, list) else [result]
    return [y.item() for y in several if y is not None]


def in_flight(comm: Communicator, count: int) -> list[list[float]]:
    """Many collectives under way at once, waited for in the opposite order."""
    works = []
    for i in range(count):
        x = ft.asarray([float(i + comm.rank), 1.0])
        works.append(comm.all_reduce(x, async_op=True))
        works.append(comm.broadcast(x, i % comm.world_size, async_op=True))
    gathered = comm.all_gather(ft.asarray(float(comm.rank)))  # not before those above
    done = [float(all(work.done for work in works))]
    values = [list(work.wait().tolist()) for work in reversed(works)]
    comm.barrier(async_op=True)
    comm.sync()
    return [[x.item() for x in gathered], done, *values]


def barrier_times(comm: Communicator) -> tuple[float, float]:
    """When this rank came to the barrier and when it left, by a clock that all ranks share."""
    time.sleep(0.03 * comm.rank)
    came = time.time()
    comm.barrier()
    return came, time.time()


def wait_with_limit(comm: Communicator) -> list[bool]:
    """A wait that gives up leaves the operation under way."""
    if comm.rank != 0:
        comm.recv(0, tag=9)
        comm.barrier()
        return []
    work = comm.barrier(async_op=True)
    found = [_raises(DistTimeoutError, lambda: work.wait(0.05))]
    found.append(_raises(DistError, lambda: work.result))
    for other in range(1, comm.world_size):
        comm.send(ft.asarray(0.0), other, tag=9)
    work.wait()
    return [*found, work.done, work.error is None]


def _raises(kind: type[Exception], action: Callable[[], Any]) -> bool:
    try:
        action()
    except kind:
        return True
    return False


# ---- parts ---------------------------------------------------------------------------------------


def split_world(
    comm: Communicator, colors: Sequence[int | None], keys: Sequence[int]
) -> dict[str, Any]:
    part = comm.split(colors[comm.rank], keys[comm.rank])
    seen: dict[str, Any] = {"part": part is not None}
    if part is not None:
        part.barrier()
        seen["rank"] = part.rank
        seen["members"] = [x.item() for x in part.all_gather(ft.asarray(comm.rank))]
        seen["sum"] = part.all_reduce(ft.asarray(float(comm.rank))).item()
    seen["world"] = comm.all_reduce(ft.asarray(1.0)).item()
    return seen


def split_again(comm: Communicator) -> list[Any]:
    """A part of a part, and two parts of the same ranks, with the same tags in use everywhere."""
    first = comm.split(0, key=-comm.rank)
    second = comm.split(0)
    assert first is not None and second is not None
    inner = first.split(first.rank % 2)
    assert inner is not None
    peer = comm.rank ^ 1
    heard: list[Any] = [[x.item() for x in inner.all_gather(ft.asarray(comm.rank))]]
    if peer < comm.world_size:
        comm.send(ft.asarray(1.0), peer)
        first.send(ft.asarray(2.0), comm.world_size - 1 - peer)
        second.send(ft.asarray(3.0), peer)
        received = [second.recv(peer), first.recv(comm.world_size - 1 - peer), comm.recv(peer)]
        heard += [x.item() for x in received]
    return heard


# ---- randomness ----------------------------------------------------------------------------------


def random_numbers(comm: Communicator) -> list[float]:
    return list(ft.rand((8,)).tolist())
