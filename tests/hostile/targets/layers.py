"""``fl_nn``: layers, what they are called with, and losses."""

from __future__ import annotations

from typing import Any

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from cases import Target
from targets.making import ints, target, x

#: Constructors: good arguments, and the kinds of their arguments.
MADE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "Linear",
        {"inputs": 3, "outputs": 4},
        {
            "inputs": "positive",
            "outputs": "positive",
            "bias": "flag",
            "dtype": "dtype",
            "generator": "generator",
        },
    ),
    *(
        (
            f"Conv{n}D",
            {"inputs": 2, "outputs": 4, "kernel": 3},
            {
                "inputs": "positive",
                "outputs": "positive",
                "kernel": "positive",
                "stride": "positive",
                "padding": "text_only",
                "dilation": "positive",
                "groups": "positive",
                "bias": "flag",
            },
        )
        for n in (1, 2, 3)
    ),
    *(
        (
            f"ConvTranspose{n}D",
            {"inputs": 2, "outputs": 4, "kernel": 3},
            {
                "inputs": "positive",
                "outputs": "positive",
                "kernel": "positive",
                "stride": "positive",
                "output_padding": "count",
            },
        )
        for n in (1, 2, 3)
    ),
    (
        "AsymmetricConv1D",
        {"inputs": 2, "outputs": 4, "kernel": 3},
        {"kernel": "positive", "future": "fraction"},
    ),
    *((f"Pool{n}D", {"window": 2}, {"window": "positive", "mode": "choice"}) for n in (1, 2, 3)),
    *((f"AdaptiveAvgPool{n}D", {"size": 2}, {"size": "count"}) for n in (1, 2, 3)),
    (
        "Upsample",
        {"size": 3},
        {"size": "positive", "mode": "choice", "antialias": "flag"},
    ),
    ("BatchNorm", {"features": 3}, {"features": "positive", "axis": "no_axis", "eps": "rate"}),
    ("SyncBatchNorm", {"features": 3}, {"features": "positive", "axis": "no_axis", "eps": "rate"}),
    ("LayerNorm", {"shape": 3}, {"shape": "positive", "eps": "rate", "affine": "flag"}),
    ("GroupNorm", {"groups": 2, "features": 4}, {"groups": "positive", "features": "positive"}),
    ("RMSNorm", {"shape": 3}, {"shape": "positive"}),
    ("ScalarLayerNorm", {"axes": 1}, {"axes": "no_axis", "eps": "rate"}),
    ("Normalize", {"axis": 1}, {"axis": "no_axis", "p": "rate", "eps": "rate"}),
    ("PReLU", {"count": 3}, {"count": "positive", "slope": "number"}),
    ("ELU", {"alpha": 1.0}, {"alpha": "number"}),
    ("LeakyReLU", {"slope": 0.1}, {"slope": "number"}),
    ("ThresholdReLU", {"threshold": 1.0}, {"threshold": "number"}),
    ("HardTanh", {"low": -1.0, "high": 1.0}, {"low": "number", "high": "number"}),
    ("Swish", {"beta": 1.0}, {"beta": "number"}),
    ("GELU", {"approximate": "none"}, {"approximate": "choice"}),
    ("GatedLinearUnit", {"axis": -1}, {"axis": "no_axis"}),
    ("Softmax", {"axis": -1}, {"axis": "no_axis"}),
    ("LogSoftmax", {"axis": -1}, {"axis": "no_axis"}),
    ("Dropout", {"p": 0.5}, {"p": "fraction", "generator": "generator"}),
    ("Padding", {"widths": 1}, {"widths": "text_only", "mode": "choice", "value": "number"}),
    ("Embedding", {"count": 5, "size": 3}, {"count": "positive", "size": "positive"}),
    (
        "AdaptiveEmbedding",
        {"count": 9, "size": 4, "cutoffs": [3]},
        {"count": "positive", "cutoffs": "choice"},
    ),
    (
        "AdaptiveSoftMax",
        {"inputs": 8, "classes": 9, "cutoffs": [3]},
        {"inputs": "positive", "classes": "positive", "cutoffs": "choice", "div_value": "rate"},
    ),
    (
        "AdaptiveSoftMaxLoss",
        {"activation": lambda: nn.AdaptiveSoftMax(8, 9, [3])},
        {"activation": "module", "reduction": "choice"},
    ),
    *(
        (
            name,
            {"inputs": 3, "hidden": 2},
            {
                "inputs": "positive",
                "hidden": "positive",
                "layers": "positive",
                "dropout": "fraction",
            },
        )
        for name in ("RNN", "LSTM", "GRU")
    ),
    (
        "MultiHeadAttention",
        {"size": 4, "heads": 2},
        {"size": "positive", "heads": "positive", "dropout": "fraction", "relative": "count"},
    ),
    (
        "TransformerEncoderLayer",
        {"size": 4, "heads": 2, "hidden": 8},
        {
            "size": "positive",
            "heads": "positive",
            "hidden": "positive",
            "dropout": "fraction",
            "activation": "choice",
            "layer_drop": "fraction",
        },
    ),
    (
        "TransformerDecoderLayer",
        {"size": 4, "heads": 2, "hidden": 8},
        {"size": "positive", "heads": "positive", "dropout": "fraction", "activation": "choice"},
    ),
    (
        "Conformer",
        {"size": 4, "heads": 2, "hidden": 8, "kernel": 3},
        {"size": "positive", "heads": "positive", "kernel": "positive", "dropout": "fraction"},
    ),
    (
        "TDSBlock",
        {"channels": 2, "kernel": 3, "width": 2},
        {"channels": "positive", "kernel": "positive", "width": "positive", "dropout": "fraction"},
    ),
    (
        "SpecAugment",
        {},
        {
            "time_warp": "count",
            "frequency_width": "count",
            "time_share": "fraction",
            "fill": "choice",
        },
    ),
    ("RawWavSpecAugment", {}, {"time_share": "fraction", "rate": "rate", "bands": "positive"}),
    ("PositionEmbedding", {"count": 5, "size": 4}, {"count": "positive", "size": "positive"}),
    ("SinusoidalPositionEmbedding", {"size": 4}, {"size": "positive", "scale": "number"}),
    (
        "RelativePositionEmbedding",
        {"reach": 3, "size": 4},
        {"reach": "positive", "size": "positive"},
    ),
    ("RotaryEmbedding", {"size": 4}, {"size": "positive", "base": "rate"}),
    ("Flatten", {}, {"start": "no_axis", "end": "no_axis"}),
    ("View", {"shape": (-1, 3)}, {"shape": "choice"}),
    ("Reorder", {"axes": (1, 0)}, {"axes": "no_axis"}),
    ("Cast", {"dtype": "float32"}, {"dtype": "dtype"}),
    ("FourAxes", {"module": lambda: nn.Linear(3, 3)}, {"module": "module"}),
    ("Residual", {"0": lambda: nn.Linear(3, 3)}, {"_0": "module", "shortcuts": "iterable"}),
    ("Sequential", {"0": lambda: nn.Linear(3, 3)}, {"_0": "module"}),
    (
        "WeightNorm",
        {"module": lambda: nn.Linear(3, 3)},
        {"module": "module", "axis": "no_axis", "name": "string"},
    ),
    (
        "SpectralNorm",
        {"module": lambda: nn.Linear(3, 3)},
        {"module": "module", "axis": "no_axis", "name": "string", "iterations": "positive"},
    ),
    ("Transform", {"function": lambda: ft.exp}, {"function": "callable"}),
    ("Parameter", {"value": x}, {"value": "required_array"}),
    ("SparseParameter", {"value": x}, {"value": "required_array"}),
    *(
        (name, {}, {"reduction": "choice"})
        for name in "BinaryCrossEntropy BinaryCrossEntropyWithLogits CosineEmbeddingLoss FocalLoss "
        "HuberLoss KLDivergence MeanAbsoluteError MeanSquaredError".split()
    ),
    *(
        (
            name,
            {},
            {
                "reduction": "choice",
                "label_smoothing": "fraction",
                "ignore_index": "text_only",
                "axis": "no_axis",
            },
        )
        for name in ("CategoricalCrossEntropy", "CrossEntropy", "NLLLoss")
    ),
]

