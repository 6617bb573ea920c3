"""Generated machine code as a provider: which file prepares which problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fl_tensor import threads
from fl_tensor.backends.providers.generated import library, reorder
from fl_tensor.backends.providers.generated import tile as tiles
from fl_tensor.backends.providers.generated.convolution import data as convolution_data
from fl_tensor.backends.providers.generated.convolution import forward as convolution
from fl_tensor.backends.providers.generated.depthwise import forward as depthwise
from fl_tensor.backends.providers.generated.depthwise import weights as depthwise_weights
from fl_tensor.backends.providers.generated.misuse import Checked
from fl_tensor.backends.providers.generated.products import matmul
from fl_tensor.backends.providers.generated.weights import gradient as convolution_weights
from fl_tensor.backends.providers.problems import (
    Convolution,
    ConvolutionData,
    ConvolutionWeights,
    Matmul,
    Problem,
    Reorder,
)
from fl_tensor.backends.providers.provider import CAPACITY, Kernel, Provider, UnsupportedError
from fl_tensor.codegen import target
from fl_tensor.codegen import threads as pools

Prepare: TypeAlias = Callable[[Any], Kernel]

_PREPARE: dict[type, Prepare] = {
    Matmul: matmul.prepare,
    Convolution: convolution.prepare,
    ConvolutionData: convolution_data.prepare,
    ConvolutionWeights: convolution_weights.prepare,
    Reorder: reorder.prepare,
}
#: Where every channel has a kernel of its own.
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

    def prepare(self, problem: Problem) -> Kernel:
        separate = depthwise.is_depthwise(problem)
        prepare = (_PREPARE_DEPTHWISE if separate else _PREPARE).get(type(problem))
        if prepare is None:
            raise UnsupportedError(f"nothing generates {type(problem).__name__}")
        return Checked(prepare(problem), problem)

    def solves(self, kind: type) -> bool:
        return kind in _PREPARE

    def report(self) -> Mapping[str, str]:
        machine = target.host()
        tile = tiles.best(machine)
        return {
            "processor": machine.cpu,
            "vectors": f"{machine.vector_bits} bits",
            "tile": f"{tile.rows} x {tile.vectors} vectors",
            "micro-kernels of users": str(len(library.registered())),
            "threads": str(pools.limit()),
        }

    def _state(self) -> str:
        pool = pools.pool()
        return f"{pools.limit()} of {pool.name if pool else 'none: serially'}"
