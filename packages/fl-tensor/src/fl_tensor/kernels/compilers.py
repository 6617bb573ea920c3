"""Compilers of kernels: their contract, and which one this process uses."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from fl_memory.errors import ContractError, PluginError
from fl_memory.forks import free_after_fork
from fl_memory.plugins import Registry
from fl_tensor import settings
from fl_tensor.errors import KernelCompilerWarning
from fl_tensor.kernels.definition import Definition

__all__ = ["REGISTRY", "Interpreter", "KernelCompiler", "compiler", "compiler_name"]

#: The compiler that a process uses: a name, or "interpreter".
VARIABLE = "FL_KERNEL_COMPILER"


class KernelCompiler(ABC):
    """A compiler of kernels. Its class is an entry point of the group ``fl.kernel_compilers.v1``,
    and is made without arguments, once in a process."""

    #: The version of this contract that it was written for.
    CONTRACT: ClassVar[tuple[int, int]]
    #: The name that it is known by, that of its entry point.
    name: str

    @abstractmethod
    def compile(self, definition: Definition) -> Callable[..., int | float | None]:
        """A function of numbers that computes the kernel. It takes for each parameter in order

        * an int or a float for a number, 0 or 1 for a bool,
        * two ints for an array: its address, and how many elements it has,
        * for a record what its fields take, in order.

        Arrays are aligned to their dtype, may overlap, and stay where they are during the call.
        Several threads may call the function, and ``compile``, at a time. What a kernel means is
        stated in ``docs/kernels.md`` and checked by ``fl_tensor.testing.KernelCompilerSuite``.
        """


class Interpreter(KernelCompiler):
    """Python itself, with every index checked. It takes every kernel."""

    CONTRACT = (1, 0)
    name = "interpreter"

    def compile(self, definition: Definition) -> Callable[..., int | float | None]:
        from fl_tensor.kernels.interpreter import interpreted

        return interpreted(definition)


REGISTRY = Registry(
    "fl.kernel_compilers.v1",
    "kernel compiler",
    (1, 0),  # type: ignore[arg-type]
    host_package="fl-tensor",
    base=KernelCompiler,
    builtins={Interpreter.name: f"{__name__}:{Interpreter.__name__}"},
)
_lock = free_after_fork(threading.RLock())
_compiler: KernelCompiler | None = None


def compiler() -> KernelCompiler:
    """The compiler of this process: the one that FL_KERNEL_COMPILER names, else the first that is
    installed, else the interpreter, with a KernelCompilerWarning. PluginError or ContractError for
    a name that cannot be loaded."""
    global _compiler
    with _lock:
        if _compiler is None:
            _compiler = _found()
        return _compiler


def compiler_name() -> str:
    """The name of the compiler that ``compiler`` gives, without loading it."""
    if _compiler is not None:
        return _compiler.name
    names = _installed()
    return settings.text(VARIABLE) or (names[0] if names else Interpreter.name)


def _installed() -> list[str]:
    return [name for name in REGISTRY.names() if name != Interpreter.name]


def _found() -> KernelCompiler:
    chosen = settings.text(VARIABLE)
    if chosen:
        made: KernelCompiler = REGISTRY.load(chosen)()
        return made
    problems = []
    for name in _installed():
        try:
            made = REGISTRY.load(name)()
            return made
        except (PluginError, ContractError) as error:
            problems.append(f"\n  {error}")
    reason = "no compiler could be loaded:" if problems else "no compiler is installed"
    warnings.warn(
        f"kernels run in the interpreter, about 100 times slower than compiled: {reason}"
        f"{''.join(problems)}; pip install 'fl-tensor[jit]' has one; {VARIABLE}=interpreter "
        f"accepts it without this warning",
        KernelCompilerWarning,
        stacklevel=4,
    )
    return Interpreter()
