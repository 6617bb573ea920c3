"""Adaptive softmax and embedding, TDS, Conformer, Residual, asymmetric convolution: against
PyTorch's own where there is one, and against the same made of PyTorch's layers."""

from __future__ import annotations

import math

import pytest
from torch_twins import FAMILIES, Case, Draw, check_family, family, torch

import fl_nn as nn
import fl_tensor as ft

F = torch.nn.functional


def clusters(draw: Draw) -> tuple[int, list[int]]:
    classes = draw.size(3, 14)
    return classes, sorted(draw.sample(range(1, classes), draw.size(1, min(3, classes - 1))))


@family
def adaptive_softmax(draw: Draw) -> Case:
    classes, cutoffs = clusters(draw)
    div, inputs, bias = draw.choice([1.5, 2.0, 4.0]), draw.size(64, 70), draw.maybe()
    mine = nn.AdaptiveSoftMax(inputs, classes, cutoffs, div, bias)
    twin = torch.nn.AdaptiveLogSoftmaxWithLoss(inputs, classes, cutoffs, div, bias)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head, self.tail = twin.head, twin.tail

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return twin.log_prob(x)

    return Case(mine, Twin(), (draw.values((draw.size(), inputs)),), scale=0.5)


@family
def adaptive_softmax_loss(draw: Draw) -> Case:
    classes, cutoffs = clusters(draw)
    div, inputs, bias = draw.choice([1.5, 2.0, 4.0]), draw.size(64, 70), draw.maybe()
    reduction = draw.choice(["mean", "none"])
    layer = nn.AdaptiveSoftMax(inputs, classes, cutoffs, div, bias)
    twin = torch.nn.AdaptiveLogSoftmaxWithLoss(inputs, classes, cutoffs, div, bias)
    n = draw.size(1, 6)
    targets = draw.integers(0, classes, (n,))

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.activation = torch.nn.Module()
            self.activation.head, self.activation.tail = twin.head, twin.tail

        def forward(self, x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            found = twin(x, targets)
            return found.loss if reduction == "mean" else -found.output

    mine = nn.AdaptiveSoftMaxLoss(layer, reduction)
    return Case(mine, Twin(), (draw.values((n, inputs)), targets), scale=0.5)


@family
def adaptive_embedding(draw: Draw) -> Case:
    count, cutoffs = clusters(draw)
    size, div = draw.size(2, 9), draw.choice([1.0, 2.0, 4.0])
    layer = nn.AdaptiveEmbedding(count, size, cutoffs, div)
    starts, widths = [0, *cutoffs], [e.size for e in layer.embeddings]

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = torch.nn.ModuleList(
                torch.nn.Embedding(e.count, e.size) for e in layer.embeddings
            )
            self.projections = torch.nn.ModuleList(
                torch.nn.Linear(width, size, bias=False) for width in widths
            )

        def forward(self, indices: torch.Tensor) -> torch.Tensor:
            rows = []
            for index in indices.flatten().tolist():
                i = max(i for i, start in enumerate(starts) if start <= index)
                row = self.embeddings[i](torch.tensor(index - starts[i]))
                rows.append(self.projections[i](row))
            return torch.stack(rows).reshape(*indices.shape, size)

    return Case(layer, Twin(), (draw.integers(0, count, draw.sizes(2, 1, 3)),))


@family
def tds(draw: Draw) -> Case:
    channels, kernel, width, hidden = *draw.sizes(3, 1, 4), draw.size(0, 5)
    future = draw.size(0, kernel - 1) if draw.maybe() else None
    over_time, n, steps = draw.maybe(), draw.size(1, 3), draw.size(1, 5)
    if channels * width == 1 and (not over_time or steps == 1):
        width = 2  # one value has no variance
    layer = nn.TDSBlock(channels, kernel, width, 0.0, hidden, future, over_time)
    ahead = layer.future

    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            axes = (1, 2, 3) if over_time else (1, 2)
            var, mean = torch.var_mean(x, axes, correction=0, keepdim=True)
            return (x - mean) / (var + 1e-5).sqrt() * self.weight + self.bias

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            size = channels * width
            self.conv = torch.nn.Conv2d(channels, channels, (1, kernel))
            self.norm1, self.norm2 = Norm(), Norm()
            self.linear1 = torch.nn.Linear(size, hidden or size)
            self.linear2 = torch.nn.Linear(hidden or size, size)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            padded = F.pad(x, (kernel - 1 - ahead, ahead))
            x = self.norm1(x + self.conv(padded).relu())
            flat = x.permute(0, 3, 1, 2).flatten(2)
            y = self.linear2(self.linear1(flat).relu())
            return self.norm2(x + y.unflatten(2, (channels, width)).permute(0, 2, 3, 1))

    return Case(layer, Twin(), (draw.values((n, channels, width, steps)),))


@family
def conformer(draw: Draw) -> Case:
    heads = draw.size(1, 2)
    size, hidden, kernel = heads * draw.size(2, 4), draw.size(1, 6), draw.choice([1, 3, 5])
    n, t = draw.size(2, 3), draw.size(2, 5)
    reach = draw.choice([0, t])
    layer = nn.Conformer(size, heads, hidden, kernel, reach, 0.0)

    def half() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.LayerNorm(size), torch.nn.Linear(size, hidden), torch.nn.SiLU(),
            torch.nn.Identity(), torch.nn.Linear(hidden, size),
        )  # fmt: skip

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.feed_forward1, self.feed_forward2 = half(), half()
            self.norm_attn, self.norm_conv, self.norm = (torch.nn.LayerNorm(size) for _ in range(3))
            self.self_attn = torch.nn.MultiheadAttention(size, heads, batch_first=True)
            if reach:
                zeros = torch.zeros(2 * reach - 1, size // heads)
                self.self_attn.relative = torch.nn.ParameterDict({"weight": zeros})
            self.pointwise1 = torch.nn.Linear(size, 2 * size)
            self.depthwise = torch.nn.Conv1d(size, size, kernel, padding="same", groups=size)
            self.batch_norm = torch.nn.BatchNorm1d(size)
            self.pointwise2 = torch.nn.Linear(size, size)

        def attend(self, x: torch.Tensor) -> torch.Tensor:
            mask = None
            if reach:
                own = self.self_attn
                q = x @ own.in_proj_weight[:size].T + own.in_proj_bias[:size]
                q = q.unflatten(2, (heads, -1)).transpose(1, 2) / math.sqrt(size // heads)
                distance = torch.arange(t) - torch.arange(t)[:, None]
                rows = own.relative["weight"][distance + reach - 1]
                mask = torch.einsum("nhtd,tsd->nhts", q, rows).flatten(0, 1)
            return self.self_attn(x, x, x, attn_mask=mask, need_weights=False)[0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.feed_forward1(x) / 2
            x = x + self.attend(self.norm_attn(x))
            y = F.glu(self.pointwise1(self.norm_conv(x)), -1).transpose(1, 2)
            y = F.silu(self.batch_norm(self.depthwise(y))).transpose(1, 2)
            x = x + self.pointwise2(y)
            return self.norm(x + self.feed_forward2(x) / 2)

    return Case(layer, Twin(), (draw.values((n, t, size)),))


@family
def residual(draw: Draw) -> Case:
    n, size = draw.size(1, 5), draw.size(1, 4)
    mine = nn.Residual(*(nn.Linear(size, size) for _ in range(n)))
    twins = {str(i): torch.nn.Linear(size, size) for i in range(n)}
    links: dict[tuple[int, int], str | None] = {}
    for _ in range(draw.size(0, 4)):
        start = draw.randint(0, n)
        link = (start, draw.randint(start + 1, n + 1))
        if link in links:
            continue
        links[link] = name = f"shortcut_{link[0]}_{link[1]}" if draw.maybe() else None
        if name is not None:
            twins[name] = torch.nn.Linear(size, size)
        mine.add_shortcut(*link, None if name is None else nn.Linear(size, size))
    scales = {draw.randint(1, n + 1): draw.random() for _ in range(draw.size(0, 3))}
    for place, scale in scales.items():
        mine.add_scale(place, scale)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, module in twins.items():
                self.add_module(name, module)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            outputs = {0: x}
            for place in range(1, n + 2):
                y = outputs[place - 1]
                for (start, end), name in links.items():
                    if end == place:
                        y = y + (outputs[start] if name is None else twins[name](outputs[start]))
                y = y * scales.get(place, 1.0)
                outputs[place] = y if place == n + 1 else twins[str(place - 1)](y)
            return outputs[n + 1]

    return Case(mine, Twin(), (draw.values((2, size)),))


@family
def asymmetric_conv(draw: Draw) -> Case:
    inputs, outputs, kernel, stride, dilation = draw.sizes(5, 1, 3)
    length, future = draw.size(3, 9) + dilation * (kernel - 1), draw.choice([0.0, 0.25, 0.5, 1.0])
    padding = draw.choice(["same", 0, 1, 2])
    total = 2 * padding if padding != "same" else max(
        (math.ceil(length / stride) - 1) * stride + dilation * (kernel - 1) + 1 - length, 0
    )  # fmt: skip
    behind = math.ceil(total * future)
    layer = nn.AsymmetricConv1D(inputs, outputs, kernel, stride, padding, future, dilation)
    twin = torch.nn.Conv1d(inputs, outputs, kernel, stride, dilation=dilation)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = twin.weight, twin.bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.pad(x, (total - behind, behind))
            return F.conv1d(x, self.weight, self.bias, stride, dilation=dilation)

    return Case(layer, Twin(), (draw.values((2, inputs, length)),))


HERE = [name for name, draws in FAMILIES.items() if draws.__module__ == __name__]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("name", HERE)
def test_random_configurations(name):
    check_family(name)


def test_predictions_of_adaptive_softmax():
    layer = nn.AdaptiveSoftMax(64, 9, [3, 6], 2.0)
    twin = torch.nn.AdaptiveLogSoftmaxWithLoss(64, 9, [3, 6], 2.0)
    twin.load_state_dict({k: torch.tensor(v.numpy()) for k, v in layer.state_dict().items()})
    x = ft.randn((50, 64), ft.Generator(0)) * 3.0
    assert layer.predict(x).tolist() == twin.predict(torch.tensor(x.numpy())).tolist()
