"""Cache keys that distinguish equal arguments of other types or signs: 0.0 and -0.0, 1 and True."""

from __future__ import annotations

from typing import Any


class Exact(tuple[Any, ...]):
    """A tuple that equals another only if the classes and signs of all elements are equal, too."""

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
    """The arguments as a key. A tuple of integers only, the most frequent case, is returned as it
    is."""
    return arguments if _PLAIN.issuperset(map(type, arguments)) else Exact(arguments)


_PLAIN = frozenset((int,))
