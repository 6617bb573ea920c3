"""Fingerprints of functions: a short text that changes with the function's code."""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import fl_tensor as ft
from fl_data.errors import SampleTypeError
from fl_tensor.annotations import checked

#: Counts by version wherever it lies: its functions reach into dispatch, which is no one's change.
_LIBRARY = frozenset(
    "fl_memory fl_tensor fl_autograd fl_dist fl_data fl_nn fl_speech fl_vision fl_text".split()
)


@checked
def fingerprint(function: Callable[..., Any]) -> str:
    """32 hexadecimal digits that depend on what `function` does: its bytecode and constants, its
    defaults, the values that it closes over, and the globals that it names, in all functions,
    classes and modules of yours that these lead to. Installed packages count by name and
    `__version__`, and the version of Python counts.

    Comments, line numbers, and where a file lies do not matter. Raises `SampleTypeError` for a
    value of which nothing can be said (an open file, say).
    """
    try:
        return _Digest().of(function).hex()
    except RecursionError:
        raise SampleTypeError(
            f"[fingerprint] what {function!r} refers to is nested too deep: give version="
        ) from None


class _Digest:
    """Digests of values by content. What contains itself is told by how far up it began."""

    def __init__(self) -> None:
        self._begun: dict[int, int] = {}
        self._done: dict[int, tuple[object, bytes]] = {}  # with the value: its id stays its own

    def of(self, value: object) -> bytes:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return _hash("plain", type(value).__name__.encode(), repr(value).encode())
        if id(value) in self._done:
            return self._done[id(value)][1]
        if id(value) in self._begun:
            return _hash("itself", str(len(self._begun) - self._begun[id(value)]).encode())
        self._begun[id(value)] = len(self._begun)
        found = _hash(type(value).__name__, *self._parts(value))
        del self._begun[id(value)]
        self._done[id(value)] = (value, found)
        return found

    def _parts(self, value: Any) -> Iterable[bytes]:
        if isinstance(value, ft.Array):
            return [str((value.shape, value.dtype)).encode(), bytes(value.tobytes())]
        if isinstance(value, ft.DType | types.EllipsisType):
            return [repr(value).encode()]
        if isinstance(value, types.ModuleType):
            return [_name_and_version(value.__name__)]
        if isinstance(value, types.BuiltinFunctionType) and not _bound_to(value):
            return [_name_and_version(value.__module__ or ""), value.__qualname__.encode()]
        if isinstance(value, type) and _is_installed(value.__module__):
            return [_name_and_version(value.__module__), value.__qualname__.encode()]
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.MethodType | types.BuiltinFunctionType):
            owner = value.__self__
            inside = value.__func__ if isinstance(value, types.MethodType) else value.__name__
            return [self.of(owner), self.of(inside)]
        if isinstance(value, staticmethod | classmethod):
            return [self.of(value.__func__)]
        if isinstance(value, property):
            return [self.of(part) for part in (value.fget, value.fset, value.fdel)]
        if isinstance(value, functools.partial):
            return [self.of(part) for part in (value.func, value.args, value.keywords)]
        if type(value) in (tuple, list):  # others have a class that matters
            return [self.of(item) for item in value]
        if type(value) in (set, frozenset):  # in no order, and without cycles
            return sorted(_Digest().of(item) for item in value)
        if type(value) in (dict, types.MappingProxyType):
            return [self.of(part) for item in value.items() for part in item]
        if isinstance(value, type):
            return self._class(value)
        return self._instance(value)

    def _function(self, function: types.FunctionType) -> list[bytes]:
        cells = [_content(cell) for cell in function.__closure__ or ()]
        parts = [function.__code__, function.__defaults__, function.__kwdefaults__, cells]
        if _is_installed(function.__module__):  # made by it for you, perhaps, with values of yours
            name = _name_and_version(function.__module__)
            return [name, function.__qualname__.encode(), *map(self.of, parts)]
        names = sorted(_names(function.__code__))
        used = _used(names, function.__globals__)
        used += [pair for cell in cells if _is_own(cell) for pair in _used(names, vars(cell))]
        return [self.of(part) for part in (*parts, used)]

    def _code(self, code: types.CodeType) -> list[bytes]:
        python = sys.implementation.cache_tag or sys.version
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        handlers = getattr(code, "co_exceptiontable", b"")  # from Python 3.11 on
        parts = (python, code.co_code, handlers, counts, names, code.co_consts)
        return [self.of(part) for part in parts]

    def _class(self, kind: type) -> list[bytes]:
        inside = {
            name: part
            for name, part in sorted(vars(kind).items())
            if name not in ("__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__")
            and not name.startswith("_abc_")
            and not isinstance(part, types.MemberDescriptorType | types.GetSetDescriptorType)
        }
        bases = kind.__bases__
        return [kind.__qualname__.encode(), self.of(bases), self.of(inside)]

    def _instance(self, value: Any) -> list[bytes]:
        if hasattr(value, "__wrapped__"):  # functools.lru_cache
            return [self.of(value.__wrapped__)]
        try:
            state = value.__reduce_ex__(4)
        except Exception as error:
            raise SampleTypeError(
                f"[fingerprint] nothing says what a {type(value).__name__} is ({error}), so it "
                "cannot be seen whether the function changed: give version="
            ) from error
        if isinstance(state, str):
            return [_name_and_version(type(value).__module__), state.encode()]
        made_by, arguments, content, items, pairs = (*state, None, None, None)[:5]
        parts = (type(value), made_by.__qualname__, arguments, content)
        return [self.of(part) for part in (*parts, list(items or ()), list(pairs or ()))]


def _hash(kind: str, *parts: bytes) -> bytes:
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _names(code: types.CodeType) -> set[str]:
    """The names that a function and the functions in it look up."""
    inside = (part for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*map(_names, inside))


def _used(names: list[str], space: Mapping[str, Any], seen: tuple[object, ...] = ()) -> list[Any]:
    """`(name, value)` of `names` in `space`, and in the modules of yours that they lead to."""
    found: list[Any] = []
    for name in names:
        if name in space:
            value = space[name]
            found.append((name, value))
            if _is_own(value) and value not in seen:
                found += _used(names, vars(value), (*seen, value))
    return found


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return "empty"


def _bound_to(function: types.BuiltinFunctionType) -> bool:
    owner = function.__self__
    return owner is not None and not isinstance(owner, types.ModuleType)


def _is_own(value: object) -> bool:
    return isinstance(value, types.ModuleType) and not _is_installed(value.__name__)


def _is_installed(module: str | None) -> bool:
    """Whether it comes with Python or this library, or lies where packages are installed."""
    top = (module or "").partition(".")[0]
    if top in sys.stdlib_module_names or top in _LIBRARY:
        return True
    found = sys.modules.get(top)
    places = [getattr(found, "__file__", None) or "", *getattr(found, "__path__", ())]
    return any({"site-packages", "dist-packages"} & set(Path(place).parts) for place in places)


def _name_and_version(module: str) -> bytes:
    version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
    return f"{module} {version}".encode()
