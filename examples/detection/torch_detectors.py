"""The networks and losses of `scenes-detr` and `scenes-retinanet` in PyTorch, to compare with.

Names of parameters are those of `fl_vision.models`, so that weights can be exchanged. Each is a
module with `loss(images, mask, targets)`; targets are pairs (boxes, labels), of DETR cxcywh as
shares of the image, of RetinaNet xyxy in pixels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn import functional

Targets = list[tuple[torch.Tensor, torch.Tensor]]


class BasicBlock(nn.Module):
    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = None
        if stride > 1 or channels != width:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(x)) + shortcut)


class ResNet(nn.Module):
    """The maps of each stage of a ResNet-18."""

    def __init__(self, width: int, stages: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.stages, channels = stages, width
        for stage in range(stages):
            wide = width << stage
            first = BasicBlock(channels, wide, 2 if stage else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(first, BasicBlock(wide, wide, 1)))
            channels = wide
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        maps = []
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
            maps.append(x)
        return maps


class EncoderLayer(nn.Module):
    def __init__(self, size: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x: Any, padded: Any, places: Any) -> Any:
        y = x + places
        x = self.norm1(x + self.self_attn(y, y, x, padded, need_weights=False)[0])
        return self.norm2(x + self.linear2(functional.relu(self.linear1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, size: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.multihead_attn = nn.MultiheadAttention(size, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(size) for _ in range(3))

    def forward(self, x: Any, memory: Any, padded: Any, queries: Any, places: Any) -> Any:
        y = x + queries
        x = self.norm1(x + self.self_attn(y, y, x, need_weights=False)[0])
        y, keys = x + queries, memory + places
        found = self.multihead_attn(y, keys, memory, padded, need_weights=False)[0]
        x = self.norm2(x + found)
        return self.norm3(x + self.linear2(functional.relu(self.linear1(x))))


def sine_positions(known: torch.Tensor, size: int) -> torch.Tensor:
    """Sines and cosines of rows and columns inside images (N, H, W): (N, H * W, size)."""
    half = size // 2
    parts = []
    for axis in (1, 2):
        steps = known.cumsum(axis, dtype=torch.float32)
        steps = steps / (steps.select(axis, -1).unsqueeze(axis) + 1e-6) * (2 * math.pi)
        waves = 10000 ** (2 * (torch.arange(half) // 2) / half)
        angles = steps[..., None] / waves
        both = torch.stack([angles[..., 0::2].sin(), angles[..., 1::2].cos()], -1)
        parts.append(both.flatten(3))
    return torch.cat(parts, 3).flatten(1, 2)


class DETR(nn.Module):
    def __init__(
        self,
        classes: int,
        queries: int = 20,
        width: int = 16,
        size: int = 128,
        heads: int = 8,
        hidden: int = 256,
    ) -> None:
        super().__init__()
        self.classes, self.size = classes, size
        self.backbone = ResNet(width, 3)
        self.input_proj = nn.Conv2d(width * 4, size, 1)
        self.encoder = nn.ModuleList(EncoderLayer(size, heads, hidden) for _ in range(3))
        self.decoder = nn.ModuleList(DecoderLayer(size, heads, hidden) for _ in range(3))
        self.norm = nn.LayerNorm(size)
        self.query_embed = nn.Parameter(torch.randn(queries, size))
        self.class_embed = nn.Linear(size, classes + 1)
        self.bbox_embed = nn.ModuleList([nn.Linear(size, size) for _ in range(2)])
        self.bbox_embed.append(nn.Linear(size, 4))
        for name, p in self.named_parameters():
            if p.ndim == 2 and (".linear" in name or "proj_weight" in name):
                nn.init.xavier_uniform_(p)

    def forward(self, images: Any, mask: Any) -> list[tuple[Any, Any]]:
        """Logits and boxes of each decoder layer."""
        features = self.backbone(images)[-1]
        known = functional.interpolate(mask[:, None].float(), features.shape[2:])[:, 0] > 0
        places = sine_positions(known, self.size)
        padded = ~known.flatten(1)
        memory = self.input_proj(features).flatten(2).transpose(1, 2)
        for layer in self.encoder:
            memory = layer(memory, padded, places)
        queries = self.query_embed.expand(len(images), -1, -1)
        x, found = torch.zeros_like(queries), []
        for layer in self.decoder:
            x = layer(x, memory, padded, queries, places)
            y = self.norm(x)
            boxes = y
            for linear in self.bbox_embed[:-1]:
                boxes = functional.relu(linear(boxes))
            found.append((self.class_embed(y), self.bbox_embed[-1](boxes).sigmoid()))
        return found

    def loss(self, images: Any, mask: Any, targets: Targets) -> torch.Tensor:
        return sum(self._layer_loss(*layer, targets) for layer in self(images, mask))

    def _layer_loss(self, logits: Any, boxes: Any, targets: Targets) -> Any:
        number = max(sum(len(labels) for _, labels in targets), 1)
        classes = torch.full(logits.shape[:2], self.classes)
        found, wanted = [], []
        for image, (truth, labels) in enumerate(targets):
            with torch.no_grad():
                cost = 5 * torch.cdist(boxes[image], truth, p=1)
                cost -= logits[image].softmax(-1)[:, labels]
                overlap = generalized_iou(corners(boxes[image])[:, None], corners(truth)[None])
                cost -= 2 * overlap
            rows, columns = linear_sum_assignment(cost.numpy())
            classes[image, rows] = labels[columns]
            found.append(boxes[image, rows])
            wanted.append(truth[columns])
        weight = torch.ones(self.classes + 1)
        weight[-1] = 0.1
        ce = functional.cross_entropy(logits.transpose(1, 2), classes, weight)
        mine, theirs = torch.cat(found), torch.cat(wanted)
        giou = (1 - generalized_iou(corners(mine), corners(theirs))).sum() / number
        return ce + 5 * (mine - theirs).abs().sum() / number + 2 * giou


def corners(boxes: torch.Tensor) -> torch.Tensor:
    """cxcywh as xyxy."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], -1)


