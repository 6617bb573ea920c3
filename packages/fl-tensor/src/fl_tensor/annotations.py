"""Runtime checks of arguments against the annotations of a function.

An argument that cannot have the annotated type - a string for an int, a number for a Module - is a
DTypeError. ``Checked`` is a base of classes with checked constructors. ``checked`` decorates
functions that are called rarely. ``explained`` decorates functions that are called often: their
arguments are checked only after a failure.
"""

from __future__ import annotations

import functools
import operator
import os
import reprlib
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError, FlError

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["Checked", "check", "checked", "explained", "misfit"]

F = TypeVar("F", bound="Callable[..., Any]")

#: Of a long sequence so many elements are looked at.
_LOOKED_AT = 100
_UNIONS = (typing.Union, types.UnionType)
_SIMPLE = {
    bool: "True or False", int: "an int", float: "a number", complex: "a number", str: "a string",
    bytes: "bytes", type(None): "None", DType: "a dtype", os.PathLike: "a path",
}  # fmt: skip


class Checked:
    """Base of classes whose constructors' arguments are checked against their annotations, where
    the constructor is one of these packages. An error of the constructor's own goes first."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__dict__.get("__init__")
        if own is not None and own.__module__.startswith("fl_"):
            setattr(cls, "__init__", _checking(own))  # noqa: B010 - mypy knows no other __init__

    def __new__(cls, *args: Any, **options: Any) -> Any:
        made = super().__new__(cls)
        if hasattr(cls, "__dataclass_fields__") and cls.__module__.startswith("fl_"):
            check(cls.__name__, cls.__init__, (made, *args), options)
        return made


def _checking(constructor: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(constructor)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        try:
            constructor(self, *args, **options)
        except FlError:
            raise
        except (TypeError, AttributeError, ValueError, OverflowError) as error:
            problem = misfit(constructor, (self, *args), options)
            if problem is None:
                raise
            raise DTypeError(f"[{type(self).__name__}] {problem}") from error
        check(type(self).__name__, constructor, (self, *args), options)

    return __init__


def check(where: str, function: Callable[..., Any], args: Sequence[Any], options: Any) -> None:
    """Raise DTypeError for the first argument that its annotation does not allow. Arguments that do
    not fit the signature, and annotations that are not understood, pass."""
    problem = misfit(function, args, options)
    if problem is not None:
        raise DTypeError(f"[{where}] {problem}")


def checked(function: F) -> F:
    """Decorates a function: its arguments are checked before it is called."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        check(function.__name__, function, args, options)
        return function(*args, **options)

    return typing.cast(F, call)


