"""Costs of messages, of copies and of the swapper's file."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, NamedTuple

import fl_dist as dist
import fl_tensor as ft
from fl_memory.managers.system import SystemManager
from fl_memory.swapping import FileMemory
from fl_nn.parallel.counting_manager import CountingManager

KB, MB = 1 << 10, 1 << 20
#: Bytes of the two messages that the line of a collective goes through.
MESSAGES = 64 * KB, 4 * MB
#: Bytes of the block that is written to the swapper's file and read again.
SWAPPED = 32 * MB


class Line(NamedTuple):
    """Milliseconds of a message: alpha + beta x bytes."""

    alpha: float
    beta: float

    def ms(self, nbytes: float) -> float:
        return self.alpha + self.beta * nbytes


def measure_links(
    comm: dist.Communicator, memory: CountingManager, rounds: int
) -> tuple[dict[str, Line], dict[str, float]]:
    """The line through two sizes of every message and of a copy, and its bytes per byte."""
    lines, workspace = {}, {}
    calls: dict[str, Callable[[ft.Tensor], Any]] = {
        "all_reduce": comm.all_reduce,
        "reduce_scatter_tensor": comm.reduce_scatter_tensor,
        "all_gather_tensor": lambda x: comm.all_gather_tensor(x[: x.shape[0] // comm.world_size]),
        "send": partial(_send_on, comm),
        "copy": lambda x: ft.eval(ft.concatenate([x[:1], x[1:]])),
    }
    for name, call in calls.items():
        times = []
        for nbytes in MESSAGES:
            x = ft.zeros((nbytes // 4,))
            ft.eval(x)
            call(x)
            spent = []
            for _ in range(rounds):
                comm.barrier()
                began = time.perf_counter()
                call(x)
                spent.append(1e3 * (time.perf_counter() - began))
            times.append(statistics.median(spent))
        beta = max(times[1] - times[0], 0.0) / (MESSAGES[1] - MESSAGES[0])
        lines[name] = Line(max(times[0] - beta * MESSAGES[0], 0.0), beta)
        workspace[name] = _allocated(memory, partial(call, x)) / MESSAGES[1]
    return lines, workspace


def _send_on(comm: dist.Communicator, x: ft.Tensor) -> None:
    if comm.world_size > 1:
        comm.send(x, (comm.rank + 1) % comm.world_size)
        comm.recv((comm.rank - 1) % comm.world_size)


def _allocated(memory: CountingManager, call: Callable[[], Any]) -> int:
    """Bytes alive at most during a call, above those before."""
    before = memory.begin()
    call()
    return memory.peak - before


def swap_speed(folder: str | PathLike[str]) -> float:
    """Bytes a millisecond that leave memory for a file in `folder` and come back."""
    memory = FileMemory(folder)
    block = SystemManager(memory).alloc(SWAPPED)
    ctypes.memset(block.address, 1, SWAPPED)
    began = time.perf_counter()
    memory.advise(block.address, SWAPPED, "cold")
    ctypes.memset(block.address, 2, SWAPPED)
    return SWAPPED / (1e3 * (time.perf_counter() - began))
