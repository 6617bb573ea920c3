"""Compiled programs, and their launches.

``kernel = Kernel.of(program)`` compiles, or finds the compiled kernel. ``launch =
kernel.bind(sizes, strides)`` precomputes all that depends on sizes. ``launch(addresses, scalars)``
then costs about two microseconds. Several threads may call it at once.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fl_jit.kernels.codegen import compile, emit, target, threads, workspace
from fl_jit.kernels.codegen.arg_layout import GRID, REST, ArgLayout
from fl_jit.kernels.codegen.errors import ProgramError
from fl_jit.kernels.codegen.grid import Grid, cut
from fl_jit.kernels.codegen.program import Program
from fl_jit.kernels.codegen.schedule import schedule
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.thread_pools import HEADER, REVERSED
from fl_memory import free_after_fork

Strides = Sequence[Sequence[int]]
_WORD_BYTES = 8
#: The offset of the first field that changes from call to call.
_FIRST = REVERSED * _WORD_BYTES
#: Every second launch runs from the last chunk to the first. The caches hold the end of the data
#: of the previous launch, and most next launches use the same data.
_directions = itertools.cycle((0, 1))
#: Launches in the cache of a kernel.
_LAUNCHES = 64


#: Alignment of the vectors of non-temporal stores, in bytes.
ALIGNED = 64


class Kernel:
    """The machine code of ``program``.

    ``streams``: outputs use non-temporal stores, for arrays that exceed the caches; see
    ``may_stream``.
    """

    def __init__(
        self, program: Program, machine: Target | None = None, streams: bool = False
    ) -> None:
        machine = machine or target.host()
        self.program = program
        self.plan = schedule(program)
        self.layout = ArgLayout(program)
        about = f"{machine.vector_bits}{' streams' * streams}\n{program.text}"
        self._code = compile.load(
            about, lambda: emit.emit(program, machine, self.plan, streams), machine
        )
        self.sweep = self._code.address("sweep")
        self.finish = self._code.address("finish") if self.plan.late_outputs else 0
        self.entry = run = self._code.address("run")
        #: Keeps the GIL: for runs that are shorter than reacquiring it.
        self.run_short = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(run)
        self.run_long = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(run)
        self._launches: dict[object, Launch] = {}  # in order of creation

    @classmethod
    def of(cls, program: Program, streams: bool = False) -> Kernel:
        """The kernel of ``program`` for this processor, compiled once. Raises CompileError."""
        key = program.text, streams
        kernel = _kernels.get(key)
        if kernel is None:
            with _making:  # another thread may have compiled it meanwhile
                kernel = _kernels.get(key) or cls(program, streams=streams)
                _kernels[key] = kernel
        return kernel

    def __call__(
        self,
        addresses: Sequence[int],
        sizes: Sequence[int],
        strides: Strides,
        scalars: Sequence[complex] = (),
    ) -> None:
        """Run on arrays at ``addresses`` (inputs, then outputs).

        ``sizes`` is the iteration space. ``strides`` are in elements, for each operand one per
        axis. Strides of axes along which an operand does not move are ignored. For an indexed axis,
        its stride and its size follow.

        An output may share memory with an input of the same strides; other overlaps are not
        allowed. Raises ProgramError if the number of operands or axes is wrong.
        """
        key = (tuple(sizes), tuple(map(tuple, strides)))
        launch = self._launches.get(key)
        if launch is None:
            with _binding:
                while len(self._launches) >= _LAUNCHES:
                    self._launches.pop(next(iter(self._launches)))
                launch = self._launches[key] = self.bind(sizes, strides)
        launch(addresses, scalars)

    def bind(self, sizes: Sequence[int], strides: Strides) -> Launch:
        """The launch for these sizes and strides; see ``__call__``."""
        return Launch(self, sizes, strides)


_kernels: dict[tuple[str, bool], Kernel] = {}
_making = free_after_fork(threading.Lock())
_binding = free_after_fork(threading.Lock())  # for Kernel.bind


def may_stream(program: Program, strides: Strides) -> bool:
    """Whether results may use non-temporal stores, if they begin at multiples of ``ALIGNED`` bytes.

    Their elements must be contiguous, and the row stride must preserve the alignment.
    """
    outputs = zip(program.outputs, strides[len(program.inputs) :], strict=True)
    return all(
        output.at is None
        and output.axes[-1] == "c"
        and "." not in output.axes
        and not any(s * program.values[output.value].dtype.itemsize % ALIGNED for s in steps[:-1])
        for output, steps in outputs
    )


class Launch:
    """A kernel bound to sizes; call it with addresses and scalars."""

    def __init__(self, kernel: Kernel, sizes: Sequence[int], strides: Strides) -> None:
        program, layout = kernel.program, kernel.layout
        count = len(layout.operand_axes)
        if len(sizes) != program.rank or len(strides) != count:
            raise ProgramError(
                f"[kernel] {len(sizes)} sizes and strides of {len(strides)} operands: expected "
                f"{program.rank} and {count}"
            )
        grid = cut(program, kernel.plan, sizes)
        arguments = [getattr(grid, name) for name in (*GRID, *REST)] + list(sizes)
        for operand, axis in layout.strides:
            count_of_strides = program.rank + 2 * (operand in layout.indexed)
            if len(strides[operand]) != count_of_strides:
                raise ProgramError(
                    f"[kernel] strides {tuple(strides[operand])} of operand {operand}: expected "
                    f"one for each of {program.rank} axes, then stride and size of one that is "
                    f"walked by an index: {count_of_strides} numbers"
                )
            arguments.append(strides[operand][axis])
        for operand in layout.indexed:
            arguments += strides[operand][program.rank :]
        self._kernel = kernel
        self._grid = grid
        #: The address of the function that runs all of a job in the calling thread.
        self.entry = kernel.entry
        #: Approximate nanoseconds on one thread.
        self.work = grid.work
        #: Whether it needs no work memory and no partial results.
        self.is_simple = not (grid.worker_bytes or grid.partial_bytes)
        self._static = arguments
        self._pack = struct.Struct(f"=q{layout.format}").pack_into
        self._signed = [i for i, d in enumerate(layout.scalar_dtypes) if not d.is_floating]
        self._free: list[Job] = []
        self._threads = 0
        self._workers = 1

    def __call__(self, addresses: Sequence[int], scalars: Sequence[complex] = ()) -> None:
        """Run; see ``Kernel.__call__``."""
        count = threads.limit()
        if self._threads != count:
            self._choose_workers(count)
        try:
            job = self._free.pop()
        except IndexError:
            job = self._job()
        if self._signed:
            scalars = self._wrapped(scalars)
        arguments, direction = job.words, next(_directions)
        try:
            if job.nbytes:
                piece = workspace.take(job.nbytes)
                at = piece.address
                self._pack(arguments, _FIRST, direction, at, at + job.mine, *addresses, *scalars)
                job.run()
                piece.give_back()
            else:
                self._pack(arguments, _FIRST, direction, 0, 0, *addresses, *scalars)
                job.run()
        except struct.error as error:
            raise self._argument_error(addresses, scalars) from error
        if job.workers == self._workers:
            self._free.append(job)

    def job(self) -> Job:
        """Arguments of one call, for a single thread and a simple kernel; the caller owns them."""
        return Job(self._kernel, self._grid, self._static, 1)

    def write(
        self,
        job: Job,
        addresses: Sequence[int],
        scalars: Sequence[complex] = (),
        workspace: int = 0,
    ) -> None:
        """Write the arguments of a call into ``job``. ``workspace``: the address of ``job.nbytes``
        bytes."""
        given = self._wrapped(scalars) if self._signed else scalars
        try:
            at = workspace, workspace + job.mine
            self._pack(job.words, _FIRST, 0, *at, *addresses, *given)
        except struct.error as error:
            raise self._argument_error(addresses, given) from error

    def bound(self) -> BoundLaunch:
        """A launch with arguments of its own, for the present number of threads."""
        count = threads.limit()
        if self._threads != count:
            self._choose_workers(count)
        return BoundLaunch(self, self._job())

    def _choose_workers(self, count: int) -> None:
        grid = self._grid
        workers = threads.workers(grid.work, max(grid.chunks, grid.pieces), count)
        self._workers = workers if workers > 1 and threads.pool() else 1
        self._free = []
        self._threads = count

    def _job(self) -> Job:
        return Job(self._kernel, self._grid, self._static, self._workers)

    def _wrapped(self, scalars: Sequence[complex]) -> list[complex]:
        # Integers modulo 2^64, as signed integers.
        arguments = list(scalars)
        for i in self._signed:
            value = int(arguments[i].real)
            arguments[i] = (value + (1 << 63)) % (1 << 64) - (1 << 63)
        return arguments

    def _argument_error(self, addresses: Sequence[int], scalars: Sequence[complex]) -> ProgramError:
        layout = self._kernel.layout
        return ProgramError(
            f"[kernel] {len(addresses)} addresses and {len(scalars)} scalars {tuple(scalars)}: "
            f"expected {len(layout.operand_axes)} and {len(layout.scalar_dtypes)}"
        )


class BoundLaunch:
    """A launch that keeps its arguments from call to call (``native_calls.NativeCall``)."""

    def __init__(self, launch: Launch, job: Job) -> None:
        self._launch, self._job = launch, job
        self.nbytes, self.work = job.nbytes, launch.work
        one = [(launch.entry, job.operand)]
        self.entries: list[tuple[int, int]] = [] if job.workers > 1 else one
        self.run: Callable[[], object] = job.run

    def write(self, addresses: Sequence[int], scalars: Sequence[complex], workspace: int) -> None:
        self._launch.write(self._job, addresses, scalars, workspace)


class Job:
    """The arguments of one call. One call at a time owns them.

    run      runs the job
    operand  address of the arguments on one thread; else that of the header
    nbytes   of work memory: ``mine`` for the workers, the rest for partial results
    """

    __slots__ = ("mine", "nbytes", "operand", "run", "words", "workers")

    def __init__(self, kernel: Kernel, grid: Grid, static: list[int], workers: int) -> None:
        pool = threads.pool() if workers > 1 else None
        layout = kernel.layout
        self.workers = workers
        self.mine = grid.worker_bytes * workers
        self.nbytes = self.mine + grid.partial_bytes
        self.words = (ctypes.c_int64 * (HEADER + len(layout)))()
        header: list[int] = [kernel.sweep, grid.chunks, kernel.finish, grid.pieces]
        if pool:
            header += pool.header
        arguments: Any = self.words
        for offset, values in ((0, header), (HEADER + layout.per_call, static)):
            arguments[offset : offset + len(values)] = values
        job = ctypes.addressof(self.words)
        if pool:
            self.operand = job
            self.run: Callable[[], object] = partial(pool.run, job, workers)
        else:
            short = grid.work < threads.WORTH_A_THREAD
            self.operand = job + HEADER * _WORD_BYTES
            self.run = partial(kernel.run_short if short else kernel.run_long, self.operand)
