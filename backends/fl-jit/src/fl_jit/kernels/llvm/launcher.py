"""Launcher of loop nests: kernel arguments, workspace, and threads.

A loop nest has one or two functions. The second one begins when all of the first is done: it reads
what the first one packs, or adds up what the first one accumulates. Work items of a phase are
divided among the threads in advance, or those of the last phase are stolen (``work_stealing.py``).

The fields of a job (``codegen.thread_pools``):

    header | operands, workspace, epilogue arguments, queues | constants | queues | epilogue
    of the |<------ per call ------------------------------->|           |        | arguments
    pool   |<--------------- ArgStruct of the loop nest ---------------->|

The division of the work may depend on the number of threads. It is therefore computed when that
number is known. Results must not depend on it.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target, threads
from fl_jit.kernels.codegen.arg_struct import FIELD, ArgStruct
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.function import SIGNATURE
from fl_jit.kernels.codegen.thread_pools import HEADER, Pool
from fl_jit.kernels.codegen.vectors import i64, pointer
from fl_jit.kernels.llvm import work_stealing
from fl_jit.kernels.llvm.epilogue import Prepared
from fl_memory import selection
from fl_memory.tags import SCRATCH

_ARGUMENTS = HEADER * FIELD
#: Addresses of the operands of a loop nest, and of those of its epilogue.
Operands: TypeAlias = tuple[Sequence[int], Sequence[int]]


def arguments(operands: str, constant: str | Iterable[str]) -> ArgStruct:
    """The kernel arguments of a loop nest: addresses of its operands, what the launcher adds for
    each call, and constant fields. A nest with work stealing has the constant ``queue_count``."""
    return ArgStruct(constant, per_call=f"{operands} workspace epilogue_args queues")


def aligned(nbytes: int) -> int:
    """Bytes, rounded up to whole cache lines: where the next part of a workspace may begin."""
    return -(-nbytes // 64) * 64


class Division(NamedTuple):
    """The work of a call on a number of workers.

    items      of each phase; a phase without items is skipped
    fields     argument fields that depend on the number of workers
    workspace  bytes; the address is a multiple of 64
    stolen     items of the last phase that workers steal; ``items`` then counts the queues
    """

    items: tuple[int, ...]
    fields: Mapping[str, int]
    workspace: int
    stolen: int = 0


class Launcher:
    """A loop nest that is ready to be called with addresses, from any thread.

    code         has the functions ``phases``, with the signature of ``codegen.thread_pools``
    fields       their arguments, made by ``arguments``
    constants    values of the constant fields; 0 where there is none
    divide       the division of the work among a number of workers
    work         approximate nanoseconds of one thread
    epilogue     the epilogue whose address is the field ``epilogue``
    most_workers maximum number of useful threads
    owned        memory that fields point to, which lives as long as the launcher
    phases       names of one or two functions
    """

    def __init__(
        self,
        code: compile.Code,
        fields: ArgStruct,
        constants: Mapping[str, int],
        divide: Callable[[int], Division],
        work: float,
        epilogue: Prepared | None = None,
        most_workers: int = sys.maxsize,
        owned: object = None,
        phases: Sequence[str] = ("first", "second"),
    ) -> None:
        self._code = code  # which must not be freed
        self._functions = [code.address(name) for name in phases]
        self._fields = fields
        self._constants = dict(constants)
        if epilogue:
            self._constants["epilogue"] = epilogue.address
        self._divide = divide
        self._work = work
        self._epilogue = epilogue
        self._most_workers = most_workers
        self._owned = owned
        self._pack = fields.pack_into
        self._last: _Template | None = None
        self._serial = _serial(work < threads.WORTH_A_THREAD)

    def __call__(self, operands: Sequence[int], epilogue_operands: Sequence[int] = ()) -> None:
        """Compute on operands at these addresses; ``epilogue_operands`` are those of the
        epilogue."""
        limit = threads.limit()
        template = self._last
        if template is None or template.limit != limit:
            template = self._last = self._template(limit)
        _, workers, pool, kind, initial, queues, epilogue, workspace, nbytes = template
        # Each call has its own arguments, so that calls may run concurrently.
        block = kind.from_buffer_copy(initial)
        job = ctypes.addressof(block)
        memory = selection.current().alloc(nbytes, tag=SCRATCH) if nbytes else None
        address = memory.address if memory is not None else 0
        try:
            self._pack(block, _ARGUMENTS, *operands, address, job + epilogue, job + queues)
            if self._epilogue:
                self._epilogue.write(block, epilogue, epilogue_operands, address + workspace)
            if pool is not None:
                pool.run(job, workers)
            else:
                self._serial(job)
        finally:
            if memory is not None:
                memory.free()

    def bound(self, operands: Callable[[Sequence[int]], Operands]) -> BoundCall:
        """A call with arguments of its own, for the present number of threads. ``operands``: those
        of the loop nest and of its epilogue, of the addresses of a kernel's operands."""
        limit = threads.limit()
        template = self._last
        if template is None or template.limit != limit:
            template = self._last = self._template(limit)
        return BoundCall(self, template, operands)

    def _template(self, limit: int) -> _Template:
        pool = threads.pool() if limit > 1 else None
        workers = threads.workers(self._work, self._most_workers, limit) if pool else 1
        items, fields, workspace, stolen = self._divide(workers)
        phases = [(f, n) for f, n in zip(self._functions, items, strict=True) if n]
        constants = {**self._constants, **fields}
        queues = work_stealing.queues(stolen, workers) if stolen else []
        if stolen:
            constants["queue_count"] = workers
        header = [*itertools.chain(*phases), 0, 0, 0, 0][:4]
        header += pool.header if pool else ()
        header += [0] * (HEADER - len(header))
        block = [*header, *self._fields.values(constants), *queues]
        epilogue, scratch = len(block) * FIELD, 0
        workspace = aligned(workspace)
        if self._epilogue:
            block += self._epilogue.fields
            scratch = self._epilogue.scratch(workers)
        kind = ctypes.c_int64 * len(block)
        return _Template(
            *(limit, workers, pool if workers > 1 else None, kind, kind(*block)),
            *(_ARGUMENTS + len(self._fields) * FIELD, epilogue, workspace, workspace + scratch),
        )


