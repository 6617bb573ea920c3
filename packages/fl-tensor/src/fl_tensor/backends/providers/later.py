"""A provider that is made when it is needed: a process that asks for no product of some size should
not wait for a compiler to be imported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from fl_memory.forks import free_after_fork
from fl_tensor.backends.providers.layout import Packed
from fl_tensor.backends.providers.problems import Convolution, Matmul, Problem
from fl_tensor.backends.providers.provider import Kernel, Provider
from fl_tensor.cached import cached_property


class Later(Provider):
    """What ``make()`` gives; ``name`` and ``has_epilogues`` are known before."""

    def __init__(self, name: str, has_epilogues: bool, make: Callable[[], Provider]) -> None:
        super().__init__(capacity=0)
        self.name, self.has_epilogues = name, has_epilogues
        self._make = make
        self._provider: Provider | None = None
        self._lock = free_after_fork(threading.RLock())

    @cached_property
    def made(self) -> Provider:
        """The provider, one for all threads."""
        with self._lock:
            if self._provider is None:
                self._provider = self._make()
            return self._provider

    def prepare(self, problem: Problem) -> Kernel:
        return self.made.prepare(problem)

    def find(self, problem: Problem) -> Kernel | None:
        return self.made.find(problem)

    def why_not(self, problem: Problem) -> str:
        return self.made.why_not(problem)

    def solves(self, kind: type) -> bool:
        return self.made.solves(kind)

    def serving(self, problem: Problem) -> Provider:
        return self.made

    def kept(self, problem: Matmul | Convolution) -> Packed | None:
        return self.made.kept(problem)

    def report(self) -> Mapping[str, str]:
        return self.made.report()

    def choices(self) -> str:
        return self.made.choices()

    def forget(self) -> None:
        self.made.forget()

    def remembered(self) -> int:
        return self.made.remembered()
