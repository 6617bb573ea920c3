"""Arguments that are equal, and not the same: 0.0 and -0.0, 1 and True. What is found again by its
arguments is not to be found by others."""

from __future__ import annotations

from typing import Any


class Exact(tuple[Any, ...]):
    """A tuple that equals those whose elements have the same classes and signs, too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, other) is True and _kinds(self) == _kinds(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def _kinds(x: Any) -> Any:
    if isinstance(x, tuple):
        return [_kinds(element) for element in x]
    kind = x.__class__
    return repr(x) if kind is complex or (kind is float and not x) else kind


def exact(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same as a key; a tuple of integers alone, which is most of them, as it is."""
    return arguments if _PLAIN.issuperset(map(type, arguments)) else Exact(arguments)


_PLAIN = frozenset((int,))
