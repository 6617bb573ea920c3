"""Structures of arguments and results in files: JSON, and whether arguments have one."""

from __future__ import annotations

from typing import Any, NoReturn

from fl_tensor.arrays.array import Array
from fl_tensor.arrays.tensor import Tensor
from fl_tensor.errors import ArgumentError
from fl_tensor.graph.host_numbers import HostExpression
from fl_tensor.graph.pytree import Structure, _Branch, _Leaf
from fl_tensor.graph.serialize import _decode, _encode

__all__ = ["count", "expressions", "is_plain", "leaves_of", "read", "write"]

#: Steps from the whole to an array.
DEPTH = 64
_KINDS: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict}


def write(structure: Structure) -> Any:
    """A structure as JSON: named tuples as plain ones. Raises ArgumentError for what JSON cannot
    hold."""
    return _written(structure.tree)


def _written(tree: Any) -> Any:
    if isinstance(tree, _Leaf):
        if issubclass(tree.kind, Array):
            return "array"
        if tree.kind is float and tree.value is None:
            return "float"
        return {"value": _encode(tree.value)}
    parts = [_written(part) for part in tree.parts]
    if tree.kind is dict:
        return {"dict": [[_encode(k), part] for k, part in zip(tree.keys, parts, strict=True)]}
    return {"list" if tree.kind is list else "tuple": parts}


def read(data: Any) -> Structure:
    """What ``write`` wrote. Raises ArgumentError, or an error of Python, for anything else."""
    return Structure(_read(data, 0))


def _read(data: Any, depth: int) -> Any:
    if depth > DEPTH:
        raise ArgumentError(f"a structure is more than {DEPTH} deep")
    if data == "array":
        return _Leaf(Tensor)
    if data == "float":
        return _Leaf(float)
    ((kind, content),) = data.items()
    if kind == "value":
        value = _decode(content)
        return _Leaf(type(value), value)
    if not isinstance(content, list):
        raise ArgumentError(f"a {kind} of a structure is no list")
    if kind == "dict":
        keys = tuple(_decode(key) for key, _ in content)
        if len(set(keys)) != len(keys):
            raise ArgumentError("a dict of a structure has a key twice")
        return _Branch(dict, keys, tuple(_read(part, depth + 1) for _, part in content))
    return _Branch(_KINDS[kind], (), tuple(_read(part, depth + 1) for part in content))


def count(structure: Structure) -> tuple[int, int]:
    """How many arrays and floats it has, and no expressions."""
    found = _leaves(structure.tree)
    return (
        sum(issubclass(leaf.kind, Array) for leaf in found),
        sum(leaf.kind is float and leaf.value is None for leaf in found),
    )


def is_plain(arguments: Structure) -> bool:
    """Whether all arguments are arrays, and positional."""
    positional, named = arguments.tree.parts
    return not named.parts and all(
        isinstance(part, _Leaf) and part.kind is Tensor for part in positional.parts
    )


def expressions(structure: Structure) -> list[str]:
    """The sources of its expressions, in order."""
    return [leaf.value.source for leaf in _leaves(structure.tree)
            if isinstance(leaf.value, HostExpression)]  # fmt: skip


def _leaves(tree: Any) -> list[_Leaf]:
    if isinstance(tree, _Leaf):
        return [tree]
    return [leaf for part in tree.parts for leaf in _leaves(part)]


def leaves_of(structure: Structure, args: Any, kwargs: Any) -> tuple[list[Any], list[float]]:
    """The arrays and the floats of arguments. Raises ArgumentError for arguments that have another
    structure, or other plain values."""
    arrays: list[Any] = []
    floats: list[float] = []
    positional, named = structure.tree.parts
    _match(positional, args, "", arrays, floats)
    _match(named, kwargs, "", arrays, floats)
    return arrays, floats


def _match(tree: Any, given: Any, place: str, arrays: list[Any], floats: list[float]) -> None:
    if isinstance(tree, _Leaf):
        if tree.kind is Tensor:
            arrays.append((place, given))
        elif tree.kind is float and tree.value is None:
            if type(given) not in (int, float):
                _refuse(place, given, "a float")
            floats.append(float(given))
        elif type(given) is not tree.kind or given != tree.value:
            _refuse(place, given, repr(tree.value))
        return
    if tree.kind is dict:
        if not isinstance(given, dict) or given.keys() != set(tree.keys):
            names = ", ".join(map(repr, tree.keys))
            _refuse(place, given, f"a dict of {names}" if names else "no keywords")
        parts = [(f"{place}[{key!r}]" if place else str(key), given[key]) for key in tree.keys]
    else:
        if not isinstance(given, tree.kind) or len(given) != len(tree.parts):
            what = f"{tree.kind.__name__} of {len(tree.parts)}"
            _refuse(place, given, f"a {what}" if place else f"{len(tree.parts)}")
        parts = [
            (f"{place}[{i}]" if place else f"argument {i}", part) for i, part in enumerate(given)
        ]
    for inner, (where, part) in zip(tree.parts, parts, strict=True):
        _match(inner, part, where, arrays, floats)


def _refuse(place: str, given: Any, wanted: str) -> NoReturn:
    if isinstance(given, (tuple, list)):
        found = f"a {type(given).__name__} of {len(given)}" if place else f"{len(given)}"
    elif isinstance(given, dict):
        found = f"a dict of {', '.join(map(repr, given)) or 'nothing'}"
    else:
        plain = isinstance(given, (int, float, str, bool, type(None)))
        found = repr(given)[:60] if plain else f"a {type(given).__name__}"
    where = place or ("keywords" if isinstance(given, dict) else "arguments given")
    raise ArgumentError(f"[load_graph] {where}: {found}; the graph was saved for {wanted}")
