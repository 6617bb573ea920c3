"""Trees of tuples, lists and dicts: their leaves in order, and what they look like without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from fl_tensor.arrays.array import Array
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.host_numbers import HostExpression

__all__ = ["Structure", "flatten", "unflatten"]


class _Leaf(NamedTuple):
    """An array, of a class; or anything else, which is ``value``."""

    kind: type
    value: Any = None


class Structure(NamedTuple):
    """A tree without its arrays. Hashable where the plain leaves are."""

    tree: Any

    def with_plain(self, values: Iterable[Any]) -> Structure:
        """With other plain leaves, in order."""
        return Structure(_with_plain(self.tree, iter(values)))

    @property
    def expressions(self) -> list[HostExpression]:
        """The plain leaves that are computed at each call."""
        return [x.value for x in _leaves(self.tree) if isinstance(x.value, HostExpression)]

    def filled(self, arrays: Iterable[Any], numbers: Iterable[Any] = ()) -> Any:
        """The tree with these arrays, and with these values of ``expressions``."""
        remaining, computed = iter(arrays), iter(numbers)

        def value(leaf: _Leaf) -> Any:
            if leaf.value is None and issubclass(leaf.kind, Array):
                return next(remaining)
            return next(computed) if isinstance(leaf.value, HostExpression) else leaf.value

        return _map(self.tree, value)


class _Branch(NamedTuple):
    kind: type
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a tree, and its structure. Classes other than tuple (named ones too), list and
    dict are leaves. Raises ArgumentError for a tree that contains itself."""
    leaves: list[Any] = []
    try:
        return leaves, Structure(_structure(tree, leaves))
    except RecursionError:
        raise ArgumentError("[compile] the arguments contain themselves") from None


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree with these leaves, of all kinds."""
    remaining = iter(leaves)
    return _map(structure.tree, lambda _: next(remaining))


def _structure(tree: Any, leaves: list[Any]) -> Any:
    kind = type(tree)
    if isinstance(tree, tuple) and (kind is tuple or hasattr(tree, "_fields")):
        return _Branch(kind, (), tuple([_structure(part, leaves) for part in tree]))
    if kind is list:
        return _Branch(list, (), tuple([_structure(part, leaves) for part in tree]))
    if kind is dict:
        parts = tuple([_structure(part, leaves) for part in tree.values()])
        return _Branch(dict, tuple(tree), parts)
    leaves.append(tree)
    if isinstance(tree, Array):
        return _Leaf(kind)
    return _Leaf(kind, None if kind is float else tree)


def _map(tree: Any, function: Any) -> Any:
    if isinstance(tree, _Leaf):
        return function(tree)
    parts = [_map(part, function) for part in tree.parts]
    if tree.kind is list:
        return parts
    if tree.kind is dict:
        return dict(zip(tree.keys, parts, strict=True))
    return tuple(parts) if tree.kind is tuple else tree.kind(*parts)


def _with_plain(tree: Any, remaining: Iterator[Any]) -> Any:
    if isinstance(tree, _Leaf):
        return tree if issubclass(tree.kind, Array) else _Leaf(tree.kind, next(remaining))
    return tree._replace(parts=tuple([_with_plain(part, remaining) for part in tree.parts]))


def _leaves(tree: Any) -> Iterator[_Leaf]:
    if isinstance(tree, _Leaf):
        yield tree
    else:
        for part in tree.parts:
            yield from _leaves(part)
