"""The loop nest of convolutions: forward, gradients of data, any number of axes up to three.

    pack:  for group, panel of features, place of the kernel:          in parallel, then a barrier
               a panel of weights, W features wide, into panels

    work:  for chunk of panels, group, images, plane, strip, segment:  an item, by whoever is free
               copy the strip of the source, padded by zeros           -> second-level cache
               for panel:                                              (W features)
                   for block of taps:                                  -> B stays in the cache
                       for image, row of the strip:
                           for tile: micro-kernel                      (<= 14 places) x W

Item by item and tile by tile a convolution is a product of matrices (implicit GEMM: S. Chetlur et
al., "cuDNN", 2014) whose A is the image: rows of A are places of the result, a constant distance
apart in the strip, and k runs over channels at each *tap*, a place of the kernel. Where pixels lie
side by side, a tap is a whole row of the kernel. Nothing is unrolled into columns, and tiles whose
windows reach beyond the source leave out what is padding there (``item.py``).

There is one such nest for all shapes and dtypes. What it works on are blocks of words: ``JOB`` for
the call, ``PASS`` for each sum over windows (a convolution is one; see ``windows``).
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.builder import Builder
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.conv import padded_input
from fl_jit.kernels.llvm.conv.kernel_args import JOB, Function
from fl_jit.kernels.llvm.conv.packing import Pack
from fl_jit.kernels.llvm.conv.work_tile import WorkTile

#: first(arguments, first, last + 1, worker), and second alike.
SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])


def code() -> compile.Code:
    """The loop nest as machine code: ``first`` packs, ``second`` does the work, ``run``
    both (``phases.py``)."""
    return _code(target.host())


@compile.once
def _code(machine: Target) -> compile.Code:
    about = f"convolutions {compile.sources(FOLDER)}"
    return compile.load(about, assembly, machine, compile.Effort.LEAST)


def assembly() -> str:
    """A module in LLVM IR with the functions ``first``, ``second`` and ``run``."""
    module = ir.Module("convolutions")
    module.triple = target.triple()
    pack = _pack(module, Pack(module).function)
    work = _work(module, WorkTile(module, padded_input.define(module)).function)
    run = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer]), "run")
    b = Builder(run.append_basic_block("entry"))
    job = run.args[0]
    b.call(pack, [job, i64(0), JOB.read(b, job, "packs"), i64(0)])
    b.call(work, [job, i64(0), i64(1), i64(0)])
    b.ret_void()
    return str(module)


def _pack(module: IR, one: IR) -> IR:
    """Packs first .. last of all passes."""
    function = ir.Function(module, SIGNATURE, "first")
    job, first, last, worker = function.args
    nest = Function(function)
    with nest.loop(first, last) as number:
        nest.dispatch(one, "pack_items", job, number, worker)
    nest.b.ret_void()
    return function


def _work(module: IR, one: IR) -> IR:
    """Items of all passes, one after the other, until all are taken."""
    function = ir.Function(module, SIGNATURE, "second")
    job, _, _, worker = function.args
    nest = Function(function)
    b = nest.b
    again, take, done = (function.append_basic_block(name) for name in ("again", "take", "done"))
    b.branch(again)
    b.position_at_end(again)
    number = b.atomic_rmw("add", JOB.at(b, job, "next"), i64(1), "monotonic")
    b.cbranch(b.icmp_signed("<", number, JOB.read(b, job, "items")), take, done)
    b.position_at_end(take)
    nest.dispatch(one, "items", job, number, worker)
    b.branch(again)
    b.position_at_end(done)
    b.ret_void()
    return function
