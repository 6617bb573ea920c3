"""Generated machine code as a provider: which file prepares which problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fl_tensor import threads
from fl_tensor.backends.providers.generated import library, matmul
from fl_tensor.backends.providers.generated import tile as tiles
from fl_tensor.backends.providers.problems import Matmul, Problem
from fl_tensor.backends.providers.provider import CAPACITY, Kernel, Provider, UnsupportedError
from fl_tensor.codegen import target
from fl_tensor.codegen import threads as pools


class Generated(Provider):
    """Products and convolutions of this processor."""

    name = "generated"

    def __init__(self, capacity: int = CAPACITY) -> None:
        super().__init__(capacity)
        target.initialize()
        self._prepare: dict[type, Callable[[Any], Kernel]] = {
            Matmul: matmul.prepare,
        }
        # Work is cut for a number of threads, and made of the micro-kernels that are registered.
        threads.register(threads.Pool("generated", lambda count: self.forget(), self._state))
        library.watch(self)

    def prepare(self, problem: Problem) -> Kernel:
        found = self._prepare.get(type(problem))
        if found is None:
            raise UnsupportedError(f"nothing generates {type(problem).__name__}")
        return found(problem)

    def report(self) -> Mapping[str, str]:
        machine = target.host()
        tile = tiles.best(machine)
        own = f", {len(library.registered())} micro-kernels of users" * bool(library.registered())
        return {
            "processor": machine.cpu,
            "vectors": f"{machine.vector_bits} bits",
            "tile": f"{tile.rows} x {tile.vectors} vectors{own}",
            "threads": str(pools.limit()),
        }

    def _state(self) -> str:
        pool = pools.pool()
        return f"{pools.limit()} of {pool.name if pool else 'none'}"
