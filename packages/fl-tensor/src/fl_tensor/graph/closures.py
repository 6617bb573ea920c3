"""The objects that a function refers to: variables around it, and what these hold.

Each is found with a way to look it up again, so that another value of the same variable is seen.
``Effects`` tells which of them a call has changed, and takes the changes back.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from fl_tensor.arrays.array import Array

__all__ = ["WRAPPERS", "Effects", "Place", "places"]

#: So many objects are looked at, and so many steps from the function.
MOST, DEPTH = 20_000, 8
#: Of containers with more elements, so many are looked at, and changes are not noticed.
LARGE = 10_000
#: Classes of compiled functions: of these only the function, ``__wrapped__``, is looked at.
WRAPPERS: list[type] = []
_CLOSED = (str, bytes, int, float, complex, type(None), type, ModuleType, BuiltinFunctionType)


#: Name, value, and how to get the value from what holds it.
_Part: TypeAlias = tuple[str, Any, Callable[[Any], Any]]


class Place(NamedTuple):
    """An object, and the way to it. ``get`` raises where it is no more."""

    name: str
    value: Any
    get: Callable[[], Any]


def places(function: Any, closed: tuple[type, ...] = ()) -> Iterator[Place]:
    """What ``function`` refers to, each object once, near ones first: variables of enclosing
    functions, global names of its module in its code, defaults, ``self``, and what these hold as
    attributes and in lists, tuples and dicts. Arrays, and objects of the ``closed`` classes, are
    not looked into.
    """
    found: deque[tuple[Place, int]] = deque([(Place("", function, lambda: function), 0)])
    seen, home = {id(function)}, _home(function)
    while found and len(seen) < MOST:
        place, depth = found.popleft()
        if depth:
            yield place
        if depth == DEPTH or isinstance(place.value, (Array, *_CLOSED, *closed)):
            continue
        for name, value, look in _parts(place.value, home):
            if id(value) not in seen and not isinstance(value, _CLOSED):
                seen.add(id(value))
                get = functools.partial(_through, place.get, look)
                full = f"{place.name}.{name}" if place.name else name
                found.append((Place(full, value, get), depth + 1))


def _through(get: Callable[[], Any], look: Callable[[Any], Any]) -> Any:
    return look(get())


def _home(function: Any) -> Any:
    """The global names of the module that a function is written in: those of libraries that it
    calls are their own affair."""
    while isinstance(function, (functools.partial, MethodType)):
        function = function.func if isinstance(function, functools.partial) else function.__func__
    own = function if isinstance(function, FunctionType) else type(function).__call__
    return getattr(own, "__globals__", None)


def _parts(holder: Any, home: Any) -> Iterator[_Part]:
    if isinstance(holder, tuple(WRAPPERS)):
        yield (
            "__wrapped__",
            vars(holder)["__wrapped__"],
            functools.partial(_attribute, "__wrapped__"),
        )
    elif isinstance(holder, FunctionType):
        yield from _of_function(holder, home)
    elif isinstance(holder, MethodType):
        yield "self", holder.__self__, lambda method: method.__self__
        yield "function", holder.__func__, lambda method: method.__func__
    elif isinstance(holder, functools.partial):
        yield "function", holder.func, lambda partial: partial.func
        yield "arguments", holder.args, lambda partial: partial.args
        yield "keywords", holder.keywords, lambda partial: partial.keywords
    elif isinstance(holder, (list, tuple)):
        for i, value in enumerate(itertools.islice(holder, LARGE)):
            yield str(i), value, functools.partial(_item, i)
    elif isinstance(holder, dict):
        for key, value in list(itertools.islice(holder.items(), LARGE)):
            yield str(key), value, functools.partial(_item, key)
    elif hasattr(holder, "__dict__"):
        for name, value in list(vars(holder).items()):
            yield name, value, functools.partial(_attribute, name)


def _item(key: Any, holder: Any) -> Any:
    return holder[key]


def _attribute(name: str, holder: Any) -> Any:
    return vars(holder)[name]


def _of_function(
    function: FunctionType, home: Any
) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        yield name, value, functools.partial(_content, cell)
    scope = function.__globals__
    for name in _names(function.__code__) if scope is home else ():
        if name in scope:
            yield name, scope[name], functools.partial(_global, scope, name)
    if function.__defaults__:
        yield "defaults", function.__defaults__, lambda f: f.__defaults__
    if function.__kwdefaults__:
        yield "keyword_defaults", function.__kwdefaults__, lambda f: f.__kwdefaults__


def _content(cell: Any, _: Any) -> Any:
    return cell.cell_contents


def _global(scope: dict[str, Any], name: str, _: Any) -> Any:
    return scope[name]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


class Effects:
    """The content of variables around a function, of containers, arrays and objects that it can
    reach, at this moment. Objects of the ``closed`` classes are left out."""

    def __init__(self, function: Any, closed: tuple[type, ...] = ()) -> None:
        start = Place(getattr(function, "__name__", "function"), function, lambda: function)
        reached = (p for p in places(function, closed) if not isinstance(p.value, closed))
        self._home = _home(function)
        self._before = [
            (place, content)
            for place in (start, *reached)
            if (content := _content_of(place.value, self._home)) is not None
        ]

    def changed(self) -> list[str]:
        """The names of those that have another content now."""
        return [
            place.name
            for place, before in self._before
            if not _is_same(before, _content_of(place.value, self._home))
        ]

    def restore(self) -> None:
        """Give all of them their content back."""
        for place, before in self._before:
            if not _is_same(before, _content_of(place.value, self._home)):
                _refill(place.value, before)


def _content_of(x: Any, home: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(x, Array):
        return [("value", x._adapter)]
    if isinstance(x, (list, deque, set, dict)) and len(x) > LARGE:
        return None
    if type(x) in (list, deque):
        return list(enumerate(x))
    if type(x) is set:
        return [(element, None) for element in x]
    if type(x) is dict:
        return list(x.items())
    if isinstance(x, FunctionType):
        return [(name, value) for name, value, _ in _of_function(x, home)]
    if isinstance(x, (*_CLOSED, *WRAPPERS)) or not hasattr(x, "__dict__"):
        return None
    return list(vars(x).items())


def _is_same(before: list[tuple[Any, Any]], now: list[tuple[Any, Any]] | None) -> bool:
    return (
        now is not None
        and len(before) == len(now)
        and all(
            _is_equal(a, c) and _is_equal(b, d) for (a, b), (c, d) in zip(before, now, strict=True)
        )
    )


def _is_equal(x: Any, y: Any) -> bool:
    return x is y or (type(x) is type(y) and type(x) in _PLAIN and x == y)


_PLAIN = (int, float, str, bool, bytes)


def _refill(x: Any, content: list[tuple[Any, Any]]) -> None:
    if isinstance(x, Array):
        x._adapter = content[0][1]
    elif isinstance(x, FunctionType):
        values = dict(content)
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            if name in values:
                cell.cell_contents = values[name]
        for name in _names(x.__code__):
            if name in values and name in x.__globals__:
                x.__globals__[name] = values[name]
    elif type(x) in (list, deque):
        x.clear()
        x.extend(value for _, value in content)
    elif type(x) is set:
        x.clear()
        x.update(value for value, _ in content)
    else:
        held = x if type(x) is dict else vars(x)
        held.clear()
        held.update(content)
