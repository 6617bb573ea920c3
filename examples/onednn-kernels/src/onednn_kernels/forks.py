"""Fork safety of oneDNN: no kernels in a forked child.

A forked child has no OpenMP threads, and its first parallel region would wait for them forever.
There the library prepares no kernels, and calling a kernel from before the fork raises.
"""

from __future__ import annotations

import os
import weakref

from fl_jit.kernels import KernelLibrary, KernelLibraryError

_home = os.getpid()
_lost = False
_libraries: weakref.WeakSet[KernelLibrary] = weakref.WeakSet()


def watch(library: KernelLibrary) -> None:
    """Clear the library's kernel cache in a forked child."""
    _libraries.add(library)


def lost() -> bool:
    """Whether this process is a fork of one that may have used the library."""
    return _lost


def check_process() -> None:
    """Raise KernelLibraryError in a forked child."""
    if _lost:
        raise KernelLibraryError(
            f"a kernel of oneDNN was made in process {_home} and called in a fork of it, where "
            f"OpenMP has no threads; start processes with 'spawn', or set FL_KERNEL_LIBRARIES=none"
        )


def _after_fork() -> None:
    global _lost
    _lost = True
    for library in _libraries:
        library.forget()


if hasattr(os, "register_at_fork"):  # systems that fork
    os.register_at_fork(after_in_child=_after_fork)