#: Layers and the shape of what they take; each is called with what is no array.
CALLED: dict[str, tuple[Any, Any]] = {
    "nn.Linear": (lambda: nn.Linear(3, 4), x),
    "nn.Conv2D": (lambda: nn.Conv2D(2, 3, 2), lambda: x(1, 2, 4, 4)),
    "nn.BatchNorm": (lambda: nn.BatchNorm(3), x),
    "nn.LayerNorm": (lambda: nn.LayerNorm(3), x),
    "nn.LSTM": (lambda: nn.LSTM(3, 2), lambda: x(2, 2, 3)),
    "nn.MultiHeadAttention": (lambda: nn.MultiHeadAttention(4, 2), lambda: x(2, 3, 4)),
    "nn.Embedding": (lambda: nn.Embedding(5, 3), ints),
    "nn.ReLU": (nn.ReLU, x),
    "nn.ReLU6": (nn.ReLU6, x),
    "nn.Tanh": (nn.Tanh, x),
    "nn.Sigmoid": (nn.Sigmoid, x),
    "nn.Softplus": (nn.Softplus, x),
    "nn.Log": (nn.Log, x),
    "nn.Dropout": (nn.Dropout, x),
    "nn.Sequential": (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU()), x),
}

LOSSES: dict[str, dict[str, Any]] = {
    "mse": {"predictions": x, "targets": x},
    "mae": {"predictions": x, "targets": x},
    "huber": {"predictions": x, "targets": x},
    "kl_div": {"log_probs": lambda: ft.log_softmax(x()), "targets": lambda: ft.softmax(x())},
    "focal": {"logits": x, "targets": x},
    "binary_cross_entropy": {"probs": lambda: x() * 0.5, "targets": x},
    "binary_cross_entropy_with_logits": {"logits": x, "targets": x},
    "cosine_embedding": {"x": x, "y": x, "targets": lambda: x(2)},
    "cosine_similarity": {"x": x, "y": x},
}


