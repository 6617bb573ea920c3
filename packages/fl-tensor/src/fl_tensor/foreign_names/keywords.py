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
}
#: For ``where=mask`` of NumPy's reductions: what an element that is left out becomes.
_LEFT_OUT = {
    "sum": "0",
    "prod": "1",
    "max": "-ft.inf",
    "min": "ft.inf",
    "any": "False",
    "all": "True",
}
#: Those that have a twin without NaN, and the twin.
_WITHOUT_NAN = {name: f"nan{name}" for name in ("mean", "std", "var")}
_WITHOUT_NAN |= {
    f"nan{name}": f"nan{name}" for name in (*_WITHOUT_NAN, "sum", "prod", "max", "min")
}


def refuse(function: str, foreign: Mapping[str, Any]) -> NoReturn:
    """Raise DTypeError, a TypeError, for arguments that a function does not have, with ours for the
    first of them where one is known."""
    name, value = next(iter(foreign.items()))
    text = f"[{function}] there is no argument {name!r}"
    way = _where_advice(function) if name == "where" else KEYWORDS.get(name)
    if way is None:
        raise DTypeError(text)
    shown = repr(value) if isinstance(value, (int, tuple)) else "..."
    raise DTypeError(f"{text}: write {way.format(shown)}")


def _where_advice(function: str) -> str | None:
    """What to write for ``where=mask``; None for functions that have none in NumPy."""
    if function in _LEFT_OUT:
        return f"ft.{function}(ft.where(mask, x, {_LEFT_OUT[function]}))"
    twin = _WITHOUT_NAN.get(function)
    return twin and f"ft.{twin}(ft.where(mask, x, ft.nan))"
