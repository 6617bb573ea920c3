"""Several providers as one: each problem is the first one's that supports it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fl_tensor.backends.providers.layout import Packed
from fl_tensor.backends.providers.problems import Convolution, Matmul, Problem
from fl_tensor.backends.providers.provider import Kernel, Provider, UnsupportedError


class Chain(Provider):
    """``providers`` in the order in which they are asked. They remember; the chain does not."""

    def __init__(self, providers: Sequence[Provider]) -> None:
        super().__init__(capacity=0)
        self._providers = tuple(providers)
        self.name = ", ".join(each.name for each in providers)
        self.has_epilogues = any(each.has_epilogues for each in providers)
        self.activations = tuple({name: None for p in providers for name in p.activations})

    @property
    def providers(self) -> tuple[Provider, ...]:
        return self._providers

    def prepare(self, problem: Problem) -> Kernel:
        kernel = self.find(problem)
        if kernel is None:
            raise UnsupportedError(self.why_not(problem))
        return kernel

    def find(self, problem: Problem) -> Kernel | None:
        for each in self._providers:
            kernel = each.find(problem)
            if kernel is not None:
                return kernel
        return None

    def why_not(self, problem: Problem) -> str:
        if self.find(problem) is not None:
            return ""
        return "; ".join(f"{each.name}: {each.why_not(problem)}" for each in self._providers)

    def serving(self, problem: Problem) -> Provider:
        for each in self._providers:
            if each.find(problem) is not None:
                return each.serving(problem)
        return self

    def solves(self, kind: type) -> bool:
        return any(each.solves(kind) for each in self._providers)

    def kept(self, problem: Matmul | Convolution) -> Packed | None:
        return self._providers[0].kept(problem)  # who is asked for products first

    def report(self) -> Mapping[str, str]:
        return {
            f"{e.name} {name}": value for e in self._providers for name, value in e.report().items()
        }

    def choices(self) -> str:
        return "\n".join(filter(None, (each.choices() for each in self._providers)))

    def forget(self) -> None:
        for each in self._providers:
            each.forget()

    def remembered(self) -> int:
        return sum(each.remembered() for each in self._providers)
