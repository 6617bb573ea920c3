"""Sampled functions: convolution, correlation, slopes, integrals, interpolation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_tensor import arguments
from fl_tensor.arguments import axis_of
from fl_tensor.dispatch.frontend import ArrayLike, operand, operands_of
from fl_tensor.numpy_functions.operands import together

__all__ = ["convolve", "correlate", "gradient", "interp", "trapezoid"]

_MODES = ("full", "same", "valid")


def convolve(x: ArrayLike, y: ArrayLike, mode: str = "full") -> Any:
    """Sum over j of ``x[j] y[i - j]`` for vectors (m,) and (n,): all m + n - 1 places (``"full"``),
    as many as the longer has in the middle (``"same"``), or those where both overlap completely
    (``"valid"``)."""
    x, y = _vectors("convolve", x, y)
    if y.size > x.size:
        x, y = y, x
    return _slid("convolve", x, ft.flip(y), mode)


def correlate(x: ArrayLike, y: ArrayLike, mode: str = "valid") -> Any:
    """Sum over j of ``x[i + j] conj(y[j])`` for vectors; ``mode`` as in ``convolve``."""
    x, y = _vectors("correlate", x, y)
    if y.size > x.size:
        return ft.flip(_slid("correlate", ft.conj(y), x, mode))
    return _slid("correlate", x, ft.conj(y), mode)


def _vectors(op: str, x: ArrayLike, y: ArrayLike) -> list[Any]:
    made = operands_of(op, "NN", x, y)
    made = [ft.reshape(a, (1,)) if a.ndim == 0 else a for a in made]
    if any(a.ndim != 1 or a.size == 0 for a in made):
        shapes = " and ".join(str(a.shape) for a in made)
        raise ft.ShapeError(f"[{op}] operands {shapes}: expected two vectors with elements")
    return made


def _slid(op: str, x: Any, w: Any, mode: str) -> Any:
    # w (n,) moved along the longer x (m,), which is surrounded by zeros.
    mode = arguments.choice_of(op, mode, "mode", _MODES)
    n = w.size
    before, after = {"full": (n - 1, n - 1), "same": (n // 2, n - n // 2 - 1), "valid": (0, 0)}[
        mode
    ]
    rows, kernel = ft.reshape(x, (1, 1, -1)), ft.reshape(w, (1, 1, -1))
    return ft.reshape(ft.conv(rows, kernel, padding=[(before, after)]), (-1,))


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Any:
    """The integral along ``axis`` by the trapezoidal rule, over places ``x`` (a vector, or in the
    shape of ``y``), or over places ``dx`` apart."""
    y, x, dx = operands_of("trapezoid", "FfF", y, x, dx)
    at = axis_of("trapezoid", axis, y.shape)
    size = y.shape[at]
    before, after = _part(y, at, 0, size - 1), _part(y, at, 1, size)
    if x is not None:
        dx = ft.diff(x, axis=at if x.ndim > 1 else 0)
        dx = _along(dx, at, y.ndim) if x.ndim == 1 else dx
    return ft.sum(dx * (before + after), at) / 2.0


def gradient(
    x: ArrayLike, *spacing: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Any:
    """The slope along each axis by central differences of second order, at the ends by one-sided
    ones of order ``edge_order`` (1 or 2). A list with one array for each axis, or the array of a
    single one.

    spacing  one number for all axes, or for each axis a number or the places (a vector). Default 1

    Of samples, by finite differences (Fornberg, 1988); ``fl_autograd.grad`` is the gradient of a
    program.
    """
    x, *steps = together("gradient", x, *spacing)
    x = operand("gradient", "F", x)
    axes = tuple(range(x.ndim)) if axis is None else arguments.ints_of("gradient", axis, "axis")
    arguments.axes("gradient", axes, x.shape)  # each at most once
    axes = tuple(axis_of("gradient", a, x.shape) for a in axes)
    if len(spacing) not in (0, 1, len(axes)):
        raise ft.ArgumentError(f"[gradient] {len(spacing)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ft.ArgumentError(f"[gradient] edge_order {edge_order!r}: expected 1 or 2")
    steps = steps or [1.0]
    steps = steps * len(axes) if len(steps) == 1 else steps
    made = [_slope(x, a, step, edge_order) for a, step in zip(axes, steps, strict=True)]
    return made[0] if len(made) == 1 else made


def _slope(x: Any, axis: int, step: Any, edge_order: int) -> Any:
    size = x.shape[axis]
    if size < edge_order + 1:
        raise ft.ShapeError(
            f"[gradient] x {x.shape}: axis {axis} needs at least {edge_order + 1} elements"
        )
    _, step = operands_of("gradient", "FF", x, step)
    widths = ft.diff(step) if step.ndim else ft.broadcast_to(step, (size - 1,))
    if widths.shape != (size - 1,):
        raise ft.ShapeError(
            f"[gradient] spacing {step.shape}: expected a number or {size} places for axis {axis}"
        )
    widths = _along(widths, axis, x.ndim)
    steps = ft.diff(x, axis=axis) / widths  # slopes between neighbours
    left, right = _part(widths, axis, 0, size - 2), _part(widths, axis, 1, size - 1)
    first, second = _part(steps, axis, 0, size - 2), _part(steps, axis, 1, size - 1)
    inner = (first * right + second * left) / (left + right)
    start, end = _part(steps, axis, 0, 1), _part(steps, axis, size - 2, size - 1)
    if edge_order == 2:
        bend = (second - first) / (left + right)
        start = start - _part(bend, axis, 0, 1) * _part(widths, axis, 0, 1)
        end = end + _part(bend, axis, size - 3, size - 2) * _part(widths, axis, size - 2, size - 1)
    return ft.concatenate([start, inner, end], axis)


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: float | None = None,
) -> Any:
    """The function with values ``fp`` (n,) at ascending places ``xp`` (n,), linear between them, at
    ``x``. Beyond the ends it is ``left`` and ``right``, by default the values there; with
    ``period`` (not 0) it repeats, and the places need no order."""
    x, xp, fp, left, right = operands_of("interp", "SSFff", x, xp, fp, left, right)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.size == 0:
        raise ft.ShapeError(f"[interp] xp {xp.shape} and fp {fp.shape}: expected equal vectors")
    if period is not None:
        length = abs(arguments.float_of("interp", period, "period"))
        if length == 0:
            raise ft.ArgumentError("[interp] period 0: expected another number")
        x, xp = ft.remainder(x, length), ft.remainder(xp, length)
        order = ft.argsort(xp)
        xp, fp = ft.take(xp, order), ft.take(fp, order)
        xp = ft.concatenate([xp[-1:] - length, xp, xp[:1] + length], 0)
        fp = ft.concatenate([fp[-1:], fp, fp[:1]], 0)
        left = right = None
    if xp.size == 1:
        xp, fp = ft.concatenate([xp, xp], 0), ft.concatenate([fp, fp], 0)
    widths = ft.diff(xp)
    slopes = ft.diff(fp) / ft.where(widths > 0, widths, 1.0)
    low = ft.clip(ft.searchsorted(xp, x, "right") - 1, 0, xp.size - 2)
    made = _on_line(ft.clip(x, xp[0], xp[-1]), xp, fp, ft.take(slopes, low), low)
    made = ft.where(x == xp[-1], fp[-1], made)
    made = ft.where(x < xp[0], fp[0] if left is None else left, made)
    return ft.where(x > xp[-1], fp[-1] if right is None else right, made)


def _on_line(x: Any, xp: Any, fp: Any, slope: Any, low: Any) -> Any:
    # The value at x from the point below; beside infinities, where that is NaN, from the one above.
    (x0, x1), (y0, y1) = [(ft.take(p, low), ft.take(p, low + 1)) for p in (xp, fp)]
    from_below, from_above = y0 + (x - x0) * slope, y1 + (x - x1) * slope
    is_start = (x == x0) | (ft.isnan(from_above) & (y0 == y1) & ~ft.isnan(x))
    return ft.where(ft.isnan(from_below), ft.where(is_start, y0, from_above), from_below)


def _part(x: Any, axis: int, low: int, high: int) -> Any:
    return x[(*(slice(None),) * axis, slice(low, high))]


def _along(x: Any, axis: int, rank: int) -> Any:
    # A vector as one along ``axis`` of ``rank`` axes.
    return ft.reshape(x, [-1 if i == axis else 1 for i in range(rank)])
