"""The tokens: construction of a layer from the words of a line.

Flashlight's tensors are column-major, with axes {width or time, height or frequency, channels,
batch}; ours are row-major, (batch, channels, height, width). The same memory, read the other way:
axis i there is axis 3 - i here, -1 - i where there are fewer than four.
"""

from __future__ import annotations

from typing import Annotated

from fl_nn.arch import sequences
from fl_nn.arch.arguments import Axis, Factory, Padding, Probability, Size, Whole
from fl_nn.errors import ModuleError
from fl_nn.layers import activations, adaptive, asymmetric, conv, norm, pool
from fl_nn.layers import shape as shapes
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.embedding import Embedding
from fl_nn.layers.four_axes import FourAxes
from fl_nn.layers.linear import Linear
from fl_nn.layers.weight_norm import WeightNorm
from fl_nn.module import Module
from fl_nn.settings import Kind

_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}

ViewSize = Annotated[int, Kind("a size, 0 (as in the input) or -1 (the rest)", lambda n: n >= -1)]
Precision = Annotated[str, Kind("f16, bf16, f32 or f64", _DTYPES.__contains__)]
Cutoffs = Annotated[
    tuple[int, ...],
    Kind(
        "two or more rising numbers with commas between, such as 10000,50000",
        lambda ends: len(ends) > 1 and ends[0] > 0 and all(a < b for a, b in zip(ends, ends[1:])),
    ),
]


def _axis(original: int) -> int:
    return -1 - original


def _padding(number: int) -> int | str:
    return "same" if number == -1 else number


# ---- shapes --------------------------------------------------------------------------------------


def view(width: ViewSize, height: ViewSize, channels: ViewSize, batch: ViewSize) -> Module:
    return shapes.View((batch, channels, height, width), from_end=True)


def reorder(first: Axis, second: Axis, third: Axis, fourth: Axis) -> Module:
    axes = (first, second, third, fourth)
    if len(set(axes)) < 4:
        raise ModuleError("takes each of the axes 0 1 2 3 once")
    return shapes.Reorder([3 - axis for axis in reversed(axes)])


def padding(value: float, before: Whole, behind: Whole, *more: Whole) -> Module:
    sides = (before, behind, *more)
    if len(sides) % 2 or len(sides) > 8:
        raise ModuleError("takes a pair, before and behind, for each axis from 0 on, at most 4")
    pairs = [(sides[i], sides[i + 1]) for i in range(0, len(sides), 2)]
    return shapes.Padding([*[(0, 0)] * (4 - len(pairs)), *reversed(pairs)], value)


def cast(dtype: Precision) -> Module:
    return shapes.Cast(_DTYPES[dtype])


# ---- windows -------------------------------------------------------------------------------------


def conv1(
    inputs: Size,
    outputs: Size,
    kernel: Size,
    stride: Size,
    padding: Padding = 0,
    dilation: Size = 1,
) -> Module:
    sides = (0, _padding(padding))
    return conv.Conv2D(inputs, outputs, (1, kernel), (1, stride), sides, (1, dilation))


def conv2(
    inputs: Size,
    outputs: Size,
    kernel_width: Size,
    kernel_height: Size,
    stride_width: Size,
    stride_height: Size,
    padding_width: Padding = 0,
    padding_height: Padding = 0,
    dilation_width: Size = 1,
    dilation_height: Size = 1,
) -> Module:
    return conv.Conv2D(
        inputs,
        outputs,
        (kernel_height, kernel_width),
        (stride_height, stride_width),
        (_padding(padding_height), _padding(padding_width)),
        (dilation_height, dilation_width),
    )


def asymmetric_conv(
    inputs: Size,
    outputs: Size,
    kernel: Size,
    stride: Size,
    padding: Padding = 0,
    future: Probability = 1.0,
    dilation: Size = 1,
) -> Module:
    layer = asymmetric.AsymmetricConv1D(
        inputs, outputs, kernel, stride, _padding(padding), future, dilation
    )
    return FourAxes(layer, 2)


