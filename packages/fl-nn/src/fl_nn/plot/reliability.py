"""Reliability diagrams: accuracy over confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fl_tensor as ft
from fl_nn.meters import CalibrationMeter
from fl_nn.plot import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability(
    meter: CalibrationMeter, *, title: str | None = None, path: figures.AnyPath | None = None
) -> Figure:
    """The accuracy of each bin of confidence, and the share of samples in it below. A calibrated
    model has its bars on the diagonal. Raises ArgumentError for a meter without samples."""
    bins = meter.reliability
    total = sum(one.samples for one in bins)
    if not total:
        raise ft.ArgumentError("[plot.reliability] nothing was added to the meter")
    figure = figures.new("reliability", 4.4, 5.2, title)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    filled = [one for one in bins if one.samples]
    middles, width = [(one.low + one.high) / 2 for one in filled], 0.95 / len(bins)
    means, accuracies = [one.confidence for one in filled], [one.accuracy for one in filled]
    upper.bar(middles, accuracies, width, label=f"error {meter.value:.3f}")
    upper.plot([0, 1], [0, 1], color="black", linewidth=1, linestyle="--", label="_")
    upper.plot(means, accuracies, "o", color="tab:red", label="mean confidence")
    upper.set_ylabel("accuracy")
    upper.set_xlim(0, 1)
    upper.set_ylim(0, 1)
    upper.legend(loc="upper left")
    lower.bar(middles, [one.samples / total for one in filled], width)
    lower.set_ylabel("samples, share")
    lower.set_xlabel("confidence")
    return figures.finished("reliability", figure, path)
