"""Registry of the kernel libraries that serve the backend `jit` in this process.

FL_KERNEL_LIBRARIES lists them by priority, separated by commas (default: ``DEFAULT``). "none" turns
them off. FL_KERNELS_FORCE=1 passes them every descriptor that they support, of any size. That is
slower. Tests use it to run kernels on small operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

from fl_jit.kernels.fallback import FallbackChain
from fl_jit.kernels.lazy import LazyLibrary
from fl_jit.kernels.library import Kernel, KernelLibrary, KernelLibraryError
from fl_tensor.extend import settings

ENVIRONMENT = "FL_KERNEL_LIBRARIES"
EVERYTHING = "FL_KERNELS_FORCE"
NONE = "none"
_INSTALL_ONEDNN = "python -m pip install './backends/fl-jit[onednn]' in a clone of the repository"
#: The libraries if FL_KERNEL_LIBRARIES is not set.
DEFAULT = ("generated", "onednn")

#: A kernel library, or None; and messages about the candidates that were skipped.
Opened: TypeAlias = tuple[KernelLibrary | None, tuple[str, ...]]

#: Callbacks for every kernel that a backend runs; usually empty.
watchers: list[Callable[[KernelLibrary, Kernel], None]] = []


@functools.cache
def is_for_everything() -> bool:
    """Whether to ignore size thresholds. Every GEMM needs this: the environment is read once."""
    return settings.switch(EVERYTHING, False, former="FL_PROVIDERS_EVERYTHING")


def wanted() -> tuple[str, ...]:
    """The names of the requested libraries, in order.

    Raises KernelLibraryError for unknown names.
    """
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
    """The available libraries in order, and messages about missing or skipped ones.

    Raises KernelLibraryError if FL_KERNEL_LIBRARIES or FL_ONEDNN_LIB names something that does not
    exist.
    """
    opened = [_OPEN[name]() for name in wanted()]
    if not opened:
        return (), (f"providers are turned off by {ENVIRONMENT}={NONE}",)
    passed = [reason for _, reasons in opened for reason in reasons]
    return tuple([one for one, _ in opened if one is not None]), tuple(passed)


@functools.cache
def active_library() -> KernelLibrary | None:
    """The kernel library of `jit`, which may be a fallback chain; None if there is none."""
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
