"""Bars in groups, of benchmarks for example."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_nn.plot import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def bars(
    groups: Mapping[str, Mapping[str, float]],
    *,
    line: float | None = None,
    ylabel: str = "",
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """A group for each row of ``groups``, a bar with its value for each of ``{name: value}`` in it.

    Bars of one name have one colour. ``line`` draws a horizontal line, where two sides are equal
    for example. Raises ArgumentError without any bar, and for a value that is not finite.
    """
    names = list(dict.fromkeys(name for row in groups.values() for name in row))
    if not names:
        raise ft.ArgumentError("[plot.bars] there are no bars")
    for group, row in groups.items():
        for name, value in row.items():
            if not math.isfinite(value):
                raise ft.ArgumentError(f"[plot.bars] {group}, {name}: {value} is not finite")
    total = sum(map(len, groups.values()))
    figure = figures.new("bars", max(0.42 * (total + len(groups)) + 1.2, 6.4), 4.2, title)
    axes = figure.add_subplot()
    at, middles = 0.0, []
    places: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for row in groups.values():
        middles.append(at + (len(row) - 1) / 2)
        for name, value in row.items():
            places[name].append((at, value))
            at += 1
        at += 1
    for name, found in places.items():
        made = axes.bar([x for x, _ in found], [y for _, y in found], width=0.9, label=name)
        axes.bar_label(made, fmt="%.2f", fontsize=7)
    if line is not None:
        axes.axhline(line, color="black", linewidth=1, zorder=0)
    axes.set_xticks(middles, list(groups))
    axes.tick_params(axis="x", length=0)
    axes.set_ylabel(ylabel)
    axes.margins(y=0.1)
    axes.legend(ncols=min(len(names), 5), loc="upper center", bbox_to_anchor=(0.5, -0.1))
    return figures.finished("bars", figure, path)
