"""Checks of a backend's form: signatures of its methods, and no foreign names.

Arguments are passed by position, only ``donate`` by name. A backend may rename parameters, but
those with the contract's names have the contract's order.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

from fl_tensor.backend import TensorBackend
from fl_tensor.contract import OpSpec

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ABSENT = inspect.Parameter.empty


def misfit(spec: OpSpec, method: Callable[..., Any]) -> str:
    """Why ``method`` (bound) cannot be called as the contract says, or ""."""
    signature = inspect.signature(method)
    theirs = spec.parameters
    needed = [p.name for p in theirs if p.default is _ABSENT]
    by_position = [p.name for p in theirs if p.name != "donate"]
    by_name = {} if len(by_position) == len(theirs) else {"donate": False}
    for arguments, options in ((needed, {}), (by_position, by_name)):
        try:
            signature.bind(*arguments, **options)
        except TypeError as error:
            return str(error)
    names = [p.name for p in theirs]
    ours = [p for p in signature.parameters.values() if p.kind in _BY_POSITION]
    shared = [p.name for p in ours if p.name in names]
    for first, second in pairwise(shared):
        if names.index(first) > names.index(second):
            return f"{first} stands before {second}, in the contract after it"
    for own, other in zip(ours, theirs, strict=False):
        if other.default is not _ABSENT and own.default != other.default:
            return f"{own.name} is {own.default!r} by default, in the contract {other.default!r}"
    return ""


def strangers(cls: type[TensorBackend]) -> dict[str, str]:
    """The public names of the backend's classes that are none of the contract's, each with the
    name of the contract that it may be meant for, or ""."""
    own = [
        c for c in cls.__mro__ if c.__module__.partition(".")[0] != "fl_tensor" and c is not object
    ]
    known = {name for c in cls.__mro__ if c not in own for name in _names(c)}
    found = sorted({name for c in own for name in _names(c)} - known)
    return {name: "".join(get_close_matches(name, sorted(known), 1, 0.75)) for name in found}


def _names(cls: type) -> set[str]:
    stated = {*vars(cls), *vars(cls).get("__annotations__", ())}
    return {name for name in stated if not name.startswith("_")}
