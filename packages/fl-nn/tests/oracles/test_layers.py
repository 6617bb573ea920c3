"""Layers in random configurations against PyTorch."""

from __future__ import annotations

import math

import pytest
from torch_twins import FAMILIES, Case, Draw, check_family, family, torch

import fl_nn as nn
import fl_tensor as ft

CONV = {1: nn.Conv1D, 2: nn.Conv2D, 3: nn.Conv3D}
CONV_TWIN = {1: torch.nn.Conv1d, 2: torch.nn.Conv2d, 3: torch.nn.Conv3d}
TRANSPOSE = {1: nn.ConvTranspose1D, 2: nn.ConvTranspose2D, 3: nn.ConvTranspose3D}
TRANSPOSE_TWIN = {
    1: torch.nn.ConvTranspose1d, 2: torch.nn.ConvTranspose2d, 3: torch.nn.ConvTranspose3d
}  # fmt: skip
POOL = {1: nn.Pool1D, 2: nn.Pool2D, 3: nn.Pool3D}
MAX_TWIN = {1: torch.nn.MaxPool1d, 2: torch.nn.MaxPool2d, 3: torch.nn.MaxPool3d}
AVG_TWIN = {1: torch.nn.AvgPool1d, 2: torch.nn.AvgPool2d, 3: torch.nn.AvgPool3d}
ADAPTIVE = {1: nn.AdaptiveAvgPool1D, 2: nn.AdaptiveAvgPool2D, 3: nn.AdaptiveAvgPool3D}
ADAPTIVE_TWIN = {
    1: torch.nn.AdaptiveAvgPool1d, 2: torch.nn.AdaptiveAvgPool2d, 3: torch.nn.AdaptiveAvgPool3d
}  # fmt: skip
BATCH_TWIN = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d,
              5: torch.nn.BatchNorm3d}  # fmt: skip


def reshaped(draw: Draw, low: int = 1) -> tuple[int, ...]:
    return draw.sizes(draw.size(1, 4), low, 4)


@family
def linear(draw: Draw) -> Case:
    inputs, outputs, bias = draw.size(), draw.size(), draw.maybe()
    x = draw.values((*draw.sizes(draw.size(0, 3)), inputs))
    return Case(nn.Linear(inputs, outputs, bias), torch.nn.Linear(inputs, outputs, bias=bias), (x,))


def convolution(draw: Draw, n: int) -> Case:
    groups = draw.choice([1, 1, 2, 3])
    inputs, outputs = groups * draw.size(1, 2), groups * draw.size(1, 2)
    kernel, stride = draw.sizes(n, 1, 3), draw.sizes(n, 1, 3)
    padding, dilation = draw.sizes(n, 0, 2), draw.sizes(n, 1, 2)
    if draw.maybe(0.2):
        kernel, stride = draw.sizes(n, 1, 4), (1,) * n
        padding = "same"
    bias = draw.maybe()
    sizes = tuple(d * (k - 1) + 1 + draw.size(0, 3) for d, k in zip(dilation, kernel))
    args = (inputs, outputs, kernel, stride, padding, dilation, groups, bias)
    x = draw.values((draw.size(1, 3), inputs, *sizes))
    return Case(CONV[n](*args), CONV_TWIN[n](*args), (x,))


@family
def conv1d(draw: Draw) -> Case:
    return convolution(draw, 1)


@family
def conv2d(draw: Draw) -> Case:
    return convolution(draw, 2)


@family
def conv3d(draw: Draw) -> Case:
    return convolution(draw, 3)


