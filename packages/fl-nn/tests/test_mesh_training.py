"""Data, tensor and pipeline parallelism together train as one process does."""

from __future__ import annotations

import pytest
from test_sharded import close, values

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft
from fl_nn import parallel


class Block(nn.Module):
    def __init__(self, comm=None):
        self.norm = nn.LayerNorm(8)
        if comm is None:
            self.attend = nn.MultiHeadAttention(8, 2)
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        else:
            self.attend = parallel.ParallelMultiHeadAttention(8, 2, comm)
            self.up = parallel.ColumnParallelLinear(8, 16, comm)
            self.down = parallel.RowParallelLinear(16, 8, comm)

    def forward(self, x):
        x = x + self.attend(self.norm(x))
        return x + self.down(ft.tanh(self.up(x)))


def batch(step):
    g = ft.Generator(step)
    return ft.randn((8, 3, 8), g), ft.randn((8, 3, 8), g)


STEPS = 3  # of SGD: Adam follows the rounding of the gradients of key biases, which are 0


def train_plain():
    ft.seed(0)
    model = nn.Sequential(Block(), Block())
    optimizer, figures = nn.SGD(model.parameters(), lr=0.5, momentum=0.9), []
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = nn.mse(model(x), y)
        loss.backward()
        norm = nn.clip_grad_norm_(optimizer.parameters, 0.1)
        optimizer.step()
        figures.append((loss.item(), norm.item()))
    return figures, values(model.state_dict())


def train(comm, sizes, stage):
    mesh = dist.mesh(comm, *sizes)
    ft.seed(0)
    stages = [Block(mesh.tensor), Block(mesh.tensor)]
    if mesh.pipe.world_size == 1:
        stages = [nn.Sequential(*stages)]
    pipe = parallel.Pipeline(stages, mesh.pipe, 2)
    optimizer = nn.SGD(pipe.model.parameters(), lr=0.5, momentum=0.9)
    sharded = parallel.Sharded(mesh.data, pipe.model, optimizer, stage)
    figures = []
    for step in range(STEPS):
        x, y = (part[mesh.data.rank :: mesh.data.world_size] for part in batch(step))
        sharded.zero_grad()
        loss = pipe.forward_backward(x, y, nn.mse)
        norm = sharded.clip_grad_norm_(0.1, over=(mesh.pipe,))
        sharded.step()
        loss = mesh.data.all_reduce(ft.asarray(loss, ft.float64), "mean").item()
        figures.append((loss, norm.item()))
    state = values(sharded.state_dict())
    if mesh.pipe.world_size > 1:
        state = {f"{mesh.pipe.rank}.{name}": x for name, x in state.items()}
    return figures, state


@pytest.mark.parametrize(
    "sizes, stage",
    [
        ((2, 2, 2), 1),
        ((2, 2, 2), 2),
        ((2, 2, 2), 3),
        ((1, 2, 2), 2),
        ((2, 1, 2), 3),
        ((2, 2, 1), 3),
    ],
)
def test_all_kinds_together_train_as_one_process(sizes, stage):
    figures, expected = train_plain()
    ranks = sizes[0] * sizes[1] * sizes[2]
    for found, state in dist.threads.run(ranks, train, sizes, stage):
        for (loss, norm), (plain, plain_norm) in zip(found, figures, strict=True):
            assert loss == pytest.approx(plain, abs=1e-5)
            assert norm == pytest.approx(plain_norm, rel=1e-4)
        close(state, {name: expected[name] for name in state})
