"""DETR with ResNet-50 in PyTorch, with PyTorch's own attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.matching import CLASS, DISTANCE, NO_OBJECT, OVERLAP, assign
from models.twins.resnet50 import Bottleneck


class FrozenBatchNorm(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.ones(features))

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)


class Body(nn.Module):
    """ResNet without its classes."""

    def __init__(self, depths: Sequence[int], width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, depth in enumerate(depths):
            blocks = nn.Sequential()
            for block in range(depth):
                stride = 2 if stage > 0 and block == 0 else 1
                blocks.append(Bottleneck(channels, width * 2**stage, stride))
                channels = 4 * width * 2**stage
            self.add_module(f"layer{stage + 1}", blocks)
        self.stages, self.channels = len(depths), channels
        freeze(self)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images)), inplace=True), 3, 2, 1)
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return x


def freeze(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, FrozenBatchNorm(child.num_features))
        else:
            freeze(child)


class Attention(nn.Module):
    """Parameters as torch.nn.MultiheadAttention; the fused attention without its detours."""

    def __init__(self, size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.in_proj_weight = nn.Parameter(torch.empty(3 * size, size))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * size))
        self.out_proj = nn.Linear(size, size)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            F.linear(x, w, b).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x, w, b in zip((query, key, value), weights, biases)
        )
        p = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """An encoder layer, or with `cross` a decoder layer."""

    def __init__(self, size: int, heads: int, hidden: int, dropout: float, cross: bool) -> None:
        super().__init__()
        self.self_attn = Attention(size, heads, dropout)
        self.linear1, self.linear2 = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        if cross:
            self.multihead_attn = Attention(size, heads, dropout)
            self.norm3 = nn.LayerNorm(size)
        self.dropout, self.cross = nn.Dropout(dropout), cross

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        memory: Tensor | None = None,
        memory_positions: Tensor | None = None,
    ) -> Tensor:
        placed = x + positions
        x = self.norm1(x + self.dropout(self.self_attn(placed, placed, x)))
        norm = self.norm2
        if memory is not None and memory_positions is not None:
            found = self.multihead_attn(x + positions, memory + memory_positions, memory)
            x, norm = self.norm2(x + self.dropout(found)), self.norm3
        wide = self.dropout(F.relu(self.linear1(x)))
        return norm(x + self.dropout(self.linear2(wide)))


class MLP(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(size, n) for n in (size, size, 4))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


class DETR(nn.Module):
    def __init__(
        self,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        image: int = 800,
        classes: int = 91,
        queries: int = 100,
        objects: int = 7,
        size: int = 256,
        heads: int = 8,
        hidden: int = 2048,
        layers: int = 6,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.query_embed = nn.Parameter(torch.randn(queries, size))
        self.backbone = Body(depths, width)
        self.input_proj = nn.Conv2d(self.backbone.channels, size, 1)
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(size, heads, hidden, dropout, cross) for _ in range(layers))
            for cross in (False, True)
        )
        self.norm = nn.LayerNorm(size)
        self.class_embed = nn.Linear(size, classes + 1)
        self.bbox_embed = MLP(size)

    def forward(self, images: Tensor) -> list[tuple[Tensor, Tensor]]:
        features = self.input_proj(self.backbone(images))
        places = sine_positions(features)
        memory = features.flatten(2).transpose(1, 2)
        for layer in self.encoder:
            memory = layer(memory, places)
        queries = self.query_embed.expand(len(images), -1, -1)
        x, found = torch.zeros_like(queries), []
        for layer in self.decoder:
            x = layer(x, queries, memory, places)
            y = self.norm(x)
            found.append((self.class_embed(y), self.bbox_embed(y).sigmoid()))
        return found

    def loss(self, batch: Sequence[Tensor]) -> Tensor:
        images, labels, boxes = batch
        return torch.stack([criterion(*found, labels, boxes) for found in self(images)]).sum()


def sine_positions(x: Tensor) -> Tensor:
    _, size, height, width = x.shape
    rates = 10000.0 ** -(torch.arange(size // 4, dtype=x.dtype) * 4 / size)
    tables = []
    for count in (height, width):
        steps = torch.arange(1, count + 1, dtype=x.dtype) / (count + 1e-6) * (2 * math.pi)
        angles = steps[:, None] * rates
        tables.append(torch.stack([angles.sin(), angles.cos()], -1).flatten(1))
    rows = tables[0][:, None].expand(-1, width, -1)
    columns = tables[1][None].expand(height, -1, -1)
    return torch.cat([rows, columns], -1).flatten(0, 1)[None]


def criterion(logits: Tensor, found: Tensor, labels: Tensor, boxes: Tensor) -> Tensor:
    scores = logits.shape[-1]
    with torch.no_grad():
        index = labels[:, None].expand(-1, logits.shape[1], -1)
        likely = logits.softmax(-1).gather(-1, index)
        mine, theirs = found[:, :, None], boxes[:, None]
        costs = DISTANCE * (mine - theirs).abs().sum(-1) - CLASS * likely
        costs -= OVERLAP * generalised_iou(mine, theirs)
    rows, columns = (torch.from_numpy(x) for x in assign(costs.numpy()))
    targets = torch.full(logits.shape[:2], scores - 1)
    targets[rows, columns] = labels.flatten()
    weights = torch.ones(scores, dtype=logits.dtype)
    weights[-1] = NO_OBJECT
    entropy = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), weights)
    matched, truth = found[rows, columns], boxes.flatten(0, 1)
    distance = (matched - truth).abs().sum() / len(truth)
    overlap = (1 - generalised_iou(matched, truth)).sum() / len(truth)
    return CLASS * entropy + DISTANCE * distance + OVERLAP * overlap


def generalised_iou(a: Tensor, b: Tensor) -> Tensor:
    lower_a, upper_a = a[..., :2] - a[..., 2:] / 2, a[..., :2] + a[..., 2:] / 2
    lower_b, upper_b = b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2
    shared = (torch.minimum(upper_a, upper_b) - torch.maximum(lower_a, lower_b)).relu().prod(-1)
    union = a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - shared
    hull = (torch.maximum(upper_a, upper_b) - torch.minimum(lower_a, lower_b)).prod(-1)
    return shared / union - (hull - union) / hull
