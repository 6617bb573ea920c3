"""ASG, linear segmentation, and paths with transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_speech import criteria
from targets.making import target, x

EMISSIONS = [
    *[value(v) for v in (None, "text", 3, [[[1.0]]], np.ones((1, 3, 2)))],
    *[value(ft.ones(s), f"of shape {s}") for s in ((3, 2), (1, 3, 0), (1, 3, 4))],
    value(ft.ones((1, 3, 2), dtype="int64"), "integers"),
]
TRANSITIONS = [
    *[value(v) for v in (None, "text", 0.5, [[0.0, 0.0], [0.0, 0.0]])],
    *[value(ft.ones(s), f"of shape {s}") for s in ((2,), (3, 3), (1, 2, 2))],
    value(ft.ones((2, 2), dtype="int64"), "integers"),
]
LABELS = [
    *[value(v) for v in ([[2]], [[-1, 1]], [[0.5]], [1], [[1], [1]], [[[1]]], "text", None, 3)],
    value(np.array([[True]]), "bools"),
]
COUNTS = [value(v) for v in ([4], [-1], [1.5], [1, 1], "text", ["a"], [None], 1)]
NAN = value(ft.full((1, 3, 2), float("nan")), "NaN")
OPTIONS: dict[str, Any] = {"classes": "positive", "scale_mode": "choice", "reduction": "choice"}
BATCH: dict[str, Any] = {"emissions": x(1, 3, 2), "targets": [[1]], "transitions": x(2, 2)}
TOO_LONG = value([[0, 1, 0, 1]], "more labels than frames")
EMPTY = value([[-1]], "no labels")


def batch(name: str, good: dict[str, Any], **kinds: Any) -> Target:
    kinds = {"emissions": EMISSIONS, "transitions": TRANSITIONS, "input_lengths": COUNTS} | kinds
    return target(f"speech.criteria.{name}", good, **kinds)


FREE = {key: value for key, value in BATCH.items() if key != "targets"}
TARGETED: dict[str, Any] = {
    "targets": [*LABELS, EMPTY],
    "target_lengths": [*COUNTS[1:], value([2])],
}
TARGETS: list[Target] = [
    batch("asg_loss", BATCH, **TARGETED, infeasible="choice", reduction="choice"),
    batch("force_alignment_score", BATCH, **TARGETED, infeasible="choice"),
    batch("full_connection_score", FREE),
    batch("viterbi_path", FREE, emissions=[*EMISSIONS, NAN]),
    *(
        batch(name, BATCH, **TARGETED | {"targets": [*LABELS, EMPTY, TOO_LONG]})
        for name in ("forced_path", "forced_places")
    ),
    target(
        "speech.criteria.stretch_targets",
        {"targets": [[1]], "input_lengths": [3]},
        targets=[v for v in LABELS if v.label not in ("[[2]]", "[[-1, 1]]")],
        input_lengths=[*COUNTS[1:], value(None)],
        target_lengths=[value([2]), *COUNTS[1:]],
    ),
    *(
        target(
            f"speech.criteria.{name}",
            {"classes": 2},
            **OPTIONS,
            transdiag=[value(v) for v in (float("nan"), float("inf"), "1", None, [1.0])],
            infeasible="choice",
        )
        for name in ("ASG", "FullConnection", "ForceAlignment", "LinearSegmentation")
    ),
    *(
        target(
            f"speech.criteria.{name} of a batch",
            {"0": x(1, 3, 2), "1": [[1]]},
            call=getattr(criteria, name)(2),
            _0=[bad for bad in EMISSIONS if not bad.label.startswith("array")],  # modules take them
            _1=LABELS if name != "FullConnection" else [],
        )
        for name in ("ASG", "FullConnection", "ForceAlignment", "LinearSegmentation")
    ),
]
UNTRIED: dict[str, str] = {}
