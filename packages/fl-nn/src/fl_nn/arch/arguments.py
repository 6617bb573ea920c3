"""Parsing of token arguments, by the annotations of the function that makes the layer.

    def conv(inputs: Size, outputs: Size, kernel: Size, padding: Padding = 0) -> Module: ...

takes three or four words. Annotations are `int`, `float`, `bool` (0 or 1), `str`, `tuple[int, ...]`
(with commas between), and `Annotated` with a `Kind` that limits them. `*more: Axis` takes the
remaining words. A last parameter that is a `Module` takes them as a nested layer. Numbers are
digits: nothing is evaluated.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from fl_nn.errors import ModuleError
from fl_nn.module import Module
from fl_nn.settings import COUNT, FRACTION, WHOLE, Kind

Factory = Callable[..., Any]

Size = Annotated[int, COUNT]
Whole = Annotated[int, WHOLE]
Axis = Annotated[int, Kind("an axis from 0 to 3", lambda n: 0 <= n <= 3)]
Padding = Annotated[int, Kind("a whole number, or -1 for 'same'", lambda n: n >= -1)]
Probability = Annotated[float, Kind("a number from 0 to 1", lambda p: 0.0 <= p <= 1.0)]
Share = Annotated[float, FRACTION]

#: No number in a file is larger.
LARGEST = 1_000_000_000
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "0 or 1",
    str: "a word",
    tuple: "whole numbers with commas between",
}


class Unfit(Exception):
    """A word that is no value for its argument; the message says what would be."""


@dataclass(frozen=True)
class Argument:
    """One argument of a token; `required` ones have no default."""

    name: str
    type: type
    kind: Kind | None
    default: Any
    required: bool
    variadic: bool

    @property
    def words(self) -> str:
        return _WORDS[self.type] if self.kind is None else self.kind.words

    def __str__(self) -> str:
        """As a usage line shows it."""
        if issubclass(self.type, Module):
            return f"{self.name.upper()} ..."
        if self.variadic:
            return f"[{self.name} ...]"
        default = int(self.default) if isinstance(self.default, bool) else self.default
        return self.name if self.required else f"[{self.name}={default}]"

    def value(self, text: str, names: Mapping[str, int | None]) -> Any:
        """What `text` stands for; `names` are words for numbers. Raises Unfit."""
        value = _value(text, self.type, names)
        if value is None or (self.kind is not None and not self.kind.fits(value)):
            raise Unfit(f"{self.name} must be {self.words}, not {text!r}")
        return value


@functools.lru_cache(256)
def arguments_of(factory: Factory) -> tuple[Argument, ...]:
    """The arguments in order. Keyword-only parameters are none of them. Raises ModuleError for
    annotations that no word can meet."""
    found = []
    for parameter in _parameters(factory):
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            continue
        plain, kind = _type_of(parameter.annotation)
        if plain not in _WORDS and not issubclass(plain, Module):
            raise ModuleError(
                f"[build_sequential] {factory!r}: parameter {parameter.name} is annotated "
                f"{parameter.annotation!r}; words can be int, float, bool, str, tuple[int, ...], "
                "a Module or Annotated of these"
            )
        found.append(
            Argument(
                parameter.name,
                plain,
                kind,
                parameter.default,
                parameter.default is parameter.empty
                and parameter.kind is not parameter.VAR_POSITIONAL,
                parameter.kind is parameter.VAR_POSITIONAL,
            )
        )
    return tuple(found)


def _parameters(factory: Factory) -> list[inspect.Parameter]:
    if not isinstance(factory, type):
        return list(_signature(factory).parameters.values())
    made: Any = factory  # of a class those of its __init__, which plain ones such as ReLU lack
    if made.__init__ is object.__init__:
        return []
    return list(_signature(made.__init__).parameters.values())[1:]


def _signature(function: Factory) -> inspect.Signature:
    # Annotations are evaluated: those of the program's own functions.
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, TypeError, ValueError) as error:
        raise ModuleError(f"[build_sequential] {function!r}: no signature: {error}") from error


def usage(token: str, arguments: tuple[Argument, ...]) -> str:
    """For example `L inputs outputs [bias=1]`."""
    return " ".join([token, *map(str, arguments)])


def _type_of(annotation: Any) -> tuple[type, Kind | None]:
    kind = None
    if get_origin(annotation) in (Union, types.UnionType):  # int | None
        given = [a for a in get_args(annotation) if a is not type(None)]
        annotation = given[0] if len(given) == 1 else object
    if get_origin(annotation) is Annotated:
        annotation, *extras = get_args(annotation)
        kind = next((extra for extra in extras if isinstance(extra, Kind)), None)
    plain = get_origin(annotation) or annotation
    return (plain if isinstance(plain, type) else object), kind


def _value(text: str, wanted: type, names: Mapping[str, int | None]) -> Any:
    if wanted is str:
        return text
    if wanted is bool:
        return {"0": False, "1": True}.get(text)
    if wanted is tuple:
        parts = [_value(part, int, names) for part in text.split(",")]
        return None if None in parts else tuple(parts)
    if text in names:
        if names[text] is None:
            option = {"NFEAT": "n_features", "NLABEL": "n_labels"}.get(text, text)
            raise Unfit(f"{text} stands for a number that was not given: pass {option}=")
        return wanted(names[text])
    pattern = _INTEGER if wanted is int else _NUMBER
    if len(text) > 40 or not pattern.fullmatch(text):
        return None
    value = wanted(text)
    if not (math.isfinite(value) and abs(value) <= LARGEST):
        raise Unfit(f"{text} is too large: numbers go up to {LARGEST}")
    return value
