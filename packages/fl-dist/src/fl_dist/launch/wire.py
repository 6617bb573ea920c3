"""Programs and outcomes as bytes: a program goes to the ranks, its outcome comes back.

Launchers that start processes use this module: ``launch.processes``, and those of MPI and others.
Everything is pickled, so a program is a function of a module. Closures and lambdas are refused with
an error that says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import fl_memory as mem
import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError, DistError, one_line
from fl_dist.rank_info import RankInfo
from fl_tensor.extend import Layer, active, is_reproducible

__all__ = ["RemoteTraceback", "load_outcome", "pack", "pack_outcome", "perform"]


class RemoteTraceback(Exception):
    """The cause of an exception that another process raised: its traceback there, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


@dataclass(frozen=True)
class Setting:
    """What the ranks take over from the caller: the plain part of its context."""

    environ: dict[str, str]
    backend: Any  # its name, or its class
    manager: str
    reproducible: bool
    threads: int

    @classmethod
    def current(cls, world_size: int) -> Setting:
        """The caller's. Raises ArgumentError for an override, which cannot be taken along."""
        if any(not layer.watches for layer in active(Layer)):
            raise ArgumentError(
                "[run] an ft.override is active, and functions of this process cannot change "
                "operations in others: enter it within the program"
            )
        backend = ft.current_backend()
        named = backend.name in ft.available_backends() and ft.get_backend(backend.name) is backend
        return cls(
            environ=dict(os.environ),
            backend=backend.name if named else type(backend),
            manager=mem.current().name,
            reproducible=is_reproducible(),
            threads=max(1, ft.get_num_threads() // world_size),
        )

    def enter(self, stack: ExitStack) -> None:
        """Take it over, in this process."""
        os.environ.clear()
        os.environ.update(self.environ)
        ft.use(self.backend)
        if self.manager in mem.available() and self.manager != mem.current().name:
            mem.use(self.manager)
        if self.reproducible:
            stack.enter_context(ft.reproducible())
        ft.set_num_threads(self.threads)


# ---- the program ---------------------------------------------------------------------------------


def pack(
    communicator: type[Communicator],
    world_size: int,
    fn: Callable[..., Any],
    args: Sequence[Any],
    timeout: float | None = None,
) -> list[bytes]:
    """For each rank what ``perform`` needs: ``fn(communicator, *args)``, the caller's setting, and
    a random generator split from the caller's. Raises ArgumentError for what cannot be pickled."""
    _check_program(fn)
    files = _files_of([fn, communicator, *args])
    setting = _pickled("the context of the caller", Setting.current(world_size))
    parts = [
        _pickled(f"the communicator {communicator.__name__}", communicator),
        _pickled(f"the program {_name(fn)}", fn),
        _pickled("the arguments of the program", tuple(args)),
    ]
    generators = ft.default_generator().split(world_size)
    return [pickle.dumps((files, setting, parts, timeout, generator)) for generator in generators]


def perform(packed: bytes, info: RankInfo, joined: Callable[[], None] = lambda: None) -> bytes:
    """Run a packed program as the rank ``info``; its outcome, packed.

    joined  called when the communicator is there
    """
    try:
        with ExitStack() as stack:
            files, setting, parts, timeout, generator = pickle.loads(packed)
            pickle.loads(setting).enter(stack)
            _make_importable(files)
            communicator, fn, args = map(pickle.loads, parts)
            ft.set_default_generator(generator)
            with communicator.join(info, timeout=timeout) as comm:
                joined()
                comm.timeout = timeout or communicator.timeout
                return pack_outcome(info.rank, result=fn(comm, *args))
    except BaseException as error:
        return pack_outcome(info.rank, error=error)


def _check_program(fn: Callable[..., Any]) -> None:
    if not callable(fn):
        raise ArgumentError(f"[run] expected a function, got {type(fn).__name__}")
    name, module = _name(fn), getattr(fn, "__module__", None)
    if "<lambda>" in name or "<locals>" in name:
        raise ArgumentError(
            f"[run] {name} is defined inside a function, so other processes cannot import it: "
            "define it at the top level of a module and pass what it needs as arguments (or run "
            "it on 'threads')"
        )
    main = sys.modules["__main__"]
    if module == "__main__" and not hasattr(main, "__file__") and main.__spec__ is None:
        raise ArgumentError(
            f"[run] {name} was typed in at a prompt or in a notebook, so other processes cannot "
            "import it: put it into a file (or run it on 'threads')"
        )


def _pickled(what: str, value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise ArgumentError(
            f"[run] {what} cannot be sent to other processes: {one_line(error)}; functions and "
            "classes must stand at the top level of a module, and values must pickle"
        ) from error


def _name(fn: Callable[..., Any]) -> str:
    return f"{getattr(fn, '__module__', '?')}.{getattr(fn, '__qualname__', repr(fn))}"


def _files_of(values: Sequence[Any]) -> dict[str, str]:
    """The files of the modules that define these functions and classes."""
    kinds = (FunctionType, type)
    values = [value.func if isinstance(value, partial) else value for value in values]
    values = [value.__self__ if isinstance(value, MethodType) else value for value in values]
    named = [value if isinstance(value, kinds) else type(value) for value in values]
    modules = {value.__module__: sys.modules.get(value.__module__) for value in named}
    files = {name: getattr(module, "__file__", None) for name, module in modules.items()}
    return {name: file for name, file in files.items() if file and name != "__main__"}


def _make_importable(files: Mapping[str, str]) -> None:
    """Load modules that this process cannot find by name, such as test files, from their files."""
    for name, file in files.items():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # something that the module needs
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None and spec.loader is not None
            module: ModuleType = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            while "." in name:  # pickle asks for the packages around it
                name = name.rpartition(".")[0]
                sys.modules.setdefault(name, ModuleType(name))
            spec.loader.exec_module(module)


# ---- its outcome ---------------------------------------------------------------------------------


def pack_outcome(rank: int, result: Any = None, error: BaseException | None = None) -> bytes:
    """The outcome of one rank, to be read by ``load_outcome``. What cannot cross becomes an error
    that says so."""
    if error is None:
        try:
            return pickle.dumps((result, None, ""))
        except Exception as reason:
            error = DistError(
                f"[run] the result of rank {rank} ({type(result).__name__}) cannot be sent to the "
                f"caller: {one_line(reason)}; return plain data or tensors"
            )
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        packed = pickle.dumps((None, error, text))
        pickle.loads(packed)
        return packed
    except Exception:  # of an exception that keeps open files, or takes other arguments
        return pickle.dumps((None, DistError(one_line(error)), text))


def load_outcome(packed: bytes) -> tuple[Any, BaseException | None]:
    """The result, or the exception with its ``RemoteTraceback`` as the cause."""
    result, error, text = pickle.loads(packed)
    if error is not None and error.__cause__ is None:
        error.__cause__ = RemoteTraceback(text)
    return result, error
