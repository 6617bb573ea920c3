"""Graphs of functions, for tests of passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_tensor as ft
from fl_tensor.graph import Graph

__all__ = ["recorded", "recorded_on"]


def recorded(
    function: Callable[..., Any], *shapes: tuple[int, ...]
) -> tuple[Graph, list[ft.Tensor]]:
    """The graph of ``function`` of float32 arrays of these shapes, and such arrays."""
    inputs = [ft.Generator(i).normal(shape) for i, shape in enumerate(shapes)]
    return recorded_on(function, *inputs), inputs


def recorded_on(function: Callable[..., Any], *inputs: ft.Tensor) -> Graph:
    """The graph of ``function`` of these arrays. What it gives, an array or a tuple of arrays,
    becomes the outputs; dead code is removed."""
    with ft.trace() as graph:
        for x in inputs:
            graph.input(x)
        result = function(*inputs)
        graph.output(*(result if isinstance(result, tuple) else (result,)))
    return graph.prune()
