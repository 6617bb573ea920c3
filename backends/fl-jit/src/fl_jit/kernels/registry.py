"""Registry of the kernel libraries that serve the backend `jit` in this process.

FL_KERNEL_LIBRARIES lists libraries in order of priority, separated by commas. The default is
``generated``, the one in this distribution; "none" turns kernel libraries off. Other distributions
offer libraries by entry points of the group ``fl.jit.kernel_libraries.v1`` (provisional). An entry
point names a subclass of ``KernelLibrary`` that takes no arguments, or a function that returns an
instance. An installed library that the setting does not name is neither used nor imported.

FL_KERNELS_FORCE=1 passes them every descriptor that they support, of any size. That is slower.
Tests use it to run kernels on small operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module

from fl_jit.kernels.chain import FallbackChain
from fl_jit.kernels.library import Kernel, KernelLibrary, KernelLibraryError
from fl_memory.installed import Offer, offers
from fl_tensor.extend import settings

GROUP = "fl.jit.kernel_libraries.v1"
ENVIRONMENT = "FL_KERNEL_LIBRARIES"
FORCE = "FL_KERNELS_FORCE"
GENERATED = "generated"
NONE = "none"

#: Callbacks for every kernel that a backend runs; usually empty.
watchers: list[Callable[[KernelLibrary, Kernel], None]] = []


@functools.cache
def is_for_everything() -> bool:
    """Whether to ignore size thresholds. Every GEMM needs this: the environment is read once."""
    return settings.switch(FORCE, False, former="FL_PROVIDERS_EVERYTHING")


def requested() -> tuple[str, ...]:
    """The names in FL_KERNEL_LIBRARIES, in order; () for "none".

    Raises KernelLibraryError for unknown names, duplicates, and "none" beside another name.
    """
    setting = settings.text(ENVIRONMENT, former="FL_PROVIDERS") or GENERATED
    names = tuple(name for part in setting.split(",") if (name := part.strip()))
    if NONE in names and len(names) > 1:
        raise KernelLibraryError(f"{ENVIRONMENT}={setting}: {NONE!r} stands alone, or is left out")
    if len(set(names)) < len(names):
        raise KernelLibraryError(f"{ENVIRONMENT}={setting}: name each library once")
    if names == (NONE,):
        return ()
    if names == (GENERATED,):  # without a look at the installed distributions
        return names
    known = available()
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(f"{name} ({origin})" for name, origin in known.items())
        raise KernelLibraryError(
            f"{ENVIRONMENT}={setting}: no kernel library {unknown[0]!r}; there are: {listed}. "
            f"Install the distribution that offers it in the entry point group {GROUP}, or name "
            f"one of these, or {NONE!r}"
        )
    return names


def available() -> dict[str, str]:
    """Every library that FL_KERNEL_LIBRARIES may name, and its distribution. Imports none."""
    found = {GENERATED: "fl-jit"}
    for offer in offers(GROUP):
        if offer.name not in (GENERATED, NONE):
            found.setdefault(offer.name, str(offer))
    return found


@functools.cache
def active_library() -> KernelLibrary | None:
    """The kernel libraries of `jit` as one; None if they are turned off.

    Libraries of other distributions are loaded here: a fault is an error before anything is
    computed. Generated kernels import the compiler at the first descriptor.
    """
    names = requested()
    for name in names:
        if name != GENERATED:
            load(name)
    return FallbackChain(lambda: tuple(map(load, names))) if names else None


@functools.cache
def load(name: str) -> KernelLibrary:
    """The library of that name, one per process.

    Raises KernelLibraryError, with the name of the distribution, if it cannot be loaded.
    """
    if name == GENERATED:
        from fl_jit.kernels.llvm.library import GeneratedKernels

        return GeneratedKernels()
    found = [offer for offer in offers(GROUP) if offer.name == name]
    if len(found) > 1:
        raise KernelLibraryError(
            f"{ENVIRONMENT}: kernel library {name!r} is offered by "
            f"{' and by '.join(map(str, found))}; uninstall all but one"
        )
    try:
        return _instantiate(found[0])
    except Exception as error:  # code of another distribution: it may fail in any way
        raise KernelLibraryError(
            f"kernel library {name!r} of {found[0]} cannot be loaded: {error}. Repair that "
            f"distribution, or take {name!r} out of {ENVIRONMENT}"
        ) from error


def _instantiate(offer: Offer) -> KernelLibrary:
    library = getattr(import_module(offer.module), offer.value.partition(":")[2].strip())()
    if not isinstance(library, KernelLibrary):
        raise TypeError(f"{offer.value} made {library!r}, which is no KernelLibrary")
    return library