def _pool(mode: str) -> Factory:
    def pooling(
        width: Size,
        height: Size,
        stride_width: Size,
        stride_height: Size,
        padding_width: Padding = 0,
        padding_height: Padding = 0,
    ) -> Module:
        sides = (_padding(padding_height), _padding(padding_width))
        return pool.Pool2D((height, width), (stride_height, stride_width), sides, mode)

    return pooling


# ---- features ------------------------------------------------------------------------------------


def linear(inputs: Size, outputs: Size, bias: bool = True) -> Module:
    return Linear(inputs, outputs, bias)


def embedding(size: Size, count: Size) -> Module:
    return FourAxes(Embedding(count, size))


def adaptive_embedding(size: Size, cutoffs: Cutoffs) -> Module:
    return FourAxes(adaptive.AdaptiveEmbedding(cutoffs[-1], size, cutoffs[:-1]))


def batch_norm(features: Size, axis: Axis, *more: Axis) -> Module:
    return norm.BatchNorm(features, tuple(map(_axis, _distinct(axis, *more))))


def layer_norm(axis: Axis, *more: Axis) -> Module:
    if (axis, *more) == (3,):
        raise ModuleError(
            "3 alone is from the time when the axis was the one left out; name those that are "
            "normalised over, LN 0 1 2"
        )
    return norm.ScalarLayerNorm(tuple(map(_axis, _distinct(axis, *more))))


def weight_norm(axis: Axis, layer: Module) -> Module:
    inner = layer.module if isinstance(layer, FourAxes) else layer
    expected = {Linear: 0, conv.Conv2D: 3, asymmetric.AsymmetricConv1D: 3}.get(type(inner))
    if expected != axis:
        raise ModuleError("goes around L with axis 0, and around C, C1, C2 or AC with axis 3")
    if isinstance(layer, FourAxes):
        return FourAxes(WeightNorm(inner), layer.axis)
    return WeightNorm(layer)


def _distinct(*axes: int) -> tuple[int, ...]:
    if len(set(axes)) < len(axes):
        raise ModuleError(f"axes {' '.join(map(str, axes))}: each once")
    return axes


# ---- activations ---------------------------------------------------------------------------------


def elu() -> Module:
    return activations.ELU()


def prelu(count: Size = 1, value: float = 0.25) -> Module:
    return activations.PReLU(count, value, axis=-1)


def swish(beta: float = 1.0) -> Module:
    return activations.Swish(beta)


def gated_linear_unit(axis: Axis) -> Module:
    return activations.GatedLinearUnit(_axis(axis))


def log_softmax(axis: Axis) -> Module:
    return activations.LogSoftmax(_axis(axis))


def hard_tanh() -> Module:
    return activations.HardTanh()


def dropout(p: Probability) -> Module:
    return Dropout(p)


#: What makes the layer of each token; its parameters are the words that follow.
TOKENS: dict[str, Factory] = {
    "V": view, "RO": reorder, "PD": padding, "PC": cast,
    "C": conv1, "C1": conv1, "C2": conv2, "AC": asymmetric_conv,
    "M": _pool("max"), "A": _pool("avg"),
    "L": linear, "E": embedding, "ADAPTIVEE": adaptive_embedding,
    "BN": batch_norm, "LN": layer_norm, "WN": weight_norm,
    "ELU": elu, "R": activations.ReLU, "R6": activations.ReLU6, "PR": prelu, "LG": activations.Log,
    "HT": hard_tanh, "T": activations.Tanh, "SH": swish,
    "GLU": gated_linear_unit, "LSM": log_softmax, "DO": dropout,
    "TDS": sequences.tds, "TR": sequences.transformer, "CFR": sequences.conformer,
    "POSEMB": sequences.position_embedding, "SINPOSEMB": sequences.sinusoidal_position_embedding,
    "RNN": sequences.rnn, "LSTM": sequences.lstm, "GRU": sequences.gru,
    "SAUG": sequences.spec_augment,
}  # fmt: skip

#: Those whose layers have the parameters of Flashlight's own.
ORIGINAL_TOKENS: dict[str, Factory] = {
    "TR": sequences.original_transformer, "CFR": sequences.original_conformer,
}  # fmt: skip