def _loss(name: str, good: dict[str, Any]) -> Target:
    kinds: dict[str, Any] = dict.fromkeys(good, "required_array")
    if name != "cosine_similarity":
        kinds["reduction"] = "choice"
    return target(f"nn.{name}", good, **kinds)


TARGETS: list[Target] = [
    *(target(f"nn.{name}", good, **kinds) for name, good, kinds in MADE),
    *(
        target(
            f"{name} called", {"0": good}, call=lambda x, make=make: make()(x), _0="required_array"
        )
        for name, (make, good) in CALLED.items()
    ),
    *(_loss(name, good) for name, good in LOSSES.items()),
    target(
        "nn.attention",
        {k: lambda: x(1, 2, 3, 4) for k in "qkv"},
        q="required_array",
        k="required_array",
        v="required_array",
        mask="array",
        bias="array",
    ),
    target(
        "nn.interpolate",
        {"x": lambda: x(1, 2, 3, 4), "size": 2},
        x="required_array",
        size="positive",
        mode="choice",
        antialias="flag",
    ),
    target(
        "nn.derive_padding",
        {"size": 5, "window": 3},
        size="positive",
        window="positive",
        stride="positive",
        padding="text_only",
    ),
    target(
        "nn.convert_sync_batchnorm",
        {"model": lambda: nn.BatchNorm(3), "communicator": dist.local},
        model="module",
        communicator="module",
    ),
    target("nn.summary", {"0": lambda: nn.Linear(3, 4), "1": (2, 3)}, _0="module", _1="shape"),
    target("nn.num_total_params", {"model": lambda: nn.Linear(3, 4)}, model="module"),
    target(
        "nn.from_config", {"config": lambda: nn.config.to_config(nn.Linear(3, 4))}, config="mapping"
    ),
    target("nn.evaluating", {"model": lambda: nn.Linear(3, 4)}, model="module"),
    target(
        "nn.all_params_close",
        {"first": lambda: nn.ReLU(), "second": lambda: nn.ReLU()},
        first="module",
        second="module",
    ),
]
for _name in ("cross_entropy", "categorical_cross_entropy", "nll_loss"):
    TARGETS.append(
        target(
            f"nn.{_name}",
            {"0": lambda: ft.log_softmax(x()), "targets": lambda: ints(2)},
            _0="required_array",
            targets="required_array",
            reduction="choice",
            ignore_index="text_only",
            label_smoothing="fraction",
            axis="no_axis",
        )
    )
UNTRIED: dict[str, str] = {
    "nn.Module": "a base class: its layers are tried",
    "nn.Identity": "takes anything, and gives it back",
}
