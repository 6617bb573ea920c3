"""Figures of runs over epochs or steps."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import fl_tensor as ft
from fl_nn.plot import figures
from fl_nn.smoothing import smoothed
from fl_nn.training.log import JsonLog

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Records as in ``Trainer.history``, the path of a ``log.jsonl``, or values by name.
Run: TypeAlias = "Sequence[Mapping[str, Any]] | str | os.PathLike[str] | Mapping[str, Any]"

#: What a record holds besides figures of the run.
_ABOUT = frozenset(("event", "epoch", "step", "batch", "seconds"))
_PARTS = ("train", "valid")
#: Up to so many points each has a marker; more would hide the line.
_MARKED = 40


def curves(
    runs: Run | Mapping[str, Run],
    *,
    metrics: Sequence[str] | None = None,
    by: str = "epoch",
    smooth: float = 0.0,
    log: Iterable[str] = (),
    labels: Mapping[str, str] | None = None,
    title: str | None = None,
    path: figures.AnyPath | None = None,
) -> Figure:
    """Axes for each metric, with a line for each run and part.

    runs     one run, or several by name. A run is what a ``Trainer`` has (``history``) or writes
             (the path of ``log.jsonl``), or arrays of values by the names of metrics
    metrics  which, as in ``["loss", "accuracy"]``: ``train_loss`` and ``valid_loss`` are two lines
             in the axes of ``loss``. By default all but the learning rate
    by       "epoch" or "step": which records are drawn, and over what
    smooth   0 to below 1: the weight of the past in an exponential mean; the values themselves
             stay visible behind it. Its bias to the beginning is removed as in Adam (Kingma and
             Ba, 2015)
    log      metrics with a logarithmic axis
    labels   other names for metrics and parts: ``{"accuracy": "accuracy, %", "valid": "test"}``

    Values that are not finite are gaps. Raises ArgumentError for a metric that no run has, and
    for runs without any figure.
    """
    if by not in ("epoch", "step"):
        raise ft.ArgumentError(f"[plot.curves] by={by!r}: expected 'epoch' or 'step'")
    if not 0 <= smooth < 1:
        raise ft.ArgumentError(f"[plot.curves] smooth={smooth}: expected 0 <= smooth < 1")
    named: Mapping[str, Any] = runs if _are_named(runs) else {"": runs}  # type: ignore[assignment]
    lines = {name: _lines(run, by) for name, run in named.items()}
    found = list(dict.fromkeys(_metric(key) for run in lines.values() for key in run))
    shown = [name for name in found if name != "lr"] if metrics is None else list(metrics)
    missing = [name for name in shown if name not in found]
    if missing or not shown:
        said = f"no metric {missing[0]!r}" if missing else "nothing to draw"
        raise ft.ArgumentError(
            f"[plot.curves] {said} by {by}; there are: {', '.join(found) or 'none'}"
        )
    called = dict(labels or {})
    figure = figures.new("curves", 5.0 * len(shown), 3.8, title)
    for number, metric in enumerate(shown):
        axes = figure.add_subplot(1, len(shown), number + 1)
        for name, run in lines.items():
            for key, points in run.items():
                if _metric(key) == metric:
                    part = key.partition("_")[0] if key != metric else ""
                    words = " ".join(filter(None, (name, called.get(part, part))))
                    _draw(axes, points, words, smooth)
        axes.set_xlabel(by)
        axes.set_ylabel(called.get(metric, metric))
        axes.grid(alpha=0.3)
        if metric in log:
            axes.set_yscale("log")
        axes.xaxis.get_major_locator().set_params(integer=True)
        if axes.get_legend_handles_labels()[1]:
            axes.legend()
    return figures.finished("curves", figure, path)


def _are_named(runs: Any) -> bool:
    """Whether these are runs by name, and not values by name."""
    if not isinstance(runs, Mapping):
        return False
    each = next(iter(runs.values()), None)
    records = isinstance(each, Sequence) and bool(each) and isinstance(each[0], Mapping)
    return records or isinstance(each, (Mapping, str, os.PathLike))


def _metric(key: str) -> str:
    part, _, metric = key.partition("_")
    return metric if part in _PARTS and metric else key


def _lines(run: Run, by: str) -> dict[str, tuple[list[float], list[float]]]:
    """Each figure of a run, with the epochs or steps at which it was taken."""
    if isinstance(run, Mapping):
        columns = {name: figures.array("curves", name, x, 1).tolist() for name, x in run.items()}
        return {name: (list(range(1, len(x) + 1)), x) for name, x in columns.items()}
    if isinstance(run, (str, os.PathLike)):
        run = [record for record in JsonLog(run).read() if record["event"] == by]
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for number, record in enumerate(run):
        for key, value in record.items():
            if key in _ABOUT or not (value is None or type(value) in (int, float)):
                continue
            places, values = lines.setdefault(key, ([], []))
            places.append(record.get(by, number + 1))
            values.append(math.nan if value is None else float(value))
    return lines


def _draw(axes: Axes, points: tuple[list[float], list[float]], words: str, smooth: float) -> None:
    places, values = points[0], [x if math.isfinite(x) else math.nan for x in points[1]]
    marker = "o" if len(values) <= _MARKED else ""
    options: dict[str, Any] = {"label": words or "_", "marker": marker, "markersize": 4}
    if smooth:
        (behind,) = axes.plot(places, values, alpha=0.3, label="_")
        values, options = smoothed(values, smooth), options | {"color": behind.get_color()}
    axes.plot(places, values, **options)
