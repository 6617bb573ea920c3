"""Helpers of all plots: an empty figure, arrays for matplotlib, a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

import fl_tensor as ft
from fl_tensor.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AnyPath: TypeAlias = "str | os.PathLike[str]"

#: Dots per inch of pixel formats.
_DPI = 150


def new(op: str, width: float, height: float, title: str | None) -> Figure:
    """An empty figure of ``width`` x ``height`` inches. Raises MissingError without matplotlib."""
    try:
        from fl_memory.plot.notebook_figure import NotebookFigure
    except ImportError as error:
        raise ft.MissingError(
            f"[plot.{op}] needs matplotlib: python -m pip install 'fl-nn[plot]', or from a clone "
            f"python -m pip install './packages/fl-nn[plot]'"
        ) from error
    made = NotebookFigure(figsize=(width, height), layout="constrained")
    if title:
        made.suptitle(title)
    return made


def finished(op: str, figure: Figure, path: AnyPath | None) -> Figure:
    """``figure``, written to ``path`` if given, all of it or nothing. Raises ArgumentError for a
    suffix that names no format, FileError where the file cannot be written."""
    if path is not None:
        suffix = os.path.splitext(os.fspath(path))[1][1:].lower()
        known = figure.canvas.get_supported_filetypes()
        if suffix not in known:
            raise ft.ArgumentError(
                f"[plot.{op}] path {os.fspath(path)!r}: expected a file name that ends in one of "
                f"{', '.join(sorted(known))}"
            )
        with replacing(path) as file:
            figure.savefig(file, format=suffix, dpi=_DPI)
    return figure


def array(op: str, name: str, x: Any, *axes: int) -> ft.Tensor:
    """``x`` as a tensor with one of these numbers of axes; DTypeError, ShapeError otherwise."""
    made = ft.asarray(x)
    if made.ndim not in axes:
        wanted = " or ".join(map(str, axes))
        raise ft.ShapeError(f"[plot.{op}] {name} {made.shape}: expected {wanted} axes")
    if made.dtype.kind == "c":
        raise ft.DTypeError(f"[plot.{op}] {name} {made.dtype}: expected real numbers")
    return made


def pixels(x: ft.Array) -> Any:
    """A tensor as matplotlib takes it: in host memory, in a dtype that every library knows."""
    return (x.astype(ft.float32) if x.dtype.is_floating else x).numpy()
