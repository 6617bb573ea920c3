"""Run by test_killed_saves: saves one number, then the next, in a loop, until it is killed."""

from __future__ import annotations

import itertools
import sys

import fl_nn as nn
import fl_tensor as ft

path, kind = sys.argv[1:]
model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)])
for number in itertools.count(1):
    for parameter in model.parameters():
        parameter.tensor = ft.full(parameter.shape, float(number))
    if kind == "checkpoint":
        nn.save_checkpoint(path, model, position={"step": number})
    else:
        nn.save_weights(path, model, shard_size=30_000 if kind == "shards" else None)
    print(number, flush=True)
