"""Arguments by the names of PyTorch: ``dim=1``, ``keepdim=True``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from fl_tensor.errors import DTypeError

#: The names of the other library, each with ours or with what to write. ``{}`` is what was given.
KEYWORDS = {
    "dim": "axis={}",
    "dims": "axis={}",
    "keepdim": "keepdims={}",
    "unbiased": "correction=1, or 0 for unbiased=False",
    "input": "the array as first argument",
    "other": "the second array as second argument",
    "requires_grad": "ag.Variable(x, requires_grad=True)",
    "where": "ft.where(mask, x, 0) for the array",
}


def refuse(function: str, foreign: Mapping[str, Any]) -> NoReturn:
    """Raise DTypeError, a TypeError, for arguments that a function does not have, with ours for the
    first of them where one is known."""
    name, value = next(iter(foreign.items()))
    text = f"[{function}] there is no argument {name!r}"
    way = KEYWORDS.get(name)
    if way is None:
        raise DTypeError(text)
    shown = repr(value) if isinstance(value, (int, tuple)) else "..."
    raise DTypeError(f"{text}: write {way.format(shown)}")
