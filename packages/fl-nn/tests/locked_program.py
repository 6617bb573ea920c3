"""A training in its own process: `python locked_program.py FOLDER NAME [--resume]`.

It says "training" after its first step, and makes steps until the file FOLDER/stop is there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import fl_nn as nn
import fl_tensor as ft

folder, name = Path(sys.argv[1]), sys.argv[2]


class UntilStopped(nn.Callback):
    def on_step(self, trainer: nn.Trainer) -> None:
        print("training", trainer.step, flush=True)
        time.sleep(0.001)
        if (folder / "stop").exists():
            trainer.stop("it was told to")


model = nn.Linear(2, 1)
run = nn.Trainer(
    model, nn.SGD(model.parameters(), lr=0.0), nn.mse, callbacks=[UntilStopped()], out=folder,
    log_every=1, checkpoint_every=3, progress=False, metadata={"name": name},
)  # fmt: skip
try:
    if "--resume" in sys.argv and run.checkpoint.exists():
        run.resume()
    run.fit([(ft.ones((1, 2)), ft.ones((1, 1)))] * 50, epochs=100_000)
except nn.RunFolderError as error:
    print(error, flush=True)
    sys.exit(3)
