"""``kernel``: a function in a small subset of Python, compiled at its first call."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from fl_memory.forks import free_after_fork
from fl_tensor.errors import DTypeError, KernelCompilerWarning, KernelError
from fl_tensor.kernels.definition import Definition

__all__ = ["Kernel", "kernel"]

#: One for all kernels: the definition of one needs those of its callees.
_lock = free_after_fork(threading.RLock())


class Kernel:
    """A kernel: call it as the function that it was made of. See ``kernel``."""

    __name__: str
    __qualname__: str

    def __init__(self, function: Callable[..., Any], names: dict[str, Any] | None = None) -> None:
        """names: what its annotations may mean beside the globals of ``function``."""
        if not hasattr(function, "__code__"):
            raise DTypeError(f"[kernel] a {type(function).__name__}: it decorates a function")
        functools.update_wrapper(self, function)
        self._function = function
        self._names = names or {}
        self._definition: Definition | None = None
        self._is_checking = False
        self._call: Callable[..., Any] | None = None
        self._interpret: Callable[..., Any] | None = None
        self._compiler = ""

    @property
    def definition(self) -> Definition:
        """What compilers get: checked at the first use. KernelError where the source is outside the
        subset; constants of the module are those of this moment."""
        if self._definition is None:
            with _lock:
                if self._is_checking:
                    raise KernelError(
                        f"[kernel {self.__name__}] it calls itself, perhaps through another "
                        f"kernel: recursion is not in the subset; write a loop"
                    )
                if self._definition is None:
                    from fl_tensor.kernels.checker import check

                    self._is_checking = True
                    try:
                        self._definition = check(self._function, self._names)
                    finally:
                        self._is_checking = False
                    self._names = {}
        return self._definition

    @property
    def compiler(self) -> str:
        """The name of the compiler that compiled it, "" before the first call."""
        return self._compiler

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run it. Raises what is wrong with arguments (see ``binding.bound``), and KernelError at
        the first call for a source outside the subset."""
        call = self._call or self._compiled()
        return call(*self._ordered(args, options)) if options else call(*args)

    def interpret(self, *args: Any, **options: Any) -> Any:
        """Run it in Python, with every index checked; breakpoints in its source work. Raises
        IndexingError and KernelArithmeticError where compiled code has no defined result."""
        call = self._interpret
        if call is None:
            from fl_tensor.kernels.binding import bound
            from fl_tensor.kernels.interpreter import interpreted

            call = self._interpret = bound(self.definition, interpreted(self.definition))
        return call(*self._ordered(args, options))

    def _ordered(self, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        given = list(args)
        for parameter in self.definition.parameters[len(args) :]:
            if parameter.name in options:
                given.append(options.pop(parameter.name))
        if options:
            raise DTypeError(f"[{self.__name__}] no parameter is left for {', '.join(options)}")
        return given

    def _compiled(self) -> Callable[..., Any]:
        from fl_tensor.kernels.binding import bound
        from fl_tensor.kernels.compilers import Interpreter, compiler

        definition = self.definition
        with _lock:
            if self._call is None:
                chosen = compiler()
                try:
                    made = chosen.compile(definition)
                except Exception as error:
                    warnings.warn(
                        f"kernel {self.__name__!r} runs in the interpreter, about 100 times "
                        f"slower: compiler {chosen.name!r} failed with {type(error).__name__}: "
                        f"{error}",
                        KernelCompilerWarning,
                        stacklevel=3,
                    )
                    chosen = Interpreter()
                    made = chosen.compile(definition)
                self._compiler = chosen.name
                self._call = bound(definition, made)
            return self._call

    def __reduce__(self) -> str:
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"


def kernel(function: Callable[..., Any]) -> Kernel:
    """Decorator: compile a function of numbers, 1-d arrays and records, written in a small subset
    of Python. It is for algorithms that do not fit tensor operations: searches, parsers, counting.

        @ft.kernel
        def running_sum(x: Array[ft.float64]) -> None:
            for i in range(1, len(x)):
                x[i] += x[i - 1]

    ``docs/kernels.md`` states the subset, and what arguments may be. The source is checked, and
    compiled, at the first call. Without a compiler kernels run in the interpreter, with one
    KernelCompilerWarning.
    """
    frame = sys._getframe(1)
    return Kernel(function, {} if frame.f_locals is frame.f_globals else dict(frame.f_locals))
