"""Sequence-to-sequence criteria, their attention and windows."""

from __future__ import annotations

from typing import Any

import numpy as np

import fl_tensor as ft
from bad_values import value
from cases import Target
from fl_speech import criteria
from targets.making import target, x

SIZES = "positive"
ATTENTION: dict[str, Any] = {
    "ContentAttention": ({}, {"key_value": "flag"}),
    "NeuralContentAttention": ({"size": 4}, {"size": SIZES, "layers": SIZES}),
    "SimpleLocationAttention": ({"kernel": 3}, {"kernel": SIZES, "dtype": "dtype"}),
    "LocationAttention": ({"size": 4, "kernel": 3}, {"size": SIZES, "kernel": SIZES}),
    "NeuralLocationAttention": (
        {"size": 4, "hidden": 3, "channels": 2, "kernel": 3},
        dict.fromkeys(("size", "hidden", "channels", "kernel"), SIZES),
    ),
    "MultiHeadContentAttention": (
        {"size": 8, "heads": 2},
        {"size": SIZES, "heads": SIZES, "split": "flag", "generator": "generator"},
    ),
    "make_attention": (
        {"kind": "multi", "size": 8, "heads": 2},
        {"kind": "choice", "size": SIZES, "heads": SIZES},
    ),
}
RATES = [value(v) for v in (-1.0, 0.0, float("nan"), float("inf"), "1", None, [1.0])]
WINDOWS: dict[str, Any] = {
    "MedianWindow": ({"left": 2}, {"left": SIZES, "right": SIZES}),
    "StepWindow": ({}, {"min_start": "number", "max_rate": RATES}),
    "SoftWindow": ({}, {"std": RATES, "rate": RATES, "offset": "number"}),
    "SoftPretrainWindow": ({}, {"std": RATES}),
    "make_window": ({"0": "soft", "1": 2.0}, {"_0": "choice", "_1": RATES}),
}
SHARES = [value(v) for v in (-1.0, 101.0, float("nan"), "1", None, [1.0])]
CLASSES = [value(v) for v in (-1, 5, 1.5, "0", None)]
CRITERION = {
    "classes": SIZES,
    "hidden": SIZES,
    "eos": CLASSES,
    "max_length": SIZES,
    "window": [value(3), value("step"), value([])],
    "teacher_forcing": SHARES,
    "label_smoothing": SHARES,
    "scale_mode": "choice",
    "reduction": "choice",
    "layers": SIZES,
    "dropout": "fraction",
}
TARGETS_OF_A_LOSS = [
    *[value(v) for v in ([[5]], [[-1, 1]], [[0.5]], [1], [[1], [1]], [[[1]]], "text", None, 3)],
    value(np.array([[True]]), "bools"),
]
OUTPUTS = [value(v) for v in (None, "text", 3, [], (None, None))]


def seq2seq(**options: Any) -> Any:
    return criteria.Seq2Seq(5, 4, 0, max_length=3, **options)


def loss(output: Any, targets: Any, lengths: Any) -> Any:
    return seq2seq()((output, lengths), targets)


def path(output: Any, lengths: Any, size: Any) -> Any:
    return seq2seq().beam_path(output, lengths, size)


def emitting(*arguments: Any, encoded: Any, length: Any, **options: Any) -> Any:
    model = criteria.EmittingModel(*arguments, **options)
    return model(np.array([-1]), model.start(encoded, length))


def window_of(steps: Any, frames: Any, lengths: Any) -> Any:
    return criteria.StepWindow()(steps, frames, lengths)


def attend(*arguments: Any, lengths: Any) -> Any:
    return criteria.ContentAttention()(*arguments, lengths=lengths)


def selected(rows: Any) -> Any:
    model = seq2seq().eval()
    return model.decode_step(None, model.start(x(2, 3, 4)))[1].select(rows)


LENGTHS = [value(v) for v in ([0], [4], [-1], [1.5], [1, 1], "text", ["a"], 3)]
TARGETS: list[Target] = [
    *(
        target(f"speech.criteria.{name}", good, **kinds)
        for name, (good, kinds) in (ATTENTION | WINDOWS).items()
    ),
    target(
        "speech.criteria.Seq2Seq",
        {"classes": 5, "hidden": 4, "eos": 0},
        **CRITERION,
        sampling="choice",
        gumbel_temperature=RATES,
        attentions=[value(3), value("content"), value([]), value([3])],
    ),
    target(
        "speech.criteria.TransformerCriterion",
        {"classes": 5, "hidden": 4, "eos": 0},
        **CRITERION,
        heads=SIZES,
        layer_drop=[value(-1.0), value(1.0), value("1"), value(None)],
        attention=[value(3), value("content"), value([])],
    ),
    target(
        "speech.criteria.Seq2Seq of a batch",
        {"output": x(1, 3, 4), "targets": [[1]], "lengths": [3]},
        call=loss,
        output=OUTPUTS,
        targets=TARGETS_OF_A_LOSS,
        lengths=LENGTHS,
    ),
    target(
        "speech.criteria.Seq2Seq as beam_path",
        {"output": x(1, 3, 4), "lengths": [3], "size": 2},
        call=path,
        output=OUTPUTS,
        lengths=LENGTHS,
        size=SIZES,
    ),
    target(
        "speech.criteria.EmittingModel",
        {"0": seq2seq, "encoded": x(3, 4), "length": 3},
        call=emitting,
        _0=[value(None), value(3), value("text")],
        temperature=RATES,
        attention_threshold=[value(-1.0), value(float("nan")), value("1")],
        encoded=[value(None), value("text"), value(3)],
        length=[value(0), value(4), value(-1), value(1.5), value("1")],
    ),
    target(
        "speech.criteria.Window",
        {"0": lambda: ft.arange(2), "1": 3, "2": x(1)},
        call=window_of,
        _0=[value(None), value("text"), value([0])],
        _1=[value(-1), value(1.5), value("1"), value(None)],
        _2=[value(None), value("text"), value([1.0])],
    ),
    target(
        "speech.criteria.Attention",
        {"0": x(1, 2, 4), "1": x(1, 3, 4), "lengths": [3]},
        call=attend,
        _0=[value(None), value("text"), value([1.0])],
        _1=[value(None), value("text"), value([1.0])],
        lengths=LENGTHS,
    ),
    target(
        "speech.criteria.DecoderState",
        {"0": [0]},
        call=selected,
        _0=[value([2]), value([-3]), value([0.5]), value("text"), value(None)],
    ),
]
UNTRIED: dict[str, str] = {"speech.criteria.DecoderCriterion": "a base class"}