def explained(function: F) -> F:
    """Decorates a function: a TypeError, AttributeError or ValueError of Python's that comes out of
    it becomes a DTypeError if an argument is not what its annotation says."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except FlError:
            raise
        except (TypeError, AttributeError, ValueError) as error:
            problem = misfit(function, args, options)
            if problem is None:
                raise
            raise DTypeError(f"[{function.__name__}] {problem}") from error

    return typing.cast(F, call)


def misfit(
    function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
) -> str | None:
    """The first argument that its annotation does not allow, in words."""
    signature, hints = _signature(function)
    try:
        bound = signature.bind_partial(*args, **options)
    except TypeError:
        return None  # the call says it better
    for name, value in bound.arguments.items():
        if name not in hints:
            continue
        parameter = signature.parameters[name]
        several = parameter.kind is parameter.VAR_POSITIONAL
        for one in value if several else (value,):
            if not fits(one, hints[name]):
                return f"{name} {_shown(one)}: expected {words(hints[name])}"
    return None


@functools.cache
def _signature(function: Callable[..., Any]) -> tuple[Signature, dict[str, Any]]:
    import inspect  # when first needed: it makes importing this package slower

    inner = inspect.unwrap(function)
    signature = inspect.signature(inner)
    scope = getattr(inner, "__globals__", {})
    hints = {}
    for parameter in signature.parameters.values():
        note = parameter.annotation
        if parameter.kind is parameter.VAR_KEYWORD or note is parameter.empty:
            continue
        try:  # our own source text; names that only type checkers import are not there
            hints[parameter.name] = eval(note, scope) if isinstance(note, str) else note
        except (NameError, AttributeError, TypeError):
            continue
    return signature, hints


@functools.cache
def _origin_and_parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(hint), typing.get_args(hint)


def fits(value: Any, hint: Any) -> bool:
    """Whether an annotation may allow a value; True where it says too little."""
    if isinstance(hint, TypeVar):
        return hint.__bound__ is None or fits(value, hint.__bound__)
    origin, parts = _origin_and_parts(hint)
    if origin in _UNIONS:
        return any(fits(value, part) for part in parts)
    if origin is typing.Literal:
        return isinstance(value, (str, int)) and value in parts
    if hint is None or hint is Any:
        return hint is Any or value is None
    if isinstance(value, str) and parts == (Any,):
        return True  # the letters of a text are many things
    test = _TESTS.get(origin or hint)
    if test is not None:
        return test(value) and _elements_fit(value, origin, parts)
    kind = origin or hint
    if not isinstance(kind, type) or kind is object or kind.__module__ == "typing":
        return True  # TextIO and its like are no base classes of files
    if getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind)


def _elements_fit(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    if not parts or origin is _CALLABLE or not isinstance(value, (list, tuple)):
        return True
    if origin is tuple and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(map(fits, value, parts))
    return all(fits(one, parts[0]) for one in value[:_LOOKED_AT])


def _is_int(value: Any) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) is not None
    except TypeError:
        return False


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not (
        isinstance(value, bool) or getattr(value, "shape", ()) != ()
    )


def _is_flag(value: Any) -> bool:
    named = str(getattr(value, "dtype", ""))
    return isinstance(value, bool) or (getattr(value, "shape", None) == () and named == "bool")


def _is_dtype(value: Any) -> bool:
    try:
        return dtypes.dtype(value) is not None
    except DTypeError:
        return False


def _is_sequence(value: Any) -> bool:
    listed = isinstance(value, Sequence) or (hasattr(value, "__len__") and hasattr(value, "shape"))
    return listed and not isinstance(value, (str, bytes))


def _is_iterable(value: Any) -> bool:
    many = isinstance(value, Iterable) or hasattr(value, "__getitem__")
    return many and not isinstance(value, (str, bytes, type))


_CALLABLE = typing.get_origin(Callable[..., Any])
_TESTS: dict[Any, Callable[[Any], bool]] = {
    bool: _is_flag,
    int: _is_int,
    float: _is_number,
    complex: lambda value: _is_number(value) or isinstance(value, complex),
    str: lambda value: isinstance(value, str),
    DType: _is_dtype,
    Sequence: _is_sequence,
    list: _is_sequence,
    tuple: _is_sequence,
    Iterable: _is_iterable,
    Collection: _is_iterable,
    Mapping: lambda value: isinstance(value, Mapping),
    dict: lambda value: isinstance(value, Mapping),
    _CALLABLE: callable,
}


def words(hint: Any) -> str:
    """An annotation as a message says it."""
    hint = hint.__bound__ if isinstance(hint, TypeVar) else hint
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return " or ".join(dict.fromkeys(map(words, parts)))
    if origin is typing.Literal:
        return " or ".join(map(repr, parts))
    if origin is _CALLABLE or hint is _CALLABLE:
        return "a function"
    if hint is None:
        return "None"
    kind = origin or hint
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if kind in (Sequence, list, tuple, Iterable, Collection):
        inner = [words(part) for part in parts if part not in (Ellipsis, Any)]
        return f"several, each {inner[0]}" if len(set(inner)) == 1 else "several"
    if kind in (Mapping, dict):
        return "a mapping"
    name = str(getattr(kind, "__name__", kind))
    article = "an" if name[0] in "AEIOUaeiou" else "a"
    return f"{article} {name}"


def _shown(value: Any) -> str:
    text = reprlib.repr(value)
    plain = isinstance(value, (str, bytes, int, float, complex, list, tuple, dict, type(None)))
    return text if plain else f"{text} ({type(value).__name__})"
