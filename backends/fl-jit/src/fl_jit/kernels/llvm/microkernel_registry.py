"""Registry of micro-kernels as machine code, compiled on first use or loaded from a file.

``register`` puts user micro-kernels before the built-in one. They apply to everything that uses
micro-kernels: GEMMs and all three passes of convolutions, in every loop nest. A kernel factory is a
function

    def factory(kernel: MicroKernel, machine: Target) -> str | None

It returns a module in LLVM IR with a function ``micro`` as ``microkernel.py`` describes it, or None
for a micro-kernel that it does not implement.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import TypeAlias

from fl_jit.kernels.codegen import compile, target
from fl_jit.kernels.codegen.target import Target
from fl_jit.kernels.library import KernelLibrary
from fl_jit.kernels.llvm import FOLDER, microkernel
from fl_jit.kernels.llvm.microkernel import MicroKernel
from fl_jit.kernels.registration import Registration, attempt, function
from fl_tensor.errors import ArgumentError

KernelFactory: TypeAlias = Callable[[MicroKernel, Target], str | None]

_factories: tuple[KernelFactory, ...] = ()
_watching: weakref.WeakSet[KernelLibrary] = weakref.WeakSet()


def watch(library: KernelLibrary) -> None:
    """Have ``library`` forget its kernels whenever factories are added or removed."""
    _watching.add(library)


def _set(factories: tuple[KernelFactory, ...]) -> None:
    global _factories
    _factories = factories
    for library in _watching:
        library.forget()


def register(factory: KernelFactory) -> Registration:
    """Use ``factory`` for every micro-kernel that is needed from now on, before factories that were
    registered earlier.

    It stays until ``remove()`` of the returned registration is called, or for a block: ``with
    register(...):``. A factory that raises, or whose module cannot be used, is skipped with a
    KernelWarning. Raises ArgumentError for a non-callable.
    """
    function("[register] a micro-kernel factory", factory)
    _set((factory, *_factories))
    return Registration(lambda: _set(tuple(each for each in _factories if each is not factory)))


def registered() -> tuple[KernelFactory, ...]:
    """The factories in the order of their calls. Prepared kernels depend on them."""
    return _factories


def address(kernel: MicroKernel) -> int:
    """Address of the machine code of a micro-kernel. Raises as ``addresses``."""
    return addresses([kernel])[kernel]


def addresses(kernels: Iterable[MicroKernel]) -> dict[MicroKernel, int]:
    """Address of the machine code of each micro-kernel. Those that are not compiled yet are
    compiled together."""
    wanted, machine, factories = list(dict.fromkeys(kernels)), target.host(), _factories
    custom = {kernel: _from_factories(kernel, machine, factories)[1] for kernel in wanted}
    built_in = {_name(kernel): kernel for kernel, address in custom.items() if not address}
    compiled = compile.addresses(
        {name: f"{kernel} {compile.sources(FOLDER)}" for name, kernel in built_in.items()},
        lambda names: microkernel.assemblies({name: built_in[name] for name in names}, machine),
        machine,
        compile.Effort.TIDY,
    )
    return {kernel: custom[kernel] or compiled[_name(kernel)] for kernel in wanted}


@compile.once
def _from_factories(
    kernel: MicroKernel, machine: Target, factories: tuple[KernelFactory, ...]
) -> tuple[object, int]:
    # The code of a factory, and its address; None and 0 if all of them return None.
    for factory in factories:
        code = attempt(f"micro-kernel {_name(kernel)}", _loaded, factory, kernel, machine)
        if code is not None:
            return code, code.address("micro")
    return None, 0


def _loaded(factory: KernelFactory, kernel: MicroKernel, machine: Target) -> compile.Code | None:
    text = factory(kernel, machine)
    if text is None:
        return None
    if not isinstance(text, str):
        raise ArgumentError(
            f"its factory gave a {type(text).__name__}: expected LLVM IR as text, or None"
        )
    code = compile.load(text, functools.partial(str, text), machine)
    if not code.address("micro"):
        raise ArgumentError("the module has no function 'micro'")
    return code


def _name(kernel: MicroKernel) -> str:
    (rows, vectors), flags = kernel.tile, [name for name in _FLAGS if getattr(kernel, name)]
    layouts = kernel.a, kernel.b
    return "_".join(["micro", str(kernel.dtype), f"{rows}x{vectors}", *layouts, *flags])


_FLAGS = "masked", "narrow", "prefetch", "streams"
