"""What the suite runs on every rank.

Functions of a module with plain data in and out, so that a launcher may carry them to other
processes. Operands come from ``fl_dist.testing.data``, where the expectations come from as well.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_tensor import Tensor

from fl_dist import derived
from fl_dist.communicator import Communicator
from fl_dist.deadline import Deadline
from fl_dist.errors import FlError, MismatchError
from fl_dist.testing.data import Plain, Spec, flat, random_bytes
from fl_dist.work import Work

SHORT = 0.2


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
    arguments: list[Any] = [xs] if name in LISTS else xs
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


LISTS = ("all_reduce_many", "reduce_scatter", "all_to_all")


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
    x = xs[0]
    limit = Deadline(60.0, "[own_and_derived]")
    pairs: list[tuple[str, Any, Any]] = [
        ("all_reduce", comm.all_reduce(x), derived.all_reduce(comm, x, "sum", limit)),
        ("all_reduce_many", comm.all_reduce_many(xs), derived.all_reduce_many(comm, xs, "sum", limit)),
        ("broadcast", comm.broadcast(x, n - 1), derived.broadcast(comm, x, n - 1, limit)),
        ("reduce", comm.reduce(x, "max", n - 1), derived.reduce(comm, x, "max", n - 1, limit)),
        ("all_gather", comm.all_gather(x), derived.all_gather(comm, x, limit)),
        ("reduce_scatter", comm.reduce_scatter(xs), derived.reduce_scatter(comm, xs, "sum", limit)),
        ("all_to_all", comm.all_to_all(xs), derived.all_to_all(comm, xs, limit)),
        ("barrier", comm.barrier(), derived.barrier(comm, limit)),
    ]
    return [(name, plain_result(own), plain_result(other)) for name, own, other in pairs]


# ---- messages ------------------------------------------------------------------------------------


def messages(comm: Communicator, specs: Sequence[Spec]) -> list[Plain | None]:
    """Everybody sends everything to everybody before anybody receives."""
    others = [r for r in range(comm.world_size) if r != comm.rank]
    for other in others:
        for i, spec in enumerate(specs):
            comm.send(operand(comm.rank + i, spec), other)
    return [plain(comm.recv(other)) for other in others for _ in specs]


def tags(comm: Communicator) -> list[float]:
    """Rank 1 takes messages in another order of tags; within a tag they keep theirs."""
    order = [(7, 1.0), (0, 2.0), (7, 3.0), (32767, 4.0)]
    if comm.rank == 0:
        for tag, value in order:
            comm.send(ft.asarray(value), 1, tag=tag)
    if comm.rank != 1:
        return []
    return [comm.recv(0, tag=tag).item() for tag in (32767, 0, 7, 7)]


def sender_goes_on(comm: Communicator) -> list[float]:
    """What the sender does to its handle after ``send`` does not reach the receiver."""
    if comm.rank == 0:
        x = ft.asarray([1.0, 2.0])
        comm.send(x, 1)
        x[0] = 99.0
        x += 5.0
    comm.barrier()
    return list(comm.recv(0).tolist()) if comm.rank == 1 else []


def posted_receives(comm: Communicator) -> dict[str, Any]:
    """Receives that are posted before the sends, with collectives in between."""
    peer = comm.rank ^ 1
    first = comm.recv(peer, async_op=True)
    second = comm.recv(peer, async_op=True)
    total = comm.all_reduce(ft.asarray(1.0)).item()
    early = first.done
    for value in (10.0, 20.0):
        sent = comm.send(ft.asarray(value + comm.rank), peer, async_op=True)
        sent.wait()
    return {"early": early, "total": total, "got": [second.wait().item(), first.wait().item()]}


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


# ---- parts ------------------------------------------------------------------------------------------


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


# ---- randomness --------------------------------------------------------------------------------------


def random_numbers(comm: Communicator) -> list[float]:
    return list(ft.rand((8,)).tolist())


# ---- what must fail ------------------------------------------------------------------------------------


def error_of(action: Any) -> tuple[list[str], str]:
    """The names of the classes of the exception, and its text; ``([], "")`` when there is none."""
    try:
        action()
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        return (kinds if isinstance(error, FlError) else ["foreign", *kinds]), str(error)
    return [], ""


def refused(comm: Communicator) -> dict[str, tuple[list[str], str]]:
    """Calls with wrong arguments; then the ranks must still be in step."""
    x, n = ft.asarray([1.0, 2.0]), comm.world_size
    counts = ft.asarray([1, 2])
    other = (comm.rank + 1) % n
    any_comm: Any = comm  # what a type checker would refuse
    found = {
        "unknown op": error_of(lambda: comm.all_reduce(x, "median")),
        "mean of integers": error_of(lambda: comm.all_reduce(counts, "mean")),
        "sum of bools": error_of(lambda: comm.reduce(x < 2.0, "sum")),
        "not a tensor": error_of(lambda: any_comm.all_reduce([1.0, 2.0])),
        "a tensor for a list": error_of(lambda: any_comm.all_reduce_many(x)),
        "list too long": error_of(lambda: comm.all_to_all([x] * (n + 1))),
        "list too short": error_of(lambda: comm.reduce_scatter([x] * (n - 1))),
        "root too large": error_of(lambda: comm.broadcast(x, n)),
        "root negative": error_of(lambda: comm.reduce(x, "sum", -1)),
        "root not an int": error_of(lambda: any_comm.broadcast(x, 0.0)),
        "destination too large": error_of(lambda: comm.send(x, n)),
        "source negative": error_of(lambda: comm.recv(-1)),
        "send to itself": error_of(lambda: comm.send(x, comm.rank)),
        "tag too large": error_of(lambda: comm.send(x, other, tag=1 << 15)),
        "tag negative": error_of(lambda: comm.recv(other, tag=-1)),
        "negative color": error_of(lambda: comm.split(-2)),
        "timeout zero": error_of(lambda: comm.barrier(timeout=0)),
    }
    in_step = comm.all_reduce(ft.asarray(1.0)).item() == n
    found["in step afterwards"] = ([], "") if in_step else (["out of step"], "")
    return found


MISMATCHES: dict[str, tuple[str, str]] = {
    # what rank 0 does, what the others do: (operation, text that names it)
    "operation": ("all_reduce", "barrier"),
    "order": ("broadcast", "all_gather"),
    "shape": ("all_reduce float32 (3,)", "all_reduce float32 (2,)"),
    "number of axes": ("all_gather float32 (1,)", "all_gather float32 ()"),
    "dtype": ("all_reduce float32 (3,)", "all_reduce int32 (3,)"),
    "op": ("all_reduce sum", "all_reduce max"),
    "root": ("broadcast 0", "broadcast 1"),
    "count": ("all_reduce_many 2", "all_reduce_many 3"),
}


def mismatched(comm: Communicator, kind: str) -> tuple[list[str], str, bool]:
    """Rank 0 makes one call, the others another one. The error here, and whether all go on in step."""
    text = MISMATCHES[kind][0 if comm.rank == 0 else 1]
    kinds, message = error_of(lambda: _call(comm, text))
    in_step = comm.all_reduce(ft.asarray(1.0)).item() == comm.world_size
    return kinds, message, in_step


def _call(comm: Communicator, text: str) -> Any:
    name, _, rest = text.partition(" ")
    x = ft.asarray([1.0, 2.0, 3.0])
    if name == "barrier":
        return comm.barrier()
    if name == "broadcast":
        return comm.broadcast(x, int(rest or 0))
    if name == "all_reduce_many":
        return comm.all_reduce_many([x] * int(rest))
    if rest in ("sum", "max"):
        return comm.all_reduce(x, rest)
    if rest:
        dtype, _, shape = rest.partition(" ")
        sizes = tuple(int(size) for size in shape.strip("(),").split(",") if size)
        x = ft.zeros(sizes, ft.dtype(dtype))
    return getattr(comm, name)(x)


def mismatched_async(comm: Communicator) -> bool:
    """The error of an asynchronous call comes with its Work."""
    shape = (2,) if comm.rank == 0 else (3,)
    work = comm.all_reduce(ft.zeros(shape), async_op=True)
    kinds, _ = error_of(work.wait)
    return MismatchError.__name__ in kinds and work.done and isinstance(work.error, MismatchError)


def late(comm: Communicator, name: str) -> tuple[list[str], str, float]:
    """The last rank comes too late for what the others allow."""
    started = time.monotonic()
    if comm.rank == comm.world_size - 1:
        time.sleep(3 * SHORT)
        return [], "", 0.0
    if name == "recv":
        kinds, text = error_of(lambda: comm.recv(comm.world_size - 1, timeout=SHORT))
    else:
        kinds, text = error_of(lambda: comm.barrier(timeout=SHORT))
    return kinds, text, time.monotonic() - started


def wait_with_limit(comm: Communicator) -> list[Any]:
    """A wait that gives up leaves the operation under way."""
    if comm.rank != 0:
        comm.recv(0, tag=9)
        comm.barrier()
        return []
    work = comm.barrier(async_op=True)
    kinds, _ = error_of(lambda: work.wait(SHORT / 4))
    unfinished = error_of(lambda: work.result)[0]
    for other in range(1, comm.world_size):
        comm.send(ft.asarray(0.0), other, tag=9)
    work.wait()
    return ["DistTimeoutError" in kinds, "DistError" in unfinished, work.done, work.error is None]


def one_dies(comm: Communicator, waiting_in: str, victim: int) -> None:
    comm.barrier()
    if comm.rank == victim:
        raise ValueError("planted failure")
    if waiting_in == "recv":
        comm.recv(victim)
    elif waiting_in == "async":
        comm.all_reduce(ft.asarray(1.0), async_op=True).wait()
    else:
        comm.all_reduce(ft.asarray(1.0))


def one_leaves(comm: Communicator) -> None:
    """The last rank's program ends although the others still expect it."""
    if comm.rank != comm.world_size - 1:
        comm.barrier()
