"""A training run with everything that has state, for test_kill.py.

`python kill_program.py OPTIMIZER FOLDER WORKERS` goes on with the run in FOLDER, if there is a
checkpoint, and says which steps are safe. WORKERS, "threads" or "processes", make the batches.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import fl_data as data
import fl_nn as nn
import fl_tensor as ft

EPOCHS, SAMPLES, SIZE, ACCUMULATE = 3, 46, 4, 2
STEPS = EPOCHS * 6  # 12 batches, two of which make a step

OPTIMIZERS: dict[str, Callable[..., nn.Optimizer]] = {
    "SGD": lambda p: nn.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "NAG": lambda p: nn.NAG(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: nn.Adam(p, lr=0.05),
    "AdamW": lambda p: nn.AdamW(p, lr=0.05),
    "AMSgrad": lambda p: nn.AMSgrad(p, lr=0.05),
    "Adagrad": lambda p: nn.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: nn.Adadelta(p, lr=1.0),
    "RMSprop": lambda p: nn.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Novograd": lambda p: nn.Novograd(p, lr=0.05),
    "LAMB": lambda p: nn.LAMB(p, lr=0.05),
    "Lion": lambda p: nn.Lion(p, lr=0.01),
    "Adafactor": lambda p: nn.Adafactor(p, lr=0.05),
    "SparseAdam": lambda p: nn.SparseAdam(p, lr=0.05),
}


class Counting(nn.Module):
    """Counts how often it is trained on each sample; `order` tells apart one order from another."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.register_buffer("seen", ft.zeros(SAMPLES, ft.int64))
        self.register_buffer("order", ft.zeros((), ft.int64))

    def forward(self, numbers: Any, x: Any) -> Any:
        if self.training:
            places = ft.arange(1, len(numbers) + 1)
            self.seen = self.seen + ft.sum(ft.one_hot(numbers, SAMPLES, ft.int64), axis=0)
            self.order = (31 * self.order + ft.sum(numbers * places)) % 1_000_003
        return self.network(x)


class Bag(nn.Module):
    """The sum of the rows of a table that are asked for."""

    def __init__(self) -> None:
        self.table = nn.Embedding(16, 3, sparse=True)

    def forward(self, x: Any) -> Any:
        rows = ft.clip(ft.floor(x * 4.0 + 8.0), 0.0, 15.0).astype(ft.int64)
        return ft.sum(self.table(rows), axis=1)


class Tell(nn.Callback):
    def on_fit_start(self, trainer: nn.Trainer) -> None:
        print("began", flush=True)

    def on_checkpoint(self, trainer: nn.Trainer, path: Path) -> None:
        if path == trainer.checkpoint:
            print(trainer.step, flush=True)


def samples() -> data.Dataset:
    x = ft.randn((SAMPLES, 6), ft.Generator(1))
    y = (x[:, 0] > x[:, 1]).astype(ft.int64) + (x[:, 2] > 0.5).astype(ft.int64)
    return data.TensorDataset(ft.arange(SAMPLES), x, y)


def noise(sample: Any, generator: ft.Generator) -> Any:
    number, x, y = sample
    return number, x + generator.normal(x.shape) * 0.1, y


def train(
    optimizer: str, folder: Path, workers: str = "threads", *callbacks: nn.Callback
) -> nn.Trainer:
    """The run from where it is to its end."""
    ft.seed(0)
    bag = nn.Sequential(Bag(), nn.Dropout(0.1))
    dense = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3),
    )  # fmt: skip
    model = Counting(bag if optimizer == "SparseAdam" else dense)
    updates = OPTIMIZERS[optimizer](model.parameters())
    run = nn.Trainer(
        model,
        updates,
        nn.cross_entropy,
        callbacks=[*callbacks, nn.ClipGradNorm(0.5), nn.EarlyStop(patience=9), nn.KeepBest(2)],
        meters={"error": nn.FrameErrorMeter()},
        schedule=nn.CosineAnnealingLR(updates, 2 * STEPS),
        accumulate=ACCUMULATE,
        ema=nn.EMA(model, 0.8),
        precision="O1",
        scaler=nn.DynamicLossScaler(1024.0, growth_interval=5),
        out=folder,
        checkpoint_every=1,
        log_every=1,
        progress=False,
    )
    if run.checkpoint.exists():
        run.resume()
    noisy = data.RandomTransform(data.Shuffle(samples(), seed=3), noise)
    count = {"threads": 2} if workers == "threads" else {"processes": 1}
    batches = data.Prefetch(data.Batch(noisy, SIZE), depth=3, **count)
    run.fit(batches, data.Batch(samples(), 15), epochs=EPOCHS)
    return run


def apart(optimizer: str, folder: Path) -> nn.Trainer:
    """`train` in a context of its own."""
    return copy_context().run(train, optimizer, folder)


if __name__ == "__main__":
    train(sys.argv[1], Path(sys.argv[2]), sys.argv[3], Tell())
    time.sleep(600)  # it is to be killed, not to end
