"""Kernels of sums over windows: packing weights, and calling the nest.

What is added up in which order depends on the sizes of the kernel and the channels alone, so that
results are the same for any number of threads.
"""

from __future__ import annotations

import ctypes
import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from fl_memory import selection
from fl_tensor.backends.providers.generated.convolution import nest as convolution_nest
from fl_tensor.backends.providers.generated.convolution.panels import Folded
from fl_tensor.backends.providers.generated.convolution.passes import Pass
from fl_tensor.backends.providers.generated.convolution.sums import Panels, Sum
from fl_tensor.backends.providers.generated.convolution.windows import Axis
from fl_tensor.backends.providers.generated.convolution.words import JOB
from fl_tensor.backends.providers.generated.epilogue import Prepared
from fl_tensor.backends.providers.generated.tile import Tile
from fl_tensor.backends.providers.generated.words import WORD, address, array
from fl_tensor.backends.providers.layout import Layout, Packed, Placement
from fl_tensor.backends.providers.provider import UnsupportedError
from fl_tensor.codegen import threads
from fl_tensor.codegen.pools import HEADER

#: Operations per nanosecond of one thread, about.
_SPEED = 60.0
_ALIGNMENT = 64


class ConvolutionKernel:
    """Computes a ``Sum``. The second of ``operands`` are the weights: by strides, packed, or as the
    kernel likes them best. ``transposed``: it is their features that are summed over. ``tiles``
    are those to compute in, where that is not left to the rule."""

    workspace = 0

    def __init__(
        self,
        task: Sum,
        operands: Sequence[Placement],
        transposed: bool = False,
        epilogue: Prepared | None = None,
        tiles: Tile | None = None,
    ) -> None:
        if not task.results:
            task = task._replace(windows=())
        if tiles is not None and task.pairs:
            raise UnsupportedError("products of pairs have tiles of their own")
        self._epilogue = epilogue
        self._nest = convolution_nest.nest()
        self._run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._nest.run)
        x, w, *others = operands
        line = max((_line(axes) for axes in task.windows), default=1)
        panels = Panels.of(task.dtype, task.features, line, task.products, task.pairs, tiles)
        if isinstance(w, Packed) and isinstance(w.opaque, Folded):
            panels = w.opaque.panels
        passes = [Pass(task, axes, panels, threads.limit()) for axes in task.windows]
        places = tuple(each.kernel_places for each in passes)
        sizes = task.groups, task.channels, task.features
        folded = Folded(transposed, *sizes, panels, places, task.pairs, task.odd)
        if isinstance(w, Packed) and w.opaque != folded:
            raise UnsupportedError(f"{w!r} are weights packed for something else")
        if isinstance(w, Layout) and w.strides is None:
            dtype = w.dtype if task.pairs else task.dtype
            w = Packed(dtype, w.shape, folded.nbytes, folded)
        self.operands = (x, w, *others)
        self._packed = isinstance(w, Packed)
        packings = [folded.packing(task.weights, number) for number in range(len(passes))]
        blocks = [each.block(packing) for each, packing in zip(passes, packings, strict=True)]
        self._pointers = array(address(block) for block in blocks)
        self._kept = passes, packings, blocks  # the words refer to what these have
        self.panels_bytes = folded.nbytes
        self._items = sum(each.items for each in passes)
        packs = sum(packing.words["pack_items"] for packing in packings)
        self._packs = 0 if self._packed else packs
        each = max([p.worker_bytes for p in passes] + [p.scratch for p in packings], default=0)
        self._worker_bytes = -(-each // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT
        self._work = task.operations / _SPEED
        self._jobs: deque[Any] = deque()
        self.about = f"generated, {panels.most_rows} x {panels.width}"

    def __call__(self, *addresses: int) -> None:
        if not self._items:
            return
        workers = threads.workers(self._work, self._items, threads.limit())
        pool = threads.pool() if workers > 1 else None
        workers = workers if pool else 1
        mine = workers * self._worker_bytes
        panels = 0 if self._packed else -(-self.panels_bytes // _ALIGNMENT) * _ALIGNMENT
        more = self._epilogue.scratch(workers) if self._epilogue else 0
        block = selection.current().alloc(panels + mine + more + _ALIGNMENT)
        try:
            start = block.address + -block.address % _ALIGNMENT
            job = self._job(addresses, start, start + panels, start + panels + mine, workers)
            begin = address(job)
            if pool is None:
                self._run(begin + HEADER * WORD)
            else:
                job[: 4 + len(pool.header)] = [
                    *(self._nest.pack, self._packs, self._nest.work, workers),
                    *pool.header,
                ]
                if not self._packs:
                    job[:4] = [self._nest.work, workers, 0, 0]
                pool.run(begin, workers)
            self._jobs.append(job)
        finally:
            block.free()

    def _job(
        self, addresses: Sequence[int], panels: int, scratch: int, more: int, workers: int
    ) -> Any:
        try:
            job = self._jobs.pop()
        except IndexError:
            count = HEADER + len(JOB) + (self._epilogue.words if self._epilogue else 0)
            job = (ctypes.c_int64 * count)()
        behind = HEADER + len(JOB)
        x, w, *reads, out = addresses[: len(self.operands) - self._written]
        found = self._epilogue
        if found is not None:
            writes = addresses[len(self.operands) - self._written :]
            found.write(job, behind, [out, *reads, out, *writes], more)
        job[HEADER:behind] = [
            x,
            *((0, out, w) if self._packed else (w, out, panels)),
            *(scratch, self._worker_bytes, 0, self._items, self._packs),
            address(self._pointers),
            found.address if found else 0,
            address(job) + behind * WORD,
        ]
        return job

    @property
    def _written(self) -> int:
        return len(self._epilogue.writes) if self._epilogue else 0


def _line(axes: tuple[Axis, Axis, Axis]) -> int:
    # How long lines are, about: where nothing but the place itself is seen, all places are one.
    if all(axis.is_pointwise for axis in axes):
        return math.prod(axis.places for axis in axes)
    return axes[2].places
