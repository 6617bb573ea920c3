"""The training of a recogniser: from lists of recordings to weights."""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_data import Dataset, Prefetch
from fl_dist import Communicator, local
from fl_speech.recipe import Recipe
from fl_speech.recogniser import Recogniser, load_recogniser, save_recogniser
from fl_speech.training.data import Source, statistics, training_batches, valid_batches
from fl_speech.training.optimisation import make_optimizer, make_schedule
from fl_speech.training.pseudo_labels import PseudoLabels
from fl_speech.training.switches import StepSwitches, TrainingLoss
from fl_speech.training.validation import Validate
from fl_text import Dictionary, Lexicon

METADATA = "fl_speech"


@dataclass(frozen=True)
class Lists:
    """The recordings of a training: sequences of `fl_speech.datasets.Utterance`.

    valid   validation lists by name; weights are chosen by the word error rate of the first
    unlabelled   recordings whose words are not looked at: the training labels them itself, as the
                 recipe says (`relabel_epochs`)
    """

    train: Any
    tokens: Dictionary
    lexicon: Lexicon | None = None
    valid: Mapping[str, Any] = field(default_factory=dict)
    skip_bad: bool = False
    unlabelled: Any = ()


@dataclass(frozen=True)
class Output:
    """What a run leaves behind in `folder` (None: nothing): checkpoint, log, recogniser.

    checkpoint_every  a checkpoint also every so many steps; 0: after epochs alone
    """

    folder: Path | None = None
    checkpoint_every: int = 0
    tensorboard: bool = False
    resume: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class Trained:
    """The result of `train_recogniser`: the recogniser, in evaluation mode with the weights of the
    lowest word error rate on the first validation list, or else the last; the records of the
    epochs; and of each list the lowest rate and its epoch."""

    recogniser: Recogniser
    history: list[dict[str, Any]]
    best: dict[str, tuple[float, int]]
    skipped: int = 0


def train_recogniser(
    recipe: Recipe,
    lists: Lists,
    out: Output | None = None,
    *,
    arch: str = "",
    begin: Recogniser | None = None,
    communicator: Communicator | None = None,
    prefetch: int = 0,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> Trained:
    """Train a recogniser; the ranks of `communicator`, which all call this, share every batch.

    arch      the text of the architecture file that the recipe names
    begin     a recogniser whose weights it begins with
    prefetch  batches made ahead by a thread
    notes     plain values to keep in the checkpoint

    The same recipe and lists give the same numbers to the bit, interrupted and resumed or not. The
    default generator of the caller is left alone. SIGINT, SIGTERM and SIGHUP end it after a step
    and a checkpoint: `fl_nn.Interrupted`. A loss or a gradient that is not finite is a
    `fl_nn.DivergenceError` that says where it began.
    """

    def run() -> Trained:
        ft.set_default_generator(ft.Generator(recipe.seed))
        return _run(
            recipe,
            lists,
            out or Output(),
            arch,
            begin,
            communicator or local(),
            prefetch,
            progress,
            dict(notes or {}),
        )

    return contextvars.copy_context().run(run)


def _run(
    recipe: Recipe,
    lists: Lists,
    out: Output,
    arch: str,
    begin: Recogniser | None,
    communicator: Communicator,
    prefetch: int,
    progress: bool,
    notes: dict[str, Any],
) -> Trained:
    found = statistics(recipe, lists.train) if recipe.normalise == "global" else None
    effects = None
    if recipe.effects:
        from fl_speech.effects import read_effects

        effects = read_effects(recipe.effects)
    recogniser = Recogniser(recipe, lists.tokens, lists.lexicon, arch=arch, statistics=found)
    if begin is not None:
        recogniser.load_state_dict(begin.state_dict())
    source = Source(recogniser, effects, lists.skip_bad)
    labels = _pseudo_labels(source, lists, out, communicator)
    if labels is None:
        batches = training_batches(source, lists.train, communicator, prefetch)
    else:
        made = labels.batches
        batches = Prefetch(made, threads=1, depth=prefetch) if prefetch else made
    optimizer = make_optimizer(recipe, recogniser)
    steps = recipe.epochs * -(-len(batches) // recipe.accumulate)
    validate = Validate(recogniser, _valid(source, lists, communicator))
    loss = TrainingLoss(recipe, recogniser)
    switches = StepSwitches(recipe, recogniser, loss)
    callbacks: list[nn.Callback] = [switches, validate]
    if labels is not None:
        callbacks.append(labels)
    if recipe.clip:
        callbacks.insert(0, nn.ClipGradNorm(recipe.clip))
    if out.tensorboard:
        callbacks.append(nn.TensorBoard())
    trainer = nn.Trainer(
        recogniser,
        optimizer,
        loss,
        callbacks=callbacks,
        communicator=communicator,
        out=out.folder,
        overwrite=out.overwrite,
        checkpoint_every=out.checkpoint_every or None,
        log_every=1,
        progress=progress,
        schedule=make_schedule(recipe, optimizer, steps),
        accumulate=recipe.accumulate,
        ema=nn.EMA(recogniser, recipe.ema, warm_up=True) if recipe.ema else None,
        compiled=recipe.compiled,
        precision="O1" if recipe.amp else None,
        scaler=nn.DynamicLossScaler() if recipe.amp else None,
        metadata={METADATA: {**notes, "recipe": recipe.values()}},
    )
    if out.resume:
        trainer.resume()
    elif out.folder is not None and communicator.rank == 0:
        with nn.run_folder(out.folder):
            save_recogniser(out.folder, recogniser)
    trainer.fit(batches, epochs=recipe.epochs)
    if out.folder is not None:
        communicator.barrier()  # rank 0 has written it
        recogniser = load_recogniser(out.folder, run_code=True)
    elif trainer.ema is not None:
        trainer.ema.copy_to()
    recogniser.eval()
    return Trained(recogniser, trainer.history, validate.best, len(source.skipped))


def _valid(source: Source, lists: Lists, communicator: Communicator) -> dict[str, Dataset]:
    return {
        name: valid_batches(source, utterances, communicator)
        for name, utterances in lists.valid.items()
    }


def _pseudo_labels(
    source: Source, lists: Lists, out: Output, communicator: Communicator
) -> PseudoLabels | None:
    if not len(lists.unlabelled) and not source.recogniser.recipe.relabel_epochs:
        return None
    return PseudoLabels(
        source,
        lists.train,
        lists.unlabelled,
        communicator,
        folder=out.folder,
        valid=next(iter(lists.valid), None),
    )