def transposed(draw: Draw, n: int) -> Case:
    groups = draw.choice([1, 1, 2, 3])
    inputs, outputs = groups * draw.size(1, 2), groups * draw.size(1, 2)
    kernel, stride, dilation = draw.sizes(n, 1, 3), draw.sizes(n, 1, 3), draw.sizes(n, 1, 2)
    extra = tuple(draw.size(0, max(s, d) - 1) for s, d in zip(stride, dilation))
    sizes = draw.sizes(n, 2, 4)
    # As much cropping as leaves something, beyond the kernel's reach too.
    padding = tuple(
        draw.size(0, min(3, ((m - 1) * s + d * (k - 1) + o) // 2))
        for m, s, d, k, o in zip(sizes, stride, dilation, kernel, extra)
    )
    args = (inputs, outputs, kernel, stride, padding, extra, groups, draw.maybe(), dilation)
    x = draw.values((draw.size(1, 3), inputs, *sizes))
    return Case(TRANSPOSE[n](*args), TRANSPOSE_TWIN[n](*args), (x,))


@family
def transposed1d(draw: Draw) -> Case:
    return transposed(draw, 1)


@family
def transposed2d(draw: Draw) -> Case:
    return transposed(draw, 2)


@family
def transposed3d(draw: Draw) -> Case:
    return transposed(draw, 3)


def pooling(draw: Draw, n: int) -> Case:
    window = draw.sizes(n, 1, 3)
    stride = None if draw.maybe(0.3) else draw.sizes(n, 1, 3)
    padding = tuple(draw.size(0, w // 2) for w in window)
    mode = draw.choice(["max", "avg", "avg_exclude_padding"])
    options = {"ceil_mode": draw.maybe()}
    reach = window
    if mode == "max":
        dilation = draw.sizes(n, 1, 3) if draw.maybe(0.4) else (1,) * n
        reach = tuple(d * (w - 1) + 1 for d, w in zip(dilation, window))
        options["dilation"] = dilation
        twin = MAX_TWIN[n](window, stride, padding, **options)
    else:
        twin = AVG_TWIN[n](window, stride, padding, count_include_pad=mode == "avg", **options)
    x = draw.values((*draw.sizes(2, 1, 3), *(w + draw.size(0, 4) for w in reach)))
    return Case(POOL[n](window, stride, padding, mode, **options), twin, (x,))


@family
def pool1d(draw: Draw) -> Case:
    return pooling(draw, 1)


@family
def pool2d(draw: Draw) -> Case:
    return pooling(draw, 2)


@family
def pool3d(draw: Draw) -> Case:
    return pooling(draw, 3)


@family
def adaptive_avg_pool(draw: Draw) -> Case:
    n = draw.size(1, 3)
    size = draw.size() if draw.maybe(0.3) else tuple(draw.size(1, 5) for _ in range(n))
    if n > 1 and not isinstance(size, int) and draw.maybe(0.3):
        size = (None, *size[1:])
    x = draw.values((*draw.sizes(2, 1, 3), *draw.sizes(n, 1, 6)))
    twin = ADAPTIVE_TWIN[n](size if n > 1 or isinstance(size, int) else size[0])
    return Case(ADAPTIVE[n](size), twin, (x,))


@family
def batch_norm(draw: Draw) -> Case:
    rank, features = draw.size(2, 5), draw.size()
    momentum = None if draw.maybe(0.2) else draw.random()
    args = (momentum, 10 ** -draw.uniform(2, 6), draw.maybe(0.7), draw.maybe(0.7))
    momentum, eps, affine, track = args
    x = draw.values((draw.size(2, 4), features, *draw.sizes(rank - 2, 2, 3))) * 2.0 + 1.0
    twin = BATCH_TWIN[rank](features, eps, momentum, affine, track)
    return Case(nn.BatchNorm(features, 1, momentum, eps, affine, track), twin, (x,), rounds=3)


class OverAxes(torch.nn.BatchNorm1d):
    """BatchNorm whose features are the places on several axes."""

    axes: tuple[int, ...]

    def forward(self, x):
        front = x.movedim(self.axes, tuple(range(len(self.axes))))
        y = super().forward(front.reshape(self.num_features, -1).T)
        return y.T.reshape(front.shape).movedim(tuple(range(len(self.axes))), self.axes)


@family
def batch_norm_over_axes(draw: Draw) -> Case:
    shape = draw.sizes(draw.size(3, 5), 2, 3)
    axes = tuple(draw.sample(range(len(shape)), draw.size(2, len(shape) - 1)))
    features = math.prod(shape[axis] for axis in axes)
    twin = OverAxes(features)
    twin.axes = tuple(sorted(axes))
    given = tuple(axis - len(shape) if draw.maybe() else axis for axis in axes)
    return Case(nn.BatchNorm(features, given), twin, (draw.values(shape) * 2.0 + 1.0,), rounds=3)


@family
def layer_norm(draw: Draw) -> Case:
    shape, eps = draw.sizes(draw.size(1, 3), 2, 4), 10 ** -draw.uniform(2, 6)
    affine, bias = draw.maybe(), draw.maybe()
    x = draw.values((*draw.sizes(draw.size(0, 2)), *shape))
    twin = torch.nn.LayerNorm(shape, eps, affine, bias)
    return Case(nn.LayerNorm(shape, eps, affine, bias), twin, (x,))


class OverChannels(torch.nn.LayerNorm):
    """LayerNorm of (N, C, ...) over the channels, as published models have it."""

    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


@family
def layer_norm_over_channels(draw: Draw) -> Case:
    channels, affine, bias = draw.size(2, 4), draw.maybe(0.7), draw.maybe()
    x = draw.values((draw.size(), channels, *draw.sizes(draw.size(0, 3))))
    twin = OverChannels(channels, 1e-3, affine, bias)
    return Case(nn.LayerNorm(channels, 1e-3, affine, bias, axis=1), twin, (x,))


@family
def rms_norm(draw: Draw) -> Case:
    shape, affine = draw.sizes(draw.size(1, 3), 1, 4), draw.maybe()
    eps = None if draw.maybe(0.3) else 10 ** -draw.uniform(2, 6)
    x = draw.values((*draw.sizes(draw.size(0, 2)), *shape))
    return Case(nn.RMSNorm(shape, eps, affine), torch.nn.RMSNorm(shape, eps, affine), (x,))


@family
def group_norm(draw: Draw) -> Case:
    groups = draw.size(1, 3)
    features = groups * draw.size(1, 3)
    eps, affine = 10 ** -draw.uniform(2, 5), draw.maybe()
    x = draw.values((draw.size(2), features, *draw.sizes(draw.size(0, 3), 2, 4)))
    twin = torch.nn.GroupNorm(groups, features, eps, affine)
    return Case(nn.GroupNorm(groups, features, eps, affine), twin, (x,))


@family
def embedding(draw: Draw) -> Case:
    count, size = draw.size(1, 8), draw.size()
    padding = draw.randint(-count, count - 1) if draw.maybe() else None
    indices = draw.integers(0, count, draw.sizes(draw.size(0, 3)))
    mine = nn.Embedding(count, size, padding)
    return Case(mine, torch.nn.Embedding(count, size, padding), (indices,))


@family
def activation(draw: Draw) -> Case:
    slope, beta = draw.random(), 0.1 + draw.random()
    low = -draw.random()
    mine, theirs = draw.choice(
        [
            (nn.ReLU(), torch.nn.ReLU()),
            (nn.ReLU6(), torch.nn.ReLU6()),
            (nn.LeakyReLU(), torch.nn.LeakyReLU()),
            (nn.LeakyReLU(slope), torch.nn.LeakyReLU(slope)),
            (nn.ELU(beta), torch.nn.ELU(beta)),
            (nn.ThresholdReLU(slope), torch.nn.Threshold(slope, 0.0)),
            (nn.HardTanh(), torch.nn.Hardtanh()),
            (nn.HardTanh(low, beta), torch.nn.Hardtanh(low, beta)),
            (nn.Tanh(), torch.nn.Tanh()),
            (nn.Sigmoid(), torch.nn.Sigmoid()),
            (nn.Softplus(), torch.nn.Softplus(threshold=1e9)),
            (nn.Swish(), torch.nn.SiLU()),
            (nn.Swish(beta), lambda x: x * (x * beta).sigmoid()),
            (nn.GELU(), torch.nn.GELU()),
            (nn.GELU("tanh"), torch.nn.GELU("tanh")),
        ]
    )
    return Case(mine, theirs, (draw.values(draw.sizes(draw.size(0, 4))) * 4.0,))


@family
def log(draw: Draw) -> Case:
    return Case(nn.Log(), torch.log, (ft.exp(draw.values(draw.sizes(draw.size(0, 3)))),))


@family
def prelu(draw: Draw) -> Case:
    shape = draw.sizes(draw.size(2, 4))
    axis = draw.randint(-len(shape), len(shape) - 1)
    count = draw.choice([1, shape[axis]])
    return Case(
        nn.PReLU(count, axis=axis),
        torch.nn.PReLU(count),
        (draw.values(shape),),
        forth=lambda x: (x.movedim(axis, 1),),
        back=lambda y: y.movedim(1, axis),
    )


@family
def along_an_axis(draw: Draw) -> Case:
    shape = list(draw.sizes(draw.size(1, 4)))
    axis = draw.randint(-len(shape), len(shape) - 1)
    mine, theirs = draw.choice(
        [
            (nn.Softmax, torch.nn.Softmax),
            (nn.LogSoftmax, torch.nn.LogSoftmax),
            (nn.GatedLinearUnit, torch.nn.GLU),
        ]
    )
    shape[axis] *= 2
    return Case(mine(axis), theirs(axis), (draw.values(tuple(shape)) * 3.0,))


@family
def normalize(draw: Draw) -> Case:
    shape = draw.sizes(draw.size(1, 4))
    axis = draw.randint(-len(shape), len(shape) - 1)
    p, value = draw.choice([1.0, 2.0, 3.0, 1.5]), 0.5 + draw.random()

    def theirs(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(x, p, axis) * value

    return Case(nn.Normalize(axis, p, value=value), theirs, (draw.values(shape),))


@family
def shapes(draw: Draw) -> Case:
    shape = draw.sizes(draw.size(2, 4))
    axes = draw.sample(range(len(shape)), len(shape))
    start = draw.randrange(len(shape))
    end = draw.randrange(start, len(shape)) - draw.choice([0, len(shape)])
    widths = tuple(draw.sizes(2, 0, 3) for _ in shape)
    value = draw.random()
    torch_widths = [n for pair in reversed(widths) for n in pair]
    mine, theirs = draw.choice(
        [
            (nn.Identity(), torch.nn.Identity()),
            (nn.View((0, -1)), lambda x: x.reshape(x.shape[0], -1)),
            (nn.Flatten(start, end), torch.nn.Flatten(start, end)),
            (nn.Reorder(axes), lambda x: x.permute(axes)),
            (nn.Transform(ft.sin), torch.sin),
            (nn.Cast(ft.float32), lambda x: x.float()),
            (
                nn.Padding(widths, value),
                lambda x: torch.nn.functional.pad(x, torch_widths, value=value),
            ),
        ]
    )
    return Case(mine, theirs, (draw.values(shape),))


@family
def sequential(draw: Draw) -> Case:
    n, hidden = draw.size(1, 4), draw.size(1, 4)
    mine = nn.Sequential(
        nn.Conv2D(n, hidden, 3, padding=1), nn.BatchNorm(hidden), nn.ReLU(), nn.Pool2D(2),
        nn.Flatten(), nn.Sequential(nn.Linear(hidden * 4, n), nn.LogSoftmax(1)),
    )  # fmt: skip
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(n, hidden, 3, padding=1), torch.nn.BatchNorm2d(hidden), torch.nn.ReLU(),
        torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Sequential(torch.nn.Linear(hidden * 4, n), torch.nn.LogSoftmax(1)),
    )  # fmt: skip
    return Case(mine, theirs, (draw.values((3, n, 4, 5)),))


HERE = [name for name, draws in FAMILIES.items() if draws.__module__ == __name__]
ITEM_7 = ("pool1d", "pool2d", "pool3d", "layer_norm_over_channels")


@pytest.mark.defect("item 7")
@pytest.mark.parametrize("name", ITEM_7)
def test_windows_and_axes_that_users_bring(name):
    check_family(name)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("name", [name for name in HERE if name not in ITEM_7])
def test_random_configurations(name):
    check_family(name)
