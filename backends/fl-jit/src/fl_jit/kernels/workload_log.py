"""Workload log: the descriptors that ``fl-jit tune`` measures, saved between processes.

Each descriptor for which a library prepared a kernel is recorded once, if it has enough work. At
exit the process writes them to ``workload.json`` in the cache directory. The file keeps the newest
``MOST`` descriptors of all processes. An unreadable file counts as empty. Errors in writing it are
ignored.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from fl_jit.kernels.descriptors import (
    ConvDataGrad,
    Convolution,
    ConvWeightGrad,
    Epilogue,
    Matmul,
    OpDescriptor,
    flops,
)
from fl_jit.kernels.layout import Layout, Packed
from fl_memory import free_after_fork
from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError
from fl_tensor.extend import cache_files

#: Descriptors with fewer operations are not measured.
LEAST_FLOPS = 6_000_000
#: Descriptors in the file.
MOST = 2000
_FORMAT = 1
_TUPLES = Layout, Epilogue, Matmul, Convolution, ConvDataGrad, ConvWeightGrad
_BY_NAME: dict[str, Any] = {each.__name__: each for each in _TUPLES}

#: By type as well: descriptors of different types can have equal fields.
_noted: dict[tuple[type, OpDescriptor], None] = {}
_lock = free_after_fork(threading.Lock())
_home = os.getpid()


def note(descriptor: OpDescriptor) -> None:
    """Record ``descriptor`` if it has at least ``LEAST_FLOPS`` operations and no packed operand."""
    if flops(descriptor) >= LEAST_FLOPS and not any(isinstance(p, Packed) for p in descriptor):
        with _lock:
            _noted[type(descriptor), descriptor] = None


def known(path: Path | None = None) -> list[OpDescriptor]:
    """The descriptors of other processes, oldest first, then those of this one."""
    found = dict.fromkeys((type(each), each) for each in _read(path or _path()))
    with _lock:
        for key in _noted:
            found.pop(key, None)
            found[key] = None
    return [descriptor for _, descriptor in found][-MOST:]


def save(path: Path | None = None) -> None:
    """Write the known descriptors. A forked child leaves that to its parent."""
    path = path or _path()
    if path is None or not _noted or os.getpid() != _home:
        return
    content = {
        "format": _FORMAT,
        "descriptors": [_written(descriptor) for descriptor in known(path)],
    }
    with contextlib.suppress(OSError):
        cache_files.write(path, json.dumps(content).encode())


def forget() -> None:
    """Clear this process's descriptors, and delete the file."""
    path = _path()
    with _lock:
        _noted.clear()
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink()


def _at_exit() -> None:
    # Calls that read an invalid setting report it. At exit the error could not be handled.
    with contextlib.suppress(ArgumentError):
        save()


atexit.register(_at_exit)


def _path() -> Path | None:
    folder = cache_files.folder()
    return None if folder is None else folder / "workload.json"


# ---- descriptors as text -------------------------------------------------------------------------


def _written(value: Any) -> Any:
    if isinstance(value, _TUPLES):
        fields = {name: _written(getattr(value, name)) for name in value._fields}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, DType):
        return {"type": "dtype", "name": value.name}
    if isinstance(value, tuple):
        return [_written(each) for each in value]
    text = getattr(value, "text", None)
    return value if text is None else {"type": "program", "text": text}


def _read(path: Path | None) -> list[OpDescriptor]:
    try:
        content = json.loads((cache_files.read(path) if path else None) or b"{}")
        return [_made(each) for each in content["descriptors"] if content["format"] == _FORMAT]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple([_made(each) for each in value])
    if not isinstance(value, dict):
        return value
    given = dict(value)
    kind = given.pop("type")
    if kind == "dtype":
        return dtypes.dtype(given["name"])
    if kind == "program":
        from fl_jit.kernels.codegen.text import parse

        return parse(given["text"])
    return _BY_NAME[kind](**{name: _made(each) for name, each in given.items()})
