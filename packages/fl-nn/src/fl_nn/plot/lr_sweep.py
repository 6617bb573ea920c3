"""The loss over learning rates."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_nn.plot import figures
from fl_nn.training import LRSweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def lr_sweep(
    sweep: LRSweep, *, title: str | None = None, path: figures.AnyPath | None = None
) -> Figure:
    """What ``nn.find_lr`` found: losses over rates, their mean, and the rate that it suggests.

    Raises ArgumentError for a sweep without a step.
    """
    if not sweep.rates:
        raise ft.ArgumentError("[plot.lr_sweep] the sweep has no steps")
    figure = figures.new("lr_sweep", 6.4, 4.0, title)
    axes = figure.add_subplot()
    (behind,) = axes.plot(sweep.rates, sweep.losses, alpha=0.3, label="_")
    axes.plot(sweep.rates, sweep.smoothed, color=behind.get_color(), label="mean loss")
    if math.isfinite(sweep.suggested):
        words = f"suggested: {sweep.suggested:.2g}"
        axes.axvline(sweep.suggested, color="tab:red", linewidth=1, label=words)
    # Of a loss that diverges the last values would hide the others.
    low, high = min(sweep.smoothed), sweep.smoothed[0]
    span = (high - low) or 1.0
    axes.set_ylim(low - 0.1 * span, high + 0.5 * span)
    axes.set_xscale("log")
    axes.set_xlabel("learning rate")
    axes.set_ylabel("loss")
    axes.grid(alpha=0.3)
    axes.legend()
    return figures.finished("lr_sweep", figure, path)
