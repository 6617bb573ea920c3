"""The training of a language model: from texts to weights."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_dist import Communicator, local
from fl_nn import lora
from fl_tensor.annotations import explained
from fl_text.corpus import TextFiles, as_texts
from fl_text.datasets.token_file import TokenFile
from fl_text.errors import RecipeError
from fl_text.language_model_folder import (
    WEIGHTS,
    LanguageModelFolder,
    load_language_model,
    save_language_model,
)
from fl_text.recipe import Recipe
from fl_text.tokenizer import Tokenizer
from fl_text.training.carrying import CarriedState
from fl_text.training.data import (
    Texts,
    make_tokenizer,
    token_counts,
    training_batches,
    valid_batches,
)
from fl_text.training.networks import KINDS, make_network, network_settings, target_names
from fl_text.training.objective import Objective, has_places
from fl_text.training.optimisation import Limits, Schedule, make_optimizer
from fl_text.training.streaming import StreamBatches, StreamPlace
from fl_text.training.validation import Figures, Validate

METADATA, ADAPTER = "fl_text", "adapter"


@dataclass(frozen=True)
class Output:
    """What a run leaves behind in `folder` (None: nothing): checkpoint, log, language model.

    checkpoint_every  a checkpoint also every so many steps; 0: after epochs alone
    """

    folder: Path | None = None
    checkpoint_every: int = 0
    tensorboard: bool = False
    resume: bool = False
    overwrite: bool = False


@dataclass(frozen=True)
class Trained:
    """The result of `train_language_model`.

    model      with the weights of the lowest validation loss, or else the last
    history    the records of the epochs
    points     step and loss of each validation
    best       the lowest validation loss, nats a token, and `best_step`; infinity without one
    steps      updates that were made
    """

    model: LanguageModelFolder
    history: list[dict[str, Any]]
    points: list[dict[str, Any]]
    best: float
    best_step: int
    steps: int


@explained
def train_language_model(
    recipe: Recipe,
    train: Texts,
    valid: Texts | None = None,
    tokenizer: Tokenizer | None = None,
    out: Output | None = None,
    *,
    begin: LanguageModelFolder | None = None,
    communicator: Communicator | None = None,
    prefetch: int = 0,
    progress: bool = True,
    notes: Mapping[str, Any] | None = None,
) -> Trained:
    """Train a language model; the ranks of `communicator`, which all call this, share every batch.

    train, valid  texts, or a `TokenFile` of the tokenizer
    tokenizer     one of the kind that the recipe names is trained on `train` unless given
    begin         a model whose network, weights and tokenizer it begins with; settings of the
                  recipe for these are not looked at
    prefetch      batches made ahead by a thread
    notes         plain values to keep in the checkpoint

    The same recipe and texts give the same numbers to the bit, interrupted and resumed or not,
    unless the recipe limits minutes. The default generator of the caller is left alone. SIGINT,
    SIGTERM and SIGHUP end it after a step and a checkpoint: `fl_nn.Interrupted`. A loss or a
    gradient that is not finite is a `fl_nn.DivergenceError` that names the step.
    """

    if not isinstance(recipe, Recipe):
        raise RecipeError(f"a {type(recipe).__name__}: give a fl_text.recipe.Recipe")
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        raise RecipeError(f"tokenizer is a {type(tokenizer).__name__}: give a fl_text.Tokenizer")
    train = _readable_again(train)
    valid = None if valid is None else _readable_again(valid)

    def run() -> Trained:
        ft.set_default_generator(ft.Generator(recipe.seed))
        world, place = communicator or local(), out or Output()
        if begin is None:
            found = tokenizer or make_tokenizer(recipe, train)
            model = _new_model(recipe, train, found)
        else:
            model = _begun(recipe, begin)
        return _run(
            recipe, model, train, valid, place, world, prefetch, progress, dict(notes or {})
        )

    return contextvars.copy_context().run(run)


def _readable_again(texts: Texts) -> Texts:
    """Texts that can be read several times."""
    if isinstance(texts, TokenFile | TextFiles):
        return texts
    return list(as_texts(texts, "train_language_model"))


def _new_model(recipe: Recipe, train: Texts, tokenizer: Tokenizer) -> LanguageModelFolder:
    draws = recipe.head in ("sampled", "noise_contrastive")
    counts = token_counts(train, tokenizer) if draws else ()
    return LanguageModelFolder(
        make_network(recipe, len(tokenizer), counts),
        tokenizer,
        recipe.context,
        _sample(recipe),
        recipe.eos,
        recipe.task == "masked",
        KINDS[recipe.network],
        network_settings(recipe, len(tokenizer)),
    )


def _begun(recipe: Recipe, begin: LanguageModelFolder) -> LanguageModelFolder:
    masked = recipe.task == "masked"
    if masked != begin.masked:
        raise RecipeError(
            f"task {recipe.task}, and the model to begin with is "
            f"{'masked' if begin.masked else 'autoregressive'}: give the same task"
        )
    steps = (begin.settings or {}).get("steps")
    if steps is not None and recipe.context > steps:
        raise RecipeError(
            f"context {recipe.context}: the model to begin with has {steps} positions; give at "
            f"most so many"
        )
    network = begin.network.to(ft.dtype(recipe.dtype))
    network.train()
    eos = recipe.eos
    return replace(begin, network=network, context=recipe.context, sample=_sample(recipe), eos=eos)


def _sample(recipe: Recipe) -> str:
    """What a sample is where the model is used: there is no stream any more."""
    return "pack" if recipe.sample == "stream" else recipe.sample


def _run(
    recipe: Recipe,
    model: LanguageModelFolder,
    train: Texts,
    valid: Texts | None,
    out: Output,
    communicator: Communicator,
    prefetch: int,
    progress: bool,
    notes: dict[str, Any],
) -> Trained:
    leads = out.folder is not None and communicator.rank == 0
    network, tokenizer = model.network, model.tokenizer
    batches = training_batches(recipe, train, tokenizer, communicator, prefetch)
    if leads and not out.resume:
        assert out.folder is not None
        with nn.run_folder(out.folder):
            save_language_model(out.folder, model)
    if recipe.lora:
        rank, alpha = recipe.lora, recipe.lora_alpha
        lora.apply_lora(network, rank, alpha, targets=target_names(recipe))
        network.to(ft.dtype(recipe.dtype))
    objective = Objective(recipe, network, tokenizer.pad_id)
    validate = Validate(
        objective,
        None if valid is None else valid_batches(recipe, valid, tokenizer, communicator),
        _keeping(recipe, network, out.folder if leads else None),
        recipe.valid_every,
        recipe.valid_tokens,
    )
    limits = Limits(recipe, len(batches), communicator)
    per_step = recipe.batch_size * recipe.context * recipe.accumulate
    callbacks: list[nn.Callback] = [limits, Figures(0 if has_places(recipe) else per_step)]
    if recipe.sample == "carry":
        objective.carry(recipe.batch_size // communicator.world_size)
        callbacks.append(CarriedState(objective, communicator))
    if isinstance(batches, StreamBatches):
        callbacks.append(StreamPlace(batches, communicator))
    callbacks.append(validate)
    if recipe.clip:
        callbacks.insert(0, nn.ClipGradNorm(recipe.clip))
    if out.tensorboard:
        callbacks.append(nn.TensorBoard())
    optimizer = make_optimizer(recipe, network)
    trainer = nn.Trainer(
        objective,
        optimizer,
        objective.loss,
        callbacks=callbacks,
        communicator=communicator,
        out=out.folder,
        overwrite=out.overwrite,
        checkpoint_every=out.checkpoint_every or None,
        log_every=1,
        progress=progress,
        schedule=Schedule(optimizer, recipe, limits),
        accumulate=recipe.accumulate,
        ema=nn.EMA(objective, recipe.ema, warm_up=True) if recipe.ema else None,
        compiled=recipe.compiled,
        precision="O1" if recipe.amp else None,
        scaler=nn.DynamicLossScaler() if recipe.amp else None,
        metadata={METADATA: {**notes, "recipe": recipe.values()}},
    )
    if out.resume:
        trainer.resume()
    trainer.fit(batches, epochs=limits.epochs)
    validate.finish(trainer)
    if trainer.ema is not None and out.folder is None:
        trainer.ema.copy_to()
    if recipe.lora:
        _merge(network, out.folder, leads)
    if out.folder is not None:
        communicator.barrier()  # rank 0 has written it
        model = load_language_model(out.folder)
    network.eval()
    return Trained(
        model,
        trainer.history,
        validate.points,
        validate.best,
        validate.best_step,
        trainer.step,
    )


def _keeping(recipe: Recipe, network: Any, folder: Path | None) -> Callable[[], None]:
    """What writes the weights that are the best so far."""

    def keep() -> None:
        if folder is None:
            return
        if recipe.lora:
            lora.save_adapter(folder / ADAPTER, network)
        else:
            nn.save_weights(folder / WEIGHTS, network)

    return keep


def _merge(network: Any, folder: Path | None, leads: bool) -> None:
    """Add the best adapter to the weights, and write them."""
    if folder is None:
        lora.remove_lora(lora.merge_lora(network))
    elif leads:
        lora.remove_lora(network)
        lora.load_adapter(folder / ADAPTER, network)
        lora.remove_lora(lora.merge_lora(network))
        nn.save_weights(folder / WEIGHTS, network)
