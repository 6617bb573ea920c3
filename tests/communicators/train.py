"""A training run for every launcher: ``python train.py [DTYPE]`` on one rank, or on many.

Each batch is divided among the ranks. Rank 0 prints the loss of each step, as JSON.
"""

from __future__ import annotations

import json
import sys

import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft

STEPS, BATCH, FEATURES, CLASSES = 20, 24, 12, 3


def train(comm: dist.Communicator, dtype: str = "float32") -> list[float]:
    """The losses of all ranks together."""
    generator = ft.Generator(1)
    model = nn.Sequential(
        nn.Linear(FEATURES, 32, generator=generator),
        nn.Tanh(),
        nn.Linear(32, CLASSES, generator=generator),
    ).astype(dtype)
    parameters = list(model.parameters())
    optimizer = nn.SGD(parameters, lr=0.2, momentum=0.9)
    samples = ft.Generator(2)
    losses = []
    for _ in range(STEPS):
        x = ft.randn((BATCH, FEATURES), samples).astype(ft.dtype(dtype))
        y = (x[:, 0] > 0.0).astype(ft.int64) + (x[:, 1] > 0.5).astype(ft.int64)
        share = slice(*(BATCH * (comm.rank + i) // comm.world_size for i in (0, 1)))
        optimizer.zero_grad()
        loss = nn.cross_entropy(model(x[share]), y[share])
        loss.backward()
        gradients = comm.all_reduce_many([p.grad.tensor for p in parameters], "mean")
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimizer.step()
        losses.append(comm.all_reduce(loss.tensor, "mean").item())
    return losses


if __name__ == "__main__":
    with dist.init(timeout=120) as comm:
        found = train(comm, *sys.argv[1:])
        if comm.rank == 0:
            print(json.dumps(found))
