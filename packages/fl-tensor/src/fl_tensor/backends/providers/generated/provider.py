"""Generated machine code as a provider: which file prepares which problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fl_tensor import threads
from fl_tensor.backends.providers.generated import choices, library, reorder
from fl_tensor.backends.providers.generated import tile as tiles
from fl_tensor.backends.providers.generated.convolution import forward as convolution
from fl_tensor.backends.providers.generated.depthwise import forward as depthwise
from fl_tensor.backends.providers.generated.depthwise import weights as depthwise_weights
from fl_tensor.backends.providers.generated.depthwise.groups import is_depthwise
from fl_tensor.backends.providers.generated.misuse import Checked
from fl_tensor.backends.providers.generated.products import matmul, task
from fl_tensor.backends.providers.generated.weights import gradient as convolution_weights
from fl_tensor.backends.providers.layout import Packed, chosen
from fl_tensor.backends.providers.problems import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Matmul,
    Problem,
    Reorder,
)
from fl_tensor.backends.providers.provider import CAPACITY, Kernel, Provider, UnsupportedError
from fl_tensor.backends.providers.tuning import Tuners
from fl_tensor.codegen import target
from fl_tensor.codegen import threads as pools
from fl_tensor.dtypes import float32, float64

Prepare: TypeAlias = Callable[[Any], Kernel]

#: Those that may be computed in one tile or another.
_PREPARE_TILED: dict[type, choices.Prepare] = {
    Matmul: matmul.prepare,
    Convolution: convolution.prepare,
    ConvolutionData: convolution.prepare,
    ConvolutionWeights: convolution_weights.prepare,
}
_PREPARE: dict[type, Prepare] = {Reorder: reorder.prepare}
#: Where every channel has a kernel of its own, or channels are in small groups.
_PREPARE_DEPTHWISE: dict[type, Prepare] = {
    Convolution: depthwise.prepare,
    ConvolutionData: depthwise.prepare_data,
    ConvolutionWeights: depthwise_weights.prepare,
}


class Generated(Provider):
    """Products and convolutions, made for the processor of this process."""

    name = "generated"
    has_epilogues = True

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        target.initialize()
        # Work is divided for a number of threads, and done by the micro-kernels there are.
        threads.register(threads.Pool("generated", lambda count: self.forget(), self._state))
        library.watch(self)
        self._tuners = Tuners(choices.about)

    def prepare(self, problem: Problem) -> Kernel:
        kind = type(problem)
        if not self.solves(kind):
            raise UnsupportedError(f"nothing generates {kind.__name__}")
        if is_depthwise(problem):
            kernel = _PREPARE_DEPTHWISE[kind](problem)
        elif isinstance(problem, Matmul | Convolution | ConvolutionData | ConvolutionWeights):
            kernel = choices.choose(problem, _PREPARE_TILED[kind], self._tuners.current())
        else:
            kernel = _PREPARE[kind](problem)
        return Checked(kernel, problem)

    def solves(self, kind: type) -> bool:
        return kind in _PREPARE or kind in _PREPARE_TILED

    def kept(self, problem: Matmul | Convolution) -> Packed | None:
        if isinstance(problem, Matmul):
            y = problem.y
            return task.packed_layout(y.dtype, y.shape) if y.dtype in (float32, float64) else None
        if is_depthwise(problem):
            return None  # they are read as they lie
        kernel = self.find(problem._replace(w=chosen(problem.w.dtype, problem.w.shape)))
        found = None if kernel is None else kernel.operands[1]
        if not isinstance(found, Packed) or found.dtype is not problem.w.dtype:
            return None  # float16 would be packed as float32, in twice the memory
        return found

    def choices(self) -> str:
        return self._tuners.current().table()

    def report(self) -> Mapping[str, str]:
        machine = target.host()
        large, best = tiles.of_product(machine, *task.LARGE), tiles.best(machine)
        return {
            "processor": machine.cpu,
            "vectors": f"{machine.vector_bits} bits",
            "tiles": f"{_words(large)} in products, {_words(best)} in convolutions",
            "micro-kernels of users": str(len(library.registered())),
            "threads": str(pools.limit()),
        }

    def _state(self) -> str:
        pool = pools.pool()
        return f"{pools.limit()} of {pool.name if pool else 'none: serially'}"


def _words(tile: tiles.Tile) -> str:
    return f"{tile.rows} rows x {tile.vectors} vectors"
