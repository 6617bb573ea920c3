"""The training of a classifier of short texts."""

from __future__ import annotations

import contextvars
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_data import (
    Batch,
    Dataset,
    Sample,
    Shuffle,
    Transform,
    Weighted,
    check_index,
    mix,
    pad_collate,
)
from fl_dist import Communicator, local
from fl_tensor.annotations import checked
from fl_text.classification.classifier import (
    TextClassifier,
    load_text_classifier,
    save_text_classifier,
)
from fl_text.classification.labelled import LabelledTexts
from fl_text.classification.recipe import ClassifierRecipe
from fl_text.errors import RecipeError
from fl_text.models import GRUClassifier
from fl_text.tokenizer import Tokenizer

METADATA = "fl_text.classification"
_ORDER, _HELD = 1, 2


@dataclass(frozen=True)
class TrainedClassifier:
    """The result of `train_text_classifier`.

    classifier  with the weights of the lowest validation loss, or else the last
    history     a record for every epoch; `valid_accuracy` is in percent
    """

    classifier: TextClassifier
    history: list[dict[str, Any]]


@checked
def train_text_classifier(
    recipe: ClassifierRecipe,
    train: LabelledTexts,
    valid: LabelledTexts | None = None,
    out: str | os.PathLike[str] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    communicator: Communicator | None = None,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> TrainedClassifier:
    """Train a `GRUClassifier`; the ranks of `communicator`, which all call this, share every batch.

    valid  texts that choose the weights; `recipe.valid_share` of `train` unless given
    out    a folder for checkpoint, log and the classifier
    notes  plain values to keep in the checkpoint

    The same recipe and texts give the same numbers to the bit, interrupted and resumed or not. The
    default generator of the caller is left alone. Raises `RecipeError` for classes without texts
    and for other classes in `valid`; SIGINT, SIGTERM and SIGHUP end it after a step and a
    checkpoint: `fl_nn.Interrupted`.
    """
    if valid is None:
        train, valid = train.split(recipe.valid_share, mix(recipe.seed, _HELD))
    if list(valid.classes) != list(train.classes):
        raise RecipeError("the texts of training and validation have other classes: give the same")
    for name, count in zip(train.classes, train.counts()):
        if not count:
            raise RecipeError(f"class {name!r} has no text to learn from: add some, or remove it")
    measured = valid if len(valid) else None

    def run() -> TrainedClassifier:
        ft.set_default_generator(ft.Generator(recipe.seed))
        world = communicator or local()
        folder = None if out is None else Path(out)
        tokenizer = Tokenizer.train(train.texts, "char", recipe.vocabulary, min_frequency=1)
        network = GRUClassifier(
            len(tokenizer), len(train.classes), recipe.size, recipe.layers, recipe.dropout
        )
        best = _Best(TextClassifier(network, tokenizer, train.classes), folder, world)
        optimizer = _optimizer(recipe, network)
        trainer = nn.Trainer(
            network,
            optimizer,
            nn.cross_entropy,
            callbacks=[*([nn.ClipGradNorm(recipe.clip)] if recipe.clip else []), best],
            communicator=world,
            meters={"accuracy": nn.AccuracyMeter()},
            out=folder,
            overwrite=overwrite,
            log_every=1,
            progress=progress,
            metadata={METADATA: {**(notes or {}), "recipe": recipe.values()}},
        )
        if resume:
            trainer.resume()
        rank, ranks = world.rank, world.world_size
        held = None if measured is None else _batches(measured, tokenizer, 64, rank, ranks)
        trainer.fit(_training(recipe, train, tokenizer, rank, ranks), held, epochs=recipe.epochs)
        return TrainedClassifier(best.restored(), trainer.history)

    return contextvars.copy_context().run(run)


class _Texts(Dataset):
    """Samples (tokens (T,), class)."""

    def __init__(self, data: LabelledTexts, tokenizer: Tokenizer) -> None:
        self._rows = list(tokenizer.encode_corpus(data.texts))
        self._labels = data.labels

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sample:
        at = check_index(index, len(self), "LabelledTexts")
        return ft.asarray(self._rows[at], ft.int64), ft.asarray(self._labels[at], ft.int64)


def _training(
    recipe: ClassifierRecipe, data: LabelledTexts, tokenizer: Tokenizer, rank: int, ranks: int
) -> Dataset:
    ds: Dataset = _Texts(data, tokenizer)
    seed = mix(recipe.seed, _ORDER)
    if recipe.balanced:
        counts = data.counts()
        length = max(1, int(recipe.epoch_share * len(data)))
        ds = Weighted(ds, [1 / counts[label] for label in data.labels], length, seed=seed)
    else:
        ds = Shuffle(ds, seed)
    return _batched(ds, tokenizer, recipe.batch_size, rank, ranks)


def _batches(
    data: LabelledTexts, tokenizer: Tokenizer, size: int, rank: int, ranks: int
) -> Dataset:
    return _batched(_Texts(data, tokenizer), tokenizer, size, rank, ranks)


def _batched(ds: Dataset, tokenizer: Tokenizer, size: int, rank: int, ranks: int) -> Dataset:
    """Batches (tokens (N, T), lengths (N,), classes (N,))."""
    collate = pad_collate({0: tokenizer.need("pad")}, lengths=True)
    made = Batch(ds, size, collate=collate, rank=rank, world_size=ranks)
    return Transform(made, lambda batch: (batch[0], batch[2], batch[1]))


def _optimizer(recipe: ClassifierRecipe, network: nn.Module) -> nn.Optimizer:
    parameters, lr, decay = network.parameters(), recipe.lr, recipe.weight_decay
    if recipe.optimizer == "sgd":
        return nn.SGD(parameters, lr, momentum=recipe.momentum, weight_decay=decay)
    kind = nn.AdamW if recipe.optimizer == "adamw" else nn.Adam
    return kind(parameters, lr, weight_decay=decay)


class _Best(nn.Callback):
    """Keeps the weights of the lowest validation loss, in the folder of the run if there is one.
    Without validation the last ones."""

    def __init__(
        self, classifier: TextClassifier, folder: Path | None, communicator: Communicator
    ) -> None:
        self.classifier, self.folder, self.communicator = classifier, folder, communicator
        self.lowest: float | None = None
        self.weights: dict[str, Any] = {}

    def on_epoch_end(self, trainer: nn.Trainer, record: dict[str, Any]) -> None:
        loss = record.get("valid_loss", -float(record["epoch"]))
        if self.lowest is not None and loss >= self.lowest:
            return
        self.lowest = loss
        if self.folder is None:
            self.weights = self.classifier.network.state_dict()
        elif self.communicator.rank == 0:
            save_text_classifier(self.folder, self.classifier)

    def restored(self) -> TextClassifier:
        """The classifier with the best weights."""
        if self.folder is not None:
            self.communicator.barrier()  # rank 0 has written it
            return load_text_classifier(self.folder)
        self.classifier.network.load_state_dict(self.weights)
        self.classifier.network.eval()
        return self.classifier

    def state_dict(self) -> dict[str, Any]:
        return {"lowest": self.lowest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        lowest = state.get("lowest")
        if lowest is not None and not isinstance(lowest, float):
            raise nn.StateDictError("this is not the state of a classifier's training")
        self.lowest = lowest
