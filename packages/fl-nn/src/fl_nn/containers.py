"""Container modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.padding import Lengths, with_lengths


class Sequential(Module):
    """Calls its modules one after the other; each gets what the one before returned.

    The first may take several inputs. Names are "0", "1", ...; `model[2]` is the third module,
    `model[:2]` a Sequential that shares the first two.

    With `lengths`, modules that look at several steps of a sequence are told which of them are
    padding: `model(x, lengths=[320, 200])` counts steps as these modules see them, and
    `model(x, lengths=nn.Durations([2.0, 1.25]))` anything, relative to the longest.
    """

    takes_lengths = True

    def __init__(self, *modules: Module) -> None:
        self._count = 0
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> Sequential:
        """Add a module at the end. Raises ModuleError for anything else."""
        if not isinstance(module, Module):
            raise ModuleError(f"[Sequential] item {self._count} is {module!r}, not a Module")
        setattr(self, str(self._count), module)
        self._count += 1
        return self

    def forward(self, *inputs: Any, lengths: Lengths | None = None) -> Any:
        if not self._count:
            raise ModuleError("[Sequential] has no modules to call; append some")
        modules = iter(self)
        value = with_lengths(next(modules), lengths)(*inputs)
        for module in modules:
            value = with_lengths(module, lengths)(value)
        return value

    def constructor_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(self), {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Module]:
        own = self.__dict__
        return (own[str(i)] for i in range(self._count))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module:
        modules = list(self)
        return Sequential(*modules[index]) if isinstance(index, slice) else modules[index]
