"""A graph convolutional network (Kipf & Welling, 2017) and a graph attention network (Velickovic et
al., 2018), side by side, on a graph with four communities.

A node knows its community by a weak signal, and has a label in one of ten cases. The figure is the
larger share of unlabelled nodes that a network gets wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft

STEPS, GOAL = 80, 0.05
NODES, CLASSES, FEATURES, HEADS = 400, 4, 16, 4


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Any, edges: ft.Tensor) -> Any:
        degree = ft.sum(edges, axis=1, keepdims=True)
        return (edges / ft.sqrt(degree * degree.T)) @ self.linear(x)


class Attention(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        self.linear = nn.Linear(inputs, HEADS * outputs, bias=False)
        self.of, self.to = (nn.Parameter(ft.randn((HEADS, 1, outputs)) * 0.1) for _ in range(2))

    def forward(self, x: Any, edges: ft.Tensor) -> Any:
        x = ft.permute(ft.reshape(self.linear(x), (len(x), HEADS, -1)), (1, 0, 2))
        of, to = (ft.sum(x * part, axis=-1, keepdims=True) for part in (self.of, self.to))
        score = of + ft.swapaxes(to, 1, 2)
        score = ft.maximum(score, 0.2 * score)
        return ft.mean(ft.softmax(ft.where(edges > 0.0, score, -1e9), axis=-1) @ x, axis=0)


class Network(nn.Module):
    def __init__(self, kind: Callable[[int, int], nn.Module]) -> None:
        self.first, self.second = kind(FEATURES, 16), kind(16, CLASSES)

    def forward(self, x: Any, edges: ft.Tensor) -> Any:
        return self.second(ft.relu(self.first(x, edges)), edges)


def program() -> tuple[Callable[[], Any], Callable[[], float]]:
    """A step of both networks, and the figure."""
    ft.seed(0)
    draw = ft.Generator(1)
    labels = draw.integers(0, CLASSES, NODES)
    same = ft.expand_dims(labels, 1) == labels
    linked = draw.uniform((NODES, NODES)) < ft.where(same, 0.1, 0.005)
    edges = (linked | linked.T | ft.eye(NODES).astype(ft.bool)).astype(ft.float32)
    x = draw.normal((NODES, FEATURES)) + 0.7 * ft.one_hot(labels, FEATURES)
    known = NODES // 10
    networks = [Network(Convolution), Network(Attention)]
    optimizer = nn.Adam([p for n in networks for p in n.parameters()], lr=1e-2, weight_decay=5e-4)

    def step() -> Any:
        optimizer.zero_grad()
        losses = [nn.cross_entropy(n(x, edges)[:known], labels[:known]) for n in networks]
        loss = losses[0] + losses[1]
        loss.backward()
        optimizer.step()
        return loss

    def figure() -> float:
        with ag.no_grad():
            found = [ft.argmax(n(x, edges)[known:], axis=1) for n in networks]
        return max(ft.mean((f != labels[known:]).astype(ft.float32)).item() for f in found)

    return nn.compile(step), figure
