"""Search for the oneDNN shared library. The candidates, in order:

1. FL_ONEDNN_LIB, a path (an error if it is unusable);
2. the ``libdnnl.so.3`` that the distribution ``onednn-cpu-gomp`` installed;
3. a ``libdnnl.so.3`` of the system, found by the dynamic linker.

A library that was found has to be version 3 and use OpenMP, whose pool the generated kernels share.
A library given by path may also have its own thread pool (TBB) or none. Builds on SYCL are
rejected: a call costs 30 us, and their memory is not plain addresses.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NamedTuple

from fl_jit.kernels import KernelLibraryError

NAME = "libdnnl.so.3"
DISTRIBUTION = "onednn-cpu-gomp"
ENVIRONMENT = "FL_ONEDNN_LIB"
OPENMP = "OpenMP"
_RUNTIMES = {1: "sequential", 2: OPENMP, 4: "TBB", 8: "thread pool", 0x200: "SYCL"}
_ON_REQUEST = ("sequential", OPENMP, "TBB")


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    )


class Library(NamedTuple):
    """A usable library, loaded."""

    path: str
    version: str
    runtime: str
    c: ctypes.CDLL


def candidates() -> Iterator[tuple[str, str]]:
    """(path, origin) of the candidates; only existing files.

    The last one is resolved by the dynamic linker, which may not find it.
    """
    requested = os.environ.get(ENVIRONMENT)
    if requested:
        yield requested, ENVIRONMENT
        return
    for path in _of_distribution():
        yield str(path), DISTRIBUTION
    yield NAME, "system"


def load() -> Library:
    """The first usable library.

    Raises KernelLibraryError, with what is wrong with each candidate, if there is none, or if
    FL_ONEDNN_LIB names an unusable library.
    """
    reasons = []
    for path, origin in candidates():
        found = _try(path, is_requested=origin == ENVIRONMENT)
        if isinstance(found, Library):
            return found
        if origin == ENVIRONMENT:
            raise KernelLibraryError(
                f"{ENVIRONMENT}={path}: {found}; unset it, or give another path"
            )
        reasons.append(f"{path} {found}")
    raise KernelLibraryError(
        f"there is no usable oneDNN: {'; '.join(reasons)}. Install {DISTRIBUTION} (Linux on "
        f"x86-64), or set {ENVIRONMENT} to the path of a {NAME}"
    )


def _of_distribution() -> list[Path]:
    try:
        files = distribution(DISTRIBUTION).files or ()
    except PackageNotFoundError:
        return []
    paths = (Path(str(file.locate())).resolve() for file in files if file.name == NAME)
    return [path for path in paths if path.is_file()]


def _try(path: str, is_requested: bool) -> Library | str:
    if not sys.platform.startswith("linux"):
        return f"not tried on {sys.platform}: this binding is for Linux"
    try:
        c = ctypes.CDLL(path)
    except OSError as error:
        return f"cannot be loaded ({error})"
    try:
        c.dnnl_version.restype = ctypes.POINTER(_Version)
        about = c.dnnl_version().contents
    except AttributeError:
        return "is no oneDNN: it has no dnnl_version"
    version = f"{about.major}.{about.minor}.{about.patch}"
    if about.major != 3:
        return f"is oneDNN {version}, expected 3.x"
    runtime = _RUNTIMES.get(about.cpu_runtime, f"runtime {about.cpu_runtime:#x}")
    if runtime not in (_ON_REQUEST if is_requested else (OPENMP,)):
        return f"is oneDNN {version} on {runtime}, expected one on OpenMP"
    return Library(path, version, runtime, c)
