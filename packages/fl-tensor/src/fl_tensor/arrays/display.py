"""The printed forms of an array, by NumPy's rules and the options of ``fl_tensor.printing``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fl_tensor import functions
from fl_tensor.device import CPU
from fl_tensor.dtypes import bfloat16, float32
from fl_tensor.printing import get_printoptions

if TYPE_CHECKING:
    from fl_tensor.arrays.tensor import Tensor

__all__ = ["described", "ends", "html", "plain"]

#: Tables of more elements are summarised.
TABLE_THRESHOLD = 100


def plain(x: Tensor) -> str:
    """The values alone: ``[[1. 2.] [3. 4.]]``, the rows in lines. What ``str`` and ``print`` show.
    Of a tensor without values its description."""
    if not x.backend.has_values:
        return described(x)
    from fl_tensor.exchange import formatting

    array, options = _shown(x)
    return formatting.text(array, options)


def described(x: Tensor, name: str = "Tensor", more: str = "") -> str:
    """``Tensor([[1., 2.], [3., 4.]], shape=(2, 2), dtype=float32, backend=numpy)``: what ``repr``
    shows. ``name`` is that of the class, ``more`` stands at the end."""
    about = ", ".join([*(f"{what}={value}" for what, value in _facts(x)), *([more] * bool(more))])
    if not x.backend.has_values:
        return f"{name}({about})"
    from fl_tensor.exchange import formatting

    array, options = _shown(x)
    values = formatting.literal(array, options, f"{name}(")
    last = len(values) - (values.rfind("\n") + 1) + ("\n" not in values) * (len(name) + 1)
    fits = last + len(about) + 3 <= options["linewidth"]
    gap = " " if fits else "\n" + " " * (len(name) + 1)
    return f"{name}({values},{gap}{about})"


def html(x: Tensor, name: str = "Tensor", more: str = "") -> str:
    """What notebooks show: a line that says what ``x`` is, over a table of the values, or over
    their text where it has no axes, or three and more."""
    from fl_tensor.html import element, table

    facts = [*(f"{what} {value}" for what, value in _facts(x)), *([more] * bool(more))]
    caption = f"{name}: {', '.join(facts)}"
    if not x.backend.has_values:
        return element("div", caption)
    if x.ndim not in (1, 2) or not x.size:
        return element("div", caption) + element("pre", plain(x))
    from fl_tensor.exchange import formatting

    array, options = _shown(x, TABLE_THRESHOLD)
    return table(caption, (), formatting.cells(array, options))


def _facts(x: Tensor) -> list[tuple[str, Any]]:
    facts = [("shape", x.shape), ("dtype", x.dtype), ("backend", x.backend.name)]
    return facts if x.device is CPU else [*facts, ("device", x.device)]


def _shown(x: Tensor, threshold: int = sys.maxsize) -> tuple[Any, dict[str, Any]]:
    # An array in host memory whose text is that of ``x``, and the options for it.
    options = get_printoptions()
    options["threshold"] = min(options["threshold"], threshold)
    if x.device is not CPU and x.size > options["threshold"]:
        # Only what is shown is copied: one element more than the ends makes the ellipsis.
        x, options["threshold"] = ends(x, options["edgeitems"]), 0
    # Half precision of NumPy's extension has a format of its own, which aligns nothing.
    return (x.astype(float32) if x.dtype is bfloat16 else x).numpy(), options


def ends(x: Tensor, edge: int) -> Tensor:
    """``x`` without the middle of its long axes: of each ``edge + 1`` elements of the beginning and
    ``edge`` of the end. A summary of both is the same."""
    for axis, n in enumerate(x.shape):
        if n > 2 * edge + 1:
            before = (slice(None),) * axis
            parts = [x[(*before, slice(edge + 1))], x[(*before, slice(n - edge, n))]]
            x = functions.concatenate(parts, axis)
    return x
