"""Error rates of validation lists after each epoch, and the best weights for each list."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_data import Dataset
from fl_dist import Communicator
from fl_speech.recogniser import WEIGHTS, Recogniser


def measure(recogniser: Recogniser, batches: Dataset, communicator: Communicator) -> dict[str, Any]:
    """`loss`, and `ler` and `wer` in percent of labels and words by the best path, over batches
    (features, lengths, targets); over those of all ranks."""
    loss = nn.AverageValueMeter()
    labels, words = nn.EditDistanceMeter(), nn.EditDistanceMeter()
    with nn.evaluating(recogniser), ft.reproducible():
        batches.set_epoch(batches.epoch)
        fields: Any
        for fields in batches.iterate():
            features, lengths, targets = fields
            if not len(targets):
                continue
            emissions, counts = recogniser(features, lengths)
            value = recogniser.criterion((emissions, counts), targets)
            loss.add(float(value.item()), len(targets))
            paths = recogniser.criterion.best_path(emissions, counts)
            for path, target in zip(paths, targets.tolist()):
                heard = recogniser.reader.prediction(path)
                true = recogniser.reader.target(target)
                labels.add(heard.tokens, true.tokens)
                words.add(heard.words, true.words)
    for meter in (loss, labels, words):
        meter.sync(communicator)
    return {"loss": loss.result(), "ler": labels.result(), "wer": words.result()}


class Validate(nn.Callback):
    """Measures the recogniser on each list after every epoch: figures `NAME_loss`, `NAME_ler` and
    `NAME_wer` of the history, the same without training for `train`. Keeps the weights of the
    lowest word error rate of each list as `weights-NAME.safetensors`, those of the first list also
    as `weights.safetensors`."""

    def __init__(self, recogniser: Recogniser, lists: Mapping[str, Dataset]) -> None:
        self.recogniser, self.lists = recogniser, dict(lists)
        #: Of each list, the lowest word error rate, and its epoch.
        self.best: dict[str, tuple[float, int]] = {}

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        averages = trainer.ema.applied() if trainer.ema is not None else contextlib.nullcontext()
        precision = trainer.precision
        casting = contextlib.nullcontext() if precision is None else ag.autocast(precision)
        with averages:
            for name, batches in self.lists.items():
                with casting:
                    found = measure(self.recogniser, batches, trainer.communicator)
                record |= {f"{name}_{figure}": value for figure, value in found.items()}
                if self._improves(name, found["wer"]):
                    self.best[name] = (found["wer"], record["epoch"])
                    self._keep(trainer, name)
            if not self.lists:
                self._keep(trainer, None)

    def _improves(self, name: str, rate: float) -> bool:
        before = self.best.get(name, (math.inf, 0))[0]
        return name not in self.best or rate < before

    def _keep(self, trainer: nn.Trainer, name: str | None) -> None:
        if trainer.out is None or trainer.communicator.rank:
            return
        if name is not None:
            nn.save_weights(trainer.out / weights_of(name), self.recogniser)
        if name is None or name == next(iter(self.lists)):
            nn.save_weights(trainer.out / WEIGHTS, self.recogniser)

    def state_dict(self) -> dict[str, Any]:
        """Plain values: of each list the lowest rate and its epoch."""
        return {"best": {name: list(pair) for name, pair in self.best.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Raises StateDictError when it is of another callback."""
        best = state.get("best")
        if not isinstance(best, Mapping) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in best.values()
        ):
            raise nn.StateDictError("this is not the state of a Validate")
        self.best = {str(name): (float(pair[0]), int(pair[1])) for name, pair in best.items()}


def weights_of(name: str) -> Path:
    """The file with the best weights of a list."""
    return Path(f"weights-{name}.safetensors")
