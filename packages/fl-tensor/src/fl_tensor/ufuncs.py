"""NumPy's and SciPy's ufuncs on our arrays: the function of ``fl_tensor`` that computes the same.

The protocol is NEP 13, "A mechanism for overriding ufuncs".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_tensor.arrays.value import ArrayValue
from fl_tensor.errors import ArgumentError, DTypeError

#: NumPy's names that are not ours.
_NUMPY = {
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "radians": "deg2rad",
    "right_shift": "bitwise_right_shift",
}
#: SciPy's ufuncs that have a counterpart, by their name in ``scipy.special``.
_SCIPY = {"erf": "erf", "expit": "sigmoid", "exp2": "exp2", "logit": "logit"}
_SCIPY |= {"erfinv": "erfinv", "gammaln": "lgamma", "psi": "digamma", "xlogy": "xlogy"}
#: ``np.add.reduce`` is ``ft.sum``, ``np.add.accumulate`` is ``ft.cumsum``.
_REDUCED = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_ACCUMULATED = {
    "add": "cumsum",
    "multiply": "cumprod",
    "maximum": "cumulative_max",
    "minimum": "cumulative_min",
}


def apply(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``ufunc.method(*inputs, **options)`` as our function computes it. NotImplemented beside
    another library's array, which may know better. ``out`` may be a NumPy array: ``a += x``."""
    if any(_decides(x) for x in inputs):
        return NotImplemented
    call = _written(ufunc, method)
    written = _target(call, options.pop("out", None))
    function, allowed = _found(ufunc, method)
    if function is None:
        raise DTypeError(
            f"[{call}] has no counterpart in fl_tensor: {call}(np.asarray(x)) computes it without "
            f"a gradient"
        )
    for name, value in options.items():
        if name not in allowed and not _is_default(name, value):
            raise ArgumentError(
                f"[{call}] {name}= is not for a {_kind(inputs)}: leave it out, or take "
                f"{call}(np.asarray(x), {name}=...)"
            )
    result = function(*inputs, **{k: v for k, v in options.items() if k in allowed})
    return result if written is None else _write(call, written, result)


def _decides(x: Any) -> bool:
    # Whether another library has its own way with ufuncs: pandas, for one.
    override = getattr(type(x), "__array_ufunc__", None)
    return not isinstance(x, (ArrayValue, np.ndarray, np.generic)) and override is not None


def _found(ufunc: np.ufunc, method: str) -> tuple[Callable[..., Any] | None, tuple[str, ...]]:
    """Our function, and the options that it takes."""
    name = ufunc.__name__
    if method == "reduce" and name in _REDUCED:
        return _reduction(_ours(_REDUCED[name])), ("axis", "dtype", "keepdims")
    if method == "accumulate" and name in _ACCUMULATED:
        return _scan(_ours(_ACCUMULATED[name])), ("axis", "dtype")
    home = _home(ufunc)
    names = {"np.": _NUMPY.get(name, name), "scipy.special.": _SCIPY.get(name)}
    function = _ours(names.get(home))
    if method == "outer" and function is not None:
        return _outer(function), ()
    return (function if method == "__call__" else None), ()


def _home(ufunc: np.ufunc) -> str:
    """Where a ufunc is found under its name, as it is written; "" for one of another origin."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return "np."
    special = sys.modules.get("scipy.special")
    return "scipy.special." if getattr(special, name, None) is ufunc else ""


def _written(ufunc: np.ufunc, method: str) -> str:
    call = _home(ufunc) + ufunc.__name__
    return call if method == "__call__" else f"{call}.{method}"


def _ours(name: str | None) -> Any:
    return None if name is None else getattr(ft, name, None)


def _reduction(function: Any) -> Callable[..., Any]:
    def reduced(x: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False) -> Any:
        made = function(_in(dtype, x), axis, keepdims)
        return _in(dtype, made)  # a sum of narrow integers is int64

    return reduced


def _scan(function: Any) -> Callable[..., Any]:
    return lambda x, axis=0, dtype=None: _in(dtype, function(_in(dtype, x), axis))


def _in(dtype: Any, x: Any) -> Any:
    return x if dtype is None else ft.cast(x, dtype)


def _outer(function: Any) -> Callable[..., Any]:
    def outer(x: Any, y: Any) -> Any:
        # The rank of the second operand, from whatever it is.
        rank = y.ndim if hasattr(y, "ndim") else np.ndim(y)
        x = x if isinstance(x, ArrayValue) else np.asarray(x)
        return function(ft.reshape(x, (*x.shape, *(1,) * rank)), y)

    return outer


def _is_default(name: str, value: Any) -> bool:
    # NumPy passes on what its callers write, also where it changes nothing.
    return value is None or (name in ("where", "subok") and value is True)


def _kind(inputs: tuple[Any, ...]) -> str:
    return next(type(x).__name__ for x in inputs if isinstance(x, ArrayValue))


def _target(call: str, out: tuple[Any, ...] | None) -> np.ndarray[Any, Any] | None:
    if out is None or all(x is None for x in out):
        return None
    if len(out) == 1 and isinstance(out[0], np.ndarray):
        return out[0]
    raise ArgumentError(
        f"[{call}] out= is a {type(out[0]).__name__}: tensors are values that are never written "
        f"to; take the result, x = {call}(...)"
    )


def _write(call: str, out: np.ndarray[Any, Any], result: Any) -> np.ndarray[Any, Any]:
    if type(result)._priority > 0:
        kind = type(result).__name__
        raise ArgumentError(
            f"[{call}] out= is a NumPy array and cannot hold a {kind}: write a = a + v in place of "
            f"a += v, or take the value, v.numpy()"
        )
    np.copyto(out, np.asarray(result), casting="same_kind")
    return out
