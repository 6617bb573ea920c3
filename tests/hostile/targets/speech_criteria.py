"""Losses over sequences of frames: emissions, targets and lengths that do not fit."""

from __future__ import annotations

from bad_values import value
from cases import Target
from targets.making import target, x

SHAPES = [
    *[value(x(3, 4)), value(x(2, 3, 0)), value(x(2, 3, 4).astype("int64"))],
    *[value(v) for v in (None, "text", 3, [[[1.0]]])],
]
LABELS = [
    *[value([[0], [4]]), value([[0], [-2]]), value([0, 1]), value([[0]]), value([[0.5], [1.5]])],
    *[value([[0], [1, 2]]), value("ab"), value(None), value([[-1, 0], [0, 1]])],
    *[value(3), value([[[0]], [[1]]])],
]
COUNTS = [value([3]), value([3, 4]), value([3, -1]), value([1.5, 2.0]), value("ab"), value(3)]
BLANKS = [value(v) for v in (4, -5, 1.5, "1", None)]

TARGETS: list[Target] = [
    target(
        "speech.criteria.ctc_loss",
        {"0": lambda: x(2, 3, 4), "1": [[0], [1]], "2": [3, 2], "3": [1, 1]},
        _0=SHAPES,
        _1=[*LABELS, value([[0], [3]], "the blank")],
        _2=COUNTS,
        _3=COUNTS,
        infeasible="choice",
        blank=BLANKS,
        reduction="choice",
    ),
    target(
        "speech.criteria.rnnt_loss",
        {"0": lambda: x(2, 3, 2, 4), "1": [[0], [1]], "2": [3, 2], "3": [1, 1]},
        _0=[*SHAPES, value(x(2, 0, 2, 4)), value(x(2, 3, 3, 4))],
        _1=LABELS,
        _2=[*COUNTS, value([3, 0])],
        _3=COUNTS,
        blank=BLANKS,
        reduction="choice",
    ),
    target(
        "speech.criteria.CTC",
        {"scale_mode": "target", "reduction": "mean"},
        scale_mode="choice",
        reduction="choice",
        infeasible="choice",
    ),
]
UNTRIED: dict[str, str] = {"speech.criteria.Criterion": "a base class"}
