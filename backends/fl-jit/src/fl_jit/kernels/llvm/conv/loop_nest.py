"""The loop nest of convolutions and their data gradients, with up to three spatial axes.

    pack:  for group, panel of features, kernel position:              in parallel, then a barrier
               a panel of weights, W features wide, into panels

    work:  for chunk of panels, group, images, plane, tile, segment:   an item, by any free worker
               copy the input tile, padded with zeros                  -> L2
               for panel:                                              (W features)
                   for block of positions:                                  -> B stays in the cache
                       for image, row of the input tile:
                           for tile: micro-kernel                      (<= 14 positions) x W

A convolution is computed as an implicit GEMM (S. Chetlur et al., "cuDNN", 2014). A is the image:
its rows are output positions, which have a constant distance in the input tile. k runs over the
channels at each kernel position. Where pixels are contiguous, a whole row of the kernel is one
position. There is no im2col copy. Tiles whose windows reach beyond the source skip the padding
(``work_tile.py``).

One loop nest serves all shapes and dtypes. Its kernel arguments are ``JOB`` for the call and
``PASS`` for each sum over windows. A convolution is one such sum (``windows.py``).
"""

from __future__ import annotations

from llvmlite import ir

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.vectors import IR, i64, pointer
from fl_jit.kernels.llvm import FOLDER
from fl_jit.kernels.llvm.conv.kernel_args import JOB, Dispatcher
from fl_jit.kernels.llvm.conv.packing import Pack
from fl_jit.kernels.llvm.conv.work_tile import WorkTile

#: The signature of ``first`` and ``second``: (arguments, first, last + 1, worker).
SIGNATURE = ir.FunctionType(ir.VoidType(), [pointer, i64, i64, i64])


@compile.once
def code() -> compile.Code:
    """The loop nest as machine code. ``first`` packs, ``second`` computes."""
    about = f"convolutions {compile.sources(FOLDER)}"
    return compile.load(about, assembly, target.host(), compile.Effort.LEAST)


def assembly() -> str:
    """A module in LLVM IR with the functions ``first`` and ``second``."""
    module = ir.Module("convolutions")
    module.triple = target.triple()
    _pack(module, Pack(module).function)
    _work(module, WorkTile(module).function)
    return str(module)


def _pack(module: IR, one: IR) -> None:
    """Pack items first .. last of all passes."""
    function = ir.Function(module, SIGNATURE, "first")
    job, first, last, worker = function.args
    nest = Dispatcher(function)
    with nest.loop(first, last) as number:
        nest.dispatch(one, "pack_items", job, number, worker)
    nest.b.ret_void()


def _work(module: IR, one: IR) -> None:
    """Compute work items of all passes, until all are taken."""
    function = ir.Function(module, SIGNATURE, "second")
    job, _, _, worker = function.args
    nest = Dispatcher(function)
    b = nest.b
    again, take, done = (function.append_basic_block(name) for name in ("again", "take", "done"))
    b.branch(again)
    b.position_at_end(again)
    number = b.atomic_rmw("add", JOB.at(b, job, "next"), i64(1), "monotonic")
    b.cbranch(b.icmp_signed("<", number, JOB.load(b, job, "items")), take, done)
    b.position_at_end(take)
    nest.dispatch(one, "items", job, number, worker)
    b.branch(again)
    b.position_at_end(done)
    b.ret_void()
