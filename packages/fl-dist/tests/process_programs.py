"""Programs that the tests of ``processes`` run on every rank."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import fl_memory as mem
import fl_tensor as ft
from fl_dist import Communicator, DistTimeoutError, PeerError
from fl_dist.testing.random_programs import run as random_programs

__all__ = ["random_programs"]

DTYPES = "int8 int32 uint16 int64 float16 bfloat16 float32 float64 complex64".split()
#: Numbers of elements below, at and above the slots of the arena and the chunks of the ring.
SIZES = [1, 700, 1 << 13, (1 << 13) + 1, 1 << 16, (1 << 17) + 3, (1 << 18) + 1, 300_001]


def values(rank: int, dtype: str, count: int, seed: int) -> ft.Tensor:
    """Any bits for integers; numbers of very different size for the others."""
    source = random.Random(f"{rank} {seed}")
    kind = ft.dtype(dtype)
    if kind.kind in "iu":
        return ft.frombytes(source.randbytes(count * kind.itemsize), (count,), kind)
    raw = ft.frombytes(source.randbytes(4 * count), (count,), ft.int32)
    x = raw.astype("float32") / 2.0**20
    return x.astype(dtype)


def large(comm: Communicator, seeds: Sequence[int]) -> list[bytes]:
    """The bits of collectives of tensors that pass in many chunks."""
    found: list[bytes] = []
    n = comm.world_size
    for seed in seeds:
        source = random.Random(seed)  # the same on every rank
        dtype = source.choice(DTYPES)
        count = source.choice(SIZES)
        ops = ["sum", "prod"] if dtype == "complex64" else ["sum", "max", "min", "prod"]
        op = source.choice(ops + ["mean"] * (ft.dtype(dtype).kind in "fc"))
        root = source.randrange(n)
        x = values(comm.rank, dtype, count, seed)
        shares = [source.randrange(2) * source.randrange(count + 1) for _ in range(n - 1)]
        while sum(shares) > count:
            shares[source.randrange(n - 1)] = 0
        counts = [*shares, count - sum(shares)]
        lengths = [source.randrange(1, 1 + count) for _ in range(n)]
        operation = source.randrange(9)
        if operation <= 1:
            results = [comm.all_reduce(x, op)]
        elif operation == 2:
            wide = "sum" if op in ("mean", "prod") else op
            results = comm.all_reduce_many([x, x[:3], ft.arange(7) + comm.rank], wide)
        elif operation == 3:
            results = [comm.reduce(x, op, root)]
        elif operation == 4:
            results = [comm.broadcast(x, root)]
        elif operation == 5:
            results = comm.all_gather(x)
        elif operation == 6:
            results = [comm.all_gather_tensor(x[: lengths[comm.rank]])]
        elif operation == 7:
            results = [comm.reduce_scatter_tensor(x, op, counts=counts)]
        else:
            results = comm.gather(x, root) or []
        found += [b"" if y is None else bytes(y.tobytes()) for y in results]
    return found


def extremes(comm: Communicator) -> list[list[str]]:
    """max and min of NaN, infinities and zeros in a large tensor, and the sum of large halves."""
    one = [float("nan"), 1.0, float("inf"), float("-inf"), 0.0]
    other = [2.0, float("nan"), 3.0, 4.0, -1.0]
    x = ft.asarray((one if comm.rank == 0 else other) * 20_000)
    found = [[str(v) for v in comm.all_reduce(x, op)[:5].tolist()] for op in ("max", "min")]
    half = ft.asarray([2048.0 if comm.rank == 0 else 1.0], dtype="float16")
    return [*found, [str(comm.all_reduce(half).item())]]


# ---- failures ------------------------------------------------------------------------------------


def wait_for_the_killed(comm: Communicator, waiting_in: str) -> tuple[str, int, str, float]:
    """The last rank dies without a word; what the others see, and after how many seconds."""
    comm.barrier()
    if comm.rank == comm.world_size - 1:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    try:
        if waiting_in == "recv":
            comm.recv(comm.world_size - 1)
        else:
            comm.all_reduce(ft.ones(3))
    except PeerError as error:
        return "PeerError", error.rank, error.cause, time.monotonic() - began
    return "nothing", -1, "", 0.0


def kill_one(comm: Communicator, waiting_in: str, folder: str) -> None:
    """As above, and each survivor writes down what it saw."""
    found = wait_for_the_killed(comm, waiting_in)
    Path(folder, str(comm.rank)).write_text(repr(found))


def wait_for_the_stopped(comm: Communicator, folder: str) -> None:
    """The last rank is stopped; the others write down the error, then let it go on."""
    pids = [x.item() for x in comm.all_gather(ft.asarray(os.getpid()))]
    last = comm.world_size - 1
    if comm.rank == last:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    while state_of(pids[last]) != "T":
        time.sleep(0.01)
    try:
        comm.all_reduce(ft.ones(3), timeout=0.5)
    except DistTimeoutError as error:
        Path(folder, str(comm.rank)).write_text(str(error))
    while len(list(Path(folder).iterdir())) < last:
        time.sleep(0.01)
    if comm.rank == 0:
        os.kill(pids[last], signal.SIGCONT)


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def raise_it(comm: Communicator, error: BaseException) -> None:
    if comm.rank == comm.world_size - 1:
        raise error
    comm.barrier()


def leave_at_once(comm: Communicator) -> NoReturn:
    os._exit(3)


class Unpicklable(Exception):
    def __init__(self, what: str, more: str) -> None:
        super().__init__(f"{what} and {more}")


def raise_unpicklable(comm: Communicator) -> None:
    raise Unpicklable("this", "that")


def return_unpicklable(comm: Communicator) -> Any:
    return threading.Lock()


def sleep(comm: Communicator, folder: str) -> None:
    Path(folder, f"{comm.rank}").write_text(str(os.getpid()))
    time.sleep(600)


def shared_memory_names(comm: Communicator) -> list[str]:
    comm.all_reduce(ft.ones(100_000))
    part = comm.split(0)
    assert part is not None
    part.all_reduce(ft.ones(100_000))
    return sorted(os.listdir("/dev/shm"))


def setting(comm: Communicator) -> dict[str, Any]:
    """What this rank took over from the caller."""
    from fl_tensor.extend import is_reproducible

    return {
        "backend": ft.current_backend().name,
        "manager": mem.current().name,
        "variable": os.environ.get("FL_DIST_TEST_VARIABLE"),
        "reproducible": is_reproducible(),
        "threads": ft.get_num_threads(),
        "folder": os.getcwd(),
    }
