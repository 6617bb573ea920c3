"""Programs of the suite that fail on purpose.

Functions of a module with plain data in and out, like those in ``fl_dist.testing.programs``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import FlError, MismatchError

SHORT = 0.2


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
        "uneven counts": error_of(lambda: comm.reduce_scatter_tensor(x, counts=[1] * (n + 1))),
        "counts of something else": error_of(lambda: comm.all_gather_tensor(x, counts=[9] * n)),
        "rows of a number": error_of(lambda: comm.all_gather_tensor(ft.asarray(1.0))),
        "nothing to scatter": error_of(lambda: comm.scatter(None, root=comm.rank)),
        "probe of itself": error_of(lambda: comm.probe(comm.rank)),
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
    "shares": ("reduce_scatter_tensor 1", "reduce_scatter_tensor 0"),
}


def mismatched(comm: Communicator, kind: str) -> tuple[list[str], str, bool]:
    """Rank 0 makes one call, the others another. The error here, and whether all go on in step."""
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
    if name == "reduce_scatter_tensor":
        counts = [int(rest)] + [0] * (comm.world_size - 2) + [3 - int(rest)]
        return comm.reduce_scatter_tensor(x, counts=counts)
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
    seconds = time.monotonic() - started
    time.sleep(SHORT)  # so that nobody finds the others gone instead
    return kinds, text, seconds


def recorded(comm: Communicator) -> list[tuple[int, str, float | None]]:
    """Number, description and duration of the collectives in rank 0's record; the last of them
    runs into its timeout."""
    comm.all_reduce(ft.asarray(1.0))
    comm.broadcast(ft.asarray(1.0))
    if comm.rank != 0:
        time.sleep(3 * SHORT)
        return []
    error_of(lambda: comm.barrier(timeout=SHORT))
    time.sleep(3 * SHORT)
    entries = comm.flight_recorder.entries()
    return [(e.number, e.description, e.ended and e.ended - e.started) for e in entries]


def one_dies(comm: Communicator, waiting_in: str, victim: int) -> None:
    comm.barrier()
    if comm.rank == victim:
        raise ValueError("injected failure")

    def wait() -> None:
        if waiting_in == "recv":
            comm.recv(victim)
        elif waiting_in == "recv from anybody":
            comm.recv(None)
        elif waiting_in == "async":
            comm.all_reduce(ft.asarray(1.0), async_op=True).wait()
        else:
            comm.all_reduce(ft.asarray(1.0))

    _timed(wait)


def one_leaves(comm: Communicator) -> None:
    """The last rank's program ends although the others still expect it."""
    if comm.rank != comm.world_size - 1:
        _timed(comm.barrier)


def _timed(wait: Callable[[], Any]) -> None:
    """The error of ``wait`` tells how many seconds it took."""
    started = time.monotonic()
    try:
        wait()
    except Exception as error:
        error.waited = time.monotonic() - started  # type: ignore[attr-defined]
        raise
