"""Micro-kernels as machine code, each compiled when it is first needed, or loaded from its file.

``register`` puts micro-kernels of your own before the built-in one, for everything that is built on
them: products and all three passes of convolutions, in every loop nest. A *maker* is a function

    def maker(kernel: MicroKernel, machine: Target) -> str | None

that gives a module in LLVM IR with a function ``micro`` as ``microkernel.py`` describes it, or None
for those that it leaves to others.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TypeAlias

from fl_tensor.backends.providers.generated import FOLDER, amx, microkernel
from fl_tensor.backends.providers.generated.microkernel import MicroKernel
from fl_tensor.backends.providers.provider import Provider
from fl_tensor.codegen import compile, target
from fl_tensor.codegen.target import Target
from fl_tensor.errors import ArgumentError
from fl_tensor.registration import Registration

Maker: TypeAlias = Callable[[MicroKernel, Target], str | None]

_makers: tuple[Maker, ...] = ()
_watching: weakref.WeakSet[Provider] = weakref.WeakSet()


def watch(provider: Provider) -> None:
    """Have ``provider`` forget its kernels whenever makers come or go."""
    _watching.add(provider)


def _set(makers: tuple[Maker, ...]) -> None:
    global _makers
    _makers = makers
    for provider in _watching:
        provider.forget()


def register(maker: Maker) -> Registration:
    """Ask ``maker`` for every micro-kernel that is needed from now on, the latest one first; it
    stays until ``remove()`` of what is returned is called, or for a block: ``with register(...):``.
    """
    _set((maker, *_makers))
    return Registration(lambda: _set(tuple(each for each in _makers if each is not maker)))


def registered() -> tuple[Maker, ...]:
    """The makers in the order in which they are asked; what is prepared depends on them."""
    return _makers


def address(kernel: MicroKernel) -> int:
    """Where the micro-kernel's machine code begins. Raises ArgumentError where a maker's module has
    no ``micro``, CompileError where LLVM refuses it."""
    return _code(kernel, target.host(), _makers)[1]


@compile.once
def _code(kernel: MicroKernel, machine: Target, makers: tuple[Maker, ...]) -> tuple[object, int]:
    # The code lives as long as this process: kernels keep its address.
    made = (maker(kernel, machine) for maker in (*makers, amx.maker))
    text = next((text for text in made if text is not None), None)
    if text is not None:
        code = compile.load(text, functools.partial(str, text), machine)
    else:
        about = f"{kernel} {compile.sources(FOLDER)}"
        code = compile.load(
            about, lambda: microkernel.assembly(kernel, machine), machine, is_tidy=True
        )
    found = code.address("micro")
    if not found:
        raise ArgumentError(f"[register] the module made for {kernel} has no function 'micro'")
    return code, found
