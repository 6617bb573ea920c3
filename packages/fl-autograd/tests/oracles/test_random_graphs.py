"""Random graphs beside PyTorch's: values that are used many times over, slices and joints, writing
in place, parts under ``checkpoint``; gradients, and gradients of gradients, in float64 to 1e-8.

FL_ORACLE_SEED repeats a run, FL_ORACLE_COUNT times 4 is the number of graphs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")

SEED = int(os.environ.get("FL_ORACLE_SEED") or int.from_bytes(os.urandom(4), "big"))
COUNT = 4 * int(os.environ.get("FL_ORACLE_COUNT") or 25)
BOUND = 1e-8
INPUTS = 3

Pair = tuple[Callable[[Any, Any, int], Any], Callable[[Any, Any, int], Any]]


def written(x: Any, y: Any, i: int) -> Any:
    z = x * 1.0
    z[i] = y[0]
    return z


def rows(library: Any, x: Any, y: Any) -> Any:
    first, *others = library.split(x, 1 if library is torch else x.shape[0], 0)
    total = first * y
    for row in others:
        total = total + row
    return total


def both(function: Callable[[Any, Any, int], Any]) -> Pair:
    return function, function


def product(library: Any) -> Callable[[Any, Any], Any]:
    return lambda x, y: library.tanh(x) @ y * 0.3


#: Functions of two square matrices and the number of a row, ours and PyTorch's.
OPERATIONS: dict[str, Pair] = {
    "add": both(lambda x, y, i: x + y),
    "multiply": both(lambda x, y, i: x * y * 0.5),
    "divide": both(lambda x, y, i: x / (1.5 + y * y)),
    "matmul": both(lambda x, y, i: x @ y * 0.3),
    "slice": both(lambda x, y, i: x[:, i : i + 1] + y),
    "reversed": (lambda x, y, i: ft.flip(x, 0) + y[i], lambda x, y, i: torch.flip(x, (0,)) + y[i]),
    "written": both(written),
    "split": (lambda x, y, i: rows(ft, x, y), lambda x, y, i: rows(torch, x, y)),
    "joint": (
        lambda x, y, i: ft.concatenate([x[:i], y[i:]]),
        lambda x, y, i: torch.cat([x[:i], y[i:]]),
    ),
    "rows": (
        lambda x, y, i: y + ft.sum(ft.gather(x, ft.asarray([i, 0, i])), 0),
        lambda x, y, i: y + x[[i, 0, i]].sum(0),
    ),
    "sum": (lambda x, y, i: x + 0.2 * ft.sum(y, 0), lambda x, y, i: x + 0.2 * y.sum(0)),
    "max": (
        lambda x, y, i: x - ft.max(x, 1, keepdims=True),
        lambda x, y, i: x - x.amax(1, keepdim=True),
    ),
    "where": (
        lambda x, y, i: ft.where(x > y, x, y * 2.0),
        lambda x, y, i: torch.where(x > y, x, y * 2.0),
    ),
    "softmax": (lambda x, y, i: ft.softmax(x, 1), lambda x, y, i: torch.softmax(x, 1)),
    "logsumexp": (
        lambda x, y, i: y - ft.logsumexp(x, 1, keepdims=True),
        lambda x, y, i: y - torch.logsumexp(x, 1, keepdim=True),
    ),
    "norm": (
        lambda x, y, i: x / (1.0 + ft.norm(y)),
        lambda x, y, i: x / (1.0 + torch.linalg.vector_norm(y)),
    ),
    "cumulative": (
        lambda x, y, i: ft.cumulative_sum(x, axis=1) * 0.5,
        lambda x, y, i: torch.cumsum(x, 1) * 0.5,
    ),
    "checkpoint": (
        lambda x, y, i: ag.checkpoint(product(ft), x, y),
        lambda x, y, i: product(torch)(x, y),
    ),
}


class Graph:
    """Operations in a row, each on two values that came before."""

    def __init__(self, draw: random.Random) -> None:
        self.size = draw.randint(2, 4)
        self.steps = [
            (
                draw.choice(list(OPERATIONS)),
                draw.randrange(count),
                draw.randrange(count),
                draw.randrange(self.size),
            )
            for count in range(INPUTS, INPUTS + draw.randint(5, 25))
        ]

    def loss(self, library: Any, inputs: list[Any]) -> Any:
        values = list(inputs)
        for name, a, b, row in self.steps:
            operation = OPERATIONS[name][library is torch]
            values.append(operation(values[a], values[b], row))
        return sum(library.sum(library.tanh(value)) for value in values[-4:])


def gradients(library: Any, graph: Graph, inputs: list[Any]) -> list[Any]:
    """Of the first and the second order; None where there is none."""
    grad = torch.autograd.grad if library is torch else ag.grad
    first = grad(graph.loss(library, inputs), inputs, create_graph=True, allow_unused=True)
    slope = sum(library.sum(g * g) for g in first if g is not None)
    tracked = getattr(slope, "requires_grad", False)
    second = grad(slope, inputs, allow_unused=True) if tracked else [None] * INPUTS
    return [*first, *second]


def values_of(found: list[Any], size: int) -> Any:
    zeros = np.zeros((size, size))
    return np.stack([zeros if g is None else np.asarray(g.detach()) for g in found])


def test_gradients_of_random_graphs() -> None:
    for number in range(COUNT):
        draw = random.Random(f"{SEED} {number}")
        graph = Graph(draw)
        rng = np.random.default_rng(draw.getrandbits(32))
        inputs = [rng.standard_normal((graph.size, graph.size)) for _ in range(INPUTS)]
        mine = [ag.Variable(ft.asarray(x), requires_grad=True) for x in inputs]
        found = values_of(gradients(ft, graph, mine), graph.size)
        theirs = [torch.tensor(x, requires_grad=True) for x in inputs]
        expected = values_of(gradients(torch, graph, theirs), graph.size)
        graph.loss(ft, mine).backward()
        leaves = values_of([x.grad for x in mine], graph.size)
        where = f"graph {number} (FL_ORACLE_SEED={SEED}): {graph.steps}"
        for name, one in {"grad": found, "backward": leaves}.items():
            other = expected[: len(one)]
            scale = np.max(np.abs(other), axis=(1, 2), keepdims=True)
            assert np.all(np.abs(one - other) <= BOUND * (1.0 + scale)), f"{name} of {where}"
