"""Trains on the ranks of `fl-dist run`, and goes on from its checkpoint; rank 1 of the first
generation kills itself. The last line of each rank is the loss of the last epoch."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import fl_data as data
import fl_dist as dist
import fl_nn as nn
import fl_tensor as ft


class Kill(nn.Callback):
    def on_step(self, trainer):
        info = dist.environment()
        if trainer.step == 8 and info.rank == 1 and info.generation == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main():
    folder, killed = Path(sys.argv[1]), sys.argv[2] == "killed"
    x = ft.randn((37, 3), ft.Generator(1), dtype=ft.float64)
    source = data.TensorDataset(x, (x[:, 0] < x[:, 1]).astype(ft.int64))
    with dist.init() as communicator:
        ft.seed(communicator.rank)
        place = {"rank": communicator.rank, "world_size": communicator.world_size}
        batches = data.Batch(data.Shuffle(source, seed=2), 8, **place)
        model = nn.Sequential(
            nn.Linear(3, 8), nn.Tanh(), nn.Dropout(float(sys.argv[3])), nn.Linear(8, 2)
        ).to("float64")  # fmt: skip
        for number, parameter in enumerate(model.parameters()):
            parameter.tensor = ft.randn(parameter.shape, ft.Generator(number), dtype=ft.float64)
        run = nn.Trainer(
            model,
            nn.AdamW(model.parameters(), lr=0.05),
            nn.cross_entropy,
            communicator=communicator,
            callbacks=[Kill()] if killed else [],
            out=folder,
            checkpoint_every=1,
            progress=False,
        )
        if run.checkpoint.exists():
            run.resume()
        history = run.fit(batches, epochs=3)
        if communicator.rank == 0:
            print("loss", history[-1]["train_loss"].hex(), communicator.world_size)


if __name__ == "__main__":
    main()
