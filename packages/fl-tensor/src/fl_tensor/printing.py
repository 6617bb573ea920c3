"""How numbers are printed: NumPy's rules and names, ``ft.set_printoptions`` and its kind.

The options are ours: those of ``np.set_printoptions`` do not change how tensors print.
"""

from __future__ import annotations

import math
import sys
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from fl_tensor.arguments import choice_of, flag_of, int_of
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.settings import ContextSetting

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]

#: Each option with NumPy's default.
_DEFAULTS: dict[str, Any] = {
    "precision": 8,
    "threshold": 1000,
    "edgeitems": 3,
    "linewidth": 75,
    "suppress": False,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "floatmode": "maxprec",
}
#: The smallest value of those that are ints.
_LEAST = {"precision": 0, "threshold": 0, "edgeitems": 1, "linewidth": 1}
_CHOICES = {"sign": ("-", "+", " "), "floatmode": ("fixed", "unique", "maxprec", "maxprec_equal")}

_options = ContextSetting("fl_tensor_printoptions", MappingProxyType(_DEFAULTS))


def set_printoptions(**options: Any) -> None:
    """Set how tensors print in this process, inside a ``printoptions`` block until that ends;
    options that are not given stay.

    precision  digits after the point, at most (8)
    threshold  arrays with more elements are summarised (1000); ``math.inf`` for none
    edgeitems  elements at each end of an axis in a summary (3)
    linewidth  characters of a line (75)
    suppress   True: no exponents (False)
    nanstr     what NaN prints as ("nan")
    infstr     what infinity prints as ("inf")
    sign       "-" shows signs of negative numbers, "+" of all, " " a space in place of "+"
    floatmode  "maxprec", "maxprec_equal", "fixed" or "unique", see ``np.set_printoptions``

    Raises ArgumentError for an unknown option and for a value out of range, DTypeError for a value
    of another kind.
    """
    _options.set_here(_changed("set_printoptions", options))


def get_printoptions() -> dict[str, Any]:
    """The options that hold here, by name."""
    return dict(_options.get())


def printoptions(**options: Any) -> AbstractContextManager[Any]:
    """``with ft.printoptions(precision=3):`` options of ``set_printoptions`` for this context,
    until the block ends."""
    return _options.within(_changed("printoptions", options))


def _changed(where: str, options: dict[str, Any]) -> MappingProxyType[str, Any]:
    checked = {name: _checked(where, name, value) for name, value in options.items()}
    return MappingProxyType({**_options.get(), **checked})


def _checked(where: str, name: str, value: Any) -> Any:
    if name not in _DEFAULTS:
        raise ArgumentError(f"[{where}] no option {name!r}: there are {', '.join(_DEFAULTS)}")
    if name in _CHOICES:
        return choice_of(where, value, name, _CHOICES[name])
    if name == "suppress":
        return flag_of(where, value, name)
    if name not in _LEAST:
        if not isinstance(value, str):
            raise DTypeError(f"[{where}] {name} {value!r}: expected a string")
        return value
    if name == "threshold" and value == math.inf:
        return sys.maxsize
    number = int_of(where, value, name)
    if number < _LEAST[name]:
        raise ArgumentError(f"[{where}] {name} {number}: expected {_LEAST[name]} or more")
    return number