class _Template(NamedTuple):
    # What all calls have in common that have the same limit of threads.
    limit: int
    workers: int
    pool: Pool | None  # the thread pool, for more than one worker
    kind: Any  # type of a job's fields
    initial: Any  # the fields of a job before the call
    queues: int  # offset of the queues, and of the epilogue's arguments
    epilogue: int
    workspace: int  # bytes, without and with scratch memory of the epilogue
    nbytes: int


class BoundCall:
    """A call that keeps its arguments (``native_calls.NativeCall``). Loop nests count in them, so
    they are copied from a second block before each run."""

    def __init__(
        self,
        launcher: Launcher,
        template: _Template,
        operands: Callable[[Sequence[int]], Operands],
    ) -> None:
        self._launcher, self._template, self._operands = launcher, template, operands
        self.run: Callable[[], object] = self._run_on_threads
        self._block = template.kind.from_buffer_copy(template.initial)
        self._initial = template.kind.from_buffer_copy(template.initial)
        self._job = job = ctypes.addressof(self._block)
        self.nbytes, self.work = template.nbytes, launcher._work
        initial = ctypes.addressof(self._initial)
        self._copied = (ctypes.c_int64 * 3)(job, initial, len(self._block))
        self.entries: list[tuple[int, int]] = []
        if template.pool is None:
            copy = _copy_code().address("copy_words"), ctypes.addressof(self._copied)
            self.entries += [copy, (_serial_code().address("serial"), job)]

    def _run_on_threads(self) -> None:
        to, source, count = self._copied
        ctypes.memmove(to, source, count * FIELD)
        template = self._template
        assert template.pool is not None
        template.pool.run(self._job, template.workers)

    def write(self, addresses: Sequence[int], scalars: Sequence[complex], workspace: int) -> None:
        operands, epilogue_operands = self._operands(addresses)
        template, job, block = self._template, self._job, self._initial
        epilogue = self._launcher._epilogue
        at = workspace, job + template.epilogue, job + template.queues
        self._launcher._pack(block, _ARGUMENTS, *operands, *at)
        if epilogue:
            scratch = workspace + template.workspace
            epilogue.write(block, template.epilogue, epilogue_operands, scratch)


@compile.once
def _copy_code() -> compile.Code:
    return compile.load("copy words", _copy_assembly, target.host(), compile.Effort.FULL)


def _copy_assembly() -> str:
    # copy_words(ptr fields): fields are the address to copy to, that to copy from, and the number
    # of words.
    module = ir.Module("copy_words")
    module.triple = target.triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "copy_words")
    b = Builder(function.append_basic_block("entry"))
    (words,) = function.args
    to, source, count = (
        b.load(b.gep(words, [i64(k)], source_etype=i64), typ=i64) for k in range(3)
    )
    to, source = b.inttoptr(to, pointer), b.inttoptr(source, pointer)
    entry = b.block
    head, body, done = (function.append_basic_block(n) for n in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(i64)
    index.add_incoming(i64(0), entry)
    b.cbranch(b.icmp_signed("<", index, count), body, done)
    b.position_at_end(body)
    field = b.load(b.gep(source, [index], source_etype=i64), typ=i64)
    b.store(field, b.gep(to, [index], source_etype=i64))
    index.add_incoming(b.add(index, i64(1)), body)
    b.branch(head)
    b.position_at_end(done)
    b.ret_void()
    return str(module)


@compile.once
def _serial(keeps_gil: bool) -> Callable[[int], None]:
    """The function of a job that does all of its phases in the calling thread. It keeps the GIL
    for kernels that take less time than to reacquire it."""
    kind = ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE
    return kind(None, ctypes.c_void_p)(_serial_code().address("serial"))


@compile.once
def _serial_code() -> compile.Code:
    return compile.load("serial job", _assembly, target.host(), compile.Effort.LEAST)


def _assembly() -> str:
    module = ir.Module("serial")
    module.triple = target.triple()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "serial")
    b = Builder(function.append_basic_block("entry"))
    (job,) = function.args
    for phase in (0, 2):
        address, count = (b.gep(job, [i64(phase + i)], source_etype=i64) for i in range(2))
        phase_function = b.load(address, typ=i64)
        with b.if_then(b.icmp_signed("!=", phase_function, i64(0))):
            args = (
                b.gep(job, [i64(HEADER)], source_etype=i64),
                i64(0),
                b.load(count, typ=i64),
                i64(0),
            )
            b.call_at(b.inttoptr(phase_function, pointer), SIGNATURE, args)
    b.ret_void()
    return str(module)