def generalized_iou(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Of xyxy boxes (..., 4) that broadcast. Rezatofighi et al., 2019."""
    inside = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(
        0
    )
    around = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    inter, hull = inside.prod(-1), around.prod(-1)
    areas = [(x[..., 2:] - x[..., :2]).prod(-1) for x in (a, b)]
    union = areas[0] + areas[1] - inter
    return inter / union - (hull - union) / hull


class RetinaNet(nn.Module):
    """A pyramid of three levels, and heads of two convolutions."""

    def __init__(self, classes: int, width: int = 16, size: int = 64, scale: float = 2.0) -> None:
        super().__init__()
        self.classes, self.scale = classes, scale
        self.backbone = ResNet(width, 4)
        wide = [width << stage for stage in (1, 2, 3)]
        self.inner = nn.ModuleList(nn.Conv2d(each, size, 1) for each in wide)
        self.layer = nn.ModuleList(nn.Conv2d(size, size, 3, padding=1) for _ in wide)
        self.heads = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(size, size, 3, padding=1), nn.ReLU(),
                nn.Conv2d(size, size, 3, padding=1), nn.ReLU(),
                nn.Conv2d(size, 9 * values, 3, padding=1),
            )
            for values in (classes, 4)
        )  # fmt: skip
        for module in self.heads.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.01)
                nn.init.zeros_(module.bias)
        nn.init.constant_(self.heads[0][-1].bias, -math.log(99))

    def forward(self, images: Any) -> tuple[Any, Any, list[tuple[int, int]]]:
        maps = self.backbone(images)[1:]
        above = self.inner[2](maps[2])
        levels = [self.layer[2](above)]
        for place in (1, 0):
            above = self.inner[place](maps[place]) + functional.interpolate(above, scale_factor=2)
            levels.insert(0, self.layer[place](above))
        logits, offsets = (
            torch.cat([self._flat(head(level), values) for level in levels], 1)
            for head, values in zip(self.heads, (self.classes, 4))
        )
        return logits, offsets, [tuple(level.shape[2:]) for level in levels]

    def _flat(self, y: Any, values: int) -> Any:
        n, _, h, w = y.shape
        return y.view(n, 9, values, h, w).permute(0, 3, 4, 1, 2).reshape(n, -1, values)

    def anchors(self, sizes: list[tuple[int, int]]) -> torch.Tensor:
        found = []
        for level, (rows, columns) in enumerate(sizes):
            stride = 8 << level
            root = np.sqrt(np.array([0.5, 1, 2]))
            side = self.scale * stride * 2 ** (np.arange(3) / 3)
            high, wide = (root[:, None] * side).ravel(), (side / root[:, None]).ravel()
            around = np.round(np.stack([-wide, -high, wide, high], 1) / 2)
            y, x = np.mgrid[:rows, :columns] * stride
            place = np.stack([x, y, x, y], -1)[:, :, None]
            found.append((place + around).reshape(-1, 4))
        return torch.tensor(np.concatenate(found), dtype=torch.float32)

    def loss(self, images: Any, mask: Any, targets: Targets) -> torch.Tensor:
        logits, offsets, sizes = self(images)
        anchors = self.anchors(sizes)
        size = anchors[:, 2:] - anchors[:, :2]
        centre = anchors[:, :2] + size / 2
        total = 0.0
        for score, offset, (boxes, labels) in zip(logits, offsets, targets):
            match = matches(boxes, anchors)
            own = match >= 0
            count = max(int(own.sum()), 1)
            wanted = torch.zeros_like(score)
            wanted[own, labels[match[own]]] = 1
            total = total + focal(score, wanted)[match != -2].sum() / count
            middle = centre[own] + offset[own, :2] * size[own]
            half = offset[own, 2:].clamp(max=math.log(62.5)).exp() * size[own] / 2
            found = torch.cat([middle - half, middle + half], 1)
            total = total + (1 - generalized_iou(found, boxes[match[own]])).sum() / count
        return total / len(targets)


def matches(boxes: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    """The box of each anchor, -1 for the background, -2 for those between."""
    low = torch.maximum(boxes[:, None, :2], anchors[None, :, :2])
    inter = (torch.minimum(boxes[:, None, 2:], anchors[None, :, 2:]) - low).clamp(0).prod(-1)
    areas = [(x[:, 2:] - x[:, :2]).prod(-1) for x in (boxes, anchors)]
    overlap = inter / (areas[0][:, None] + areas[1] - inter)
    best, match = overlap.max(0)
    found = torch.where(best >= 0.5, match, torch.where(best < 0.4, -1, -2))
    kept = (overlap == overlap.max(1, keepdim=True).values).any(0)
    return torch.where(kept, match, found)


def focal(logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Sigmoid focal loss, alpha 0.25, gamma 2. Lin et al., 2017."""
    ce = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    p = logits.sigmoid()
    right = p * wanted + (1 - p) * (1 - wanted)
    alpha = 0.25 * wanted + 0.75 * (1 - wanted)
    return alpha * (1 - right) ** 2 * ce
