"""Which providers serve the backend `jit` in this process, and who is asked first.

FL_KERNEL_LIBRARIES names them in their order, with commas between (default: ``DEFAULT``); "none"
turns them off. FL_KERNELS_FORCE=1 hands them every problem that they support, however small;
that is slower, and how the tests reach them with small operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

from fl_jit.kernels.fallback import FallbackChain
from fl_jit.kernels.lazy import LazyLibrary
from fl_jit.kernels.library import Kernel, KernelLibrary, KernelLibraryError
from fl_tensor import settings

ENVIRONMENT = "FL_KERNEL_LIBRARIES"
EVERYTHING = "FL_KERNELS_FORCE"
NONE = "none"
_INSTALL_ONEDNN = "python -m pip install './backends/fl-jit[onednn]' in a clone of the repository"
#: Who is asked where FL_KERNEL_LIBRARIES does not say.
DEFAULT = ("generated", "onednn")

#: A provider, or None, and what was passed over on the way to it, for people.
Opened: TypeAlias = tuple[KernelLibrary | None, tuple[str, ...]]

#: Told of every kernel that a backend runs; usually nobody.
watchers: list[Callable[[KernelLibrary, Kernel], None]] = []


@functools.cache
def is_for_everything() -> bool:
    """Whether sizes are to be disregarded. Every product asks: the environment is read once."""
    return settings.switch(EVERYTHING, False, former="FL_PROVIDERS_EVERYTHING")


def wanted() -> tuple[str, ...]:
    """The names of the wanted libraries, in order. Raises KernelLibraryError for unknown ones."""
    asked = settings.text(ENVIRONMENT, former="FL_PROVIDERS")
    if not asked:
        return DEFAULT
    names = tuple(name for part in asked.split(",") if (name := part.strip()))
    if unknown := [name for name in names if name not in (*_OPEN, NONE)]:
        raise KernelLibraryError(
            f"{ENVIRONMENT}={asked}: there is no provider {unknown[0]!r}; name some of "
            f"{', '.join(_OPEN)}, or {NONE!r}"
        )
    if NONE in names and len(names) > 1:
        raise KernelLibraryError(f"{ENVIRONMENT}={asked}: {NONE!r} stands alone, or is left out")
    return tuple(name for name in names if name != NONE)


@functools.cache
def found() -> tuple[tuple[KernelLibrary, ...], tuple[str, ...]]:
    """The providers in their order, and why others are missing (or which libraries were passed
    over), for people.

    Raises KernelLibraryError when FL_KERNEL_LIBRARIES or FL_ONEDNN_LIB names what there is not.
    """
    opened = [_OPEN[name]() for name in wanted()]
    if not opened:
        return (), (f"providers are turned off by {ENVIRONMENT}={NONE}",)
    passed = [reason for _, reasons in opened for reason in reasons]
    return tuple([one for one, _ in opened if one is not None]), tuple(passed)


@functools.cache
def active_library() -> KernelLibrary | None:
    """The provider that `jit` asks, which may ask others in its turn; None if there is none."""
    libraries, _ = found()
    if len(libraries) > 1:
        return FallbackChain(libraries)
    return libraries[0] if libraries else None


def _onednn() -> Opened:
    from fl_jit.kernels import onednn

    library, passed = onednn.load()
    if library is None:
        return None, (*passed, f"onednn (Linux, x86-64): {_INSTALL_ONEDNN}")
    return onednn.OneDNN(library), tuple(passed)


def _generated() -> Opened:
    return LazyLibrary("generated", True, _make_generated), ()


def _make_generated() -> KernelLibrary:
    from fl_jit.kernels.llvm.library import GeneratedKernels

    return GeneratedKernels()


_OPEN: dict[str, Callable[[], Opened]] = {"generated": _generated, "onednn": _onednn}
