"""Batches: several launches as one call, for kernels that run no longer than a launch takes.

The launches may be of different kernels and must be independent. Each runs on one thread; the
threads share the launches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from fl_jit.kernels.codegen import compile, target, threads
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.kernel import BoundLaunch, Job, Launch
from fl_jit.kernels.codegen.thread_pools import HEADER

#: The arguments of one launch: addresses and scalars.
Call = tuple[Sequence[int], Sequence[complex]]

# The table: the number of launches, then the addresses of ``run`` and of its arguments for each.
_CODE = """
define void @some(ptr %table, i64 %begin, i64 %end, i64 %worker) {
  br label %head
head:
  %i = phi i64 [ %begin, %0 ], [ %next, %body ]
  %more = icmp slt i64 %i, %end
  br i1 %more, label %body, label %done
body:
  %twice = shl i64 %i, 1
  %first = add i64 %twice, 1
  %second = add i64 %twice, 2
  %run_at = getelementptr i64, ptr %table, i64 %first
  %arguments_at = getelementptr i64, ptr %table, i64 %second
  %run = load ptr, ptr %run_at
  %arguments = load ptr, ptr %arguments_at
  call void %run(ptr %arguments)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
define void @all(ptr %table) {
  %count = load i64, ptr %table
  call void @some(ptr %table, i64 0, i64 %count, i64 0)
  ret void
}
"""


@compile.once
def _code() -> compile.Code:
    module = f'target triple = "{target.triple()}"\n{_CODE}'
    return compile.load(module, lambda: module, target.host())


@compile.once
def run_all(keeps_gil: bool = False) -> Callable[[int], None]:
    """The function that runs the entries of a table at an address, in the calling thread."""
    kind = ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE
    return kind(None, ctypes.c_void_p)(_code().address("all"))


class Batch:
    """Launches of simple kernels (``Launch.is_simple``), run as one call."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        if not all(launch.is_simple for launch in launches):
            raise ProgramError("[batch] a kernel that needs memory to work in runs alone")
        self.launches = list(launches)
        self.work = sum(launch.work for launch in launches)
        self._free: list[_Table] = []

    def __call__(self, calls: Sequence[Call]) -> None:
        """Run; ``calls[i]`` are the arguments of launch i."""
        workers = self._workers()
        try:
            table = self._free.pop()
        except IndexError:
            table = _Table(self.launches)
        for launch, job, call in zip(self.launches, table.jobs, calls, strict=True):
            launch.write(job, *call)
        table.run(workers)
        self._free.append(table)

    def bound(self) -> Sequence[BoundLaunch | _BatchedLaunch]:
        """Launches with arguments of their own (``native_calls.NativeCall``), for the present
        number of threads. On several threads they all run when the last one does."""
        workers = self._workers()
        if workers == 1:
            return [launch.bound() for launch in self.launches]
        table = _Table(self.launches)
        pairs = zip(self.launches, table.jobs, strict=True)
        calls = [_BatchedLaunch(launch, job) for launch, job in pairs]
        calls[-1].run = lambda: table.run(workers)
        return calls

    def _workers(self) -> int:
        if not threads.pool():
            return 1
        return threads.workers(self.work, len(self.launches), threads.limit())


class _BatchedLaunch:
    entries: list[tuple[int, int]] = []
    nbytes = 0
    work = 0.0

    def __init__(self, launch: Launch, job: Job) -> None:
        self._launch, self._job = launch, job
        self.run: Callable[[], object] = lambda: None

    def write(self, addresses: Sequence[int], scalars: Sequence[complex], workspace: int) -> None:
        self._launch.write(self._job, addresses, scalars)


class _Table:
    # The arguments of one call of a batch. One call at a time owns them.

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.jobs: list[Job] = [launch.job() for launch in launches]
        pool, count = threads.pool(), len(launches)
        header = [_code().address("some"), count, 0, 0, *(pool.header if pool else ())]
        table = [count]
        for launch, job in zip(launches, self.jobs, strict=True):
            table += [launch.entry, job.operand]
        arguments = [*header, *[0] * (HEADER - len(header)), *table]
        self._words = (ctypes.c_int64 * len(arguments))(*arguments)
        self._job = ctypes.addressof(self._words)

    def run(self, workers: int) -> None:
        pool = threads.pool()
        if pool and workers > 1:
            pool.run(self._job, workers)
        else:
            run_all()(self._job + HEADER * 8)
