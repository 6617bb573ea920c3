"""Batches of text for training and validation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_data import Batch, BucketBatch, Dataset, Prefetch, RandomTransform, Shuffle, Transform, mix
from fl_dist import Communicator
from fl_text.corpus import TextFiles
from fl_text.datasets.lm import lm_dataset
from fl_text.datasets.masking import TokenMasking
from fl_text.datasets.token_file import MAGIC, TokenFile
from fl_text.errors import RecipeError, TextError
from fl_text.recipe import Recipe
from fl_text.tokenizer import Tokenizer
from fl_text.training.objective import has_places
from fl_text.training.streaming import StreamBatches, stream_of_batches

__all__ = ["make_tokenizer", "open_texts", "training_batches", "valid_batches"]

IGNORED = -100
#: Batches of lines have widths that are multiples of so many tokens: compiled backends plan every
#: shape once.
WIDTH = 8
#: Samples that are stretches of the whole text.
PACKED = ("pack", "carry", "stream")
# Streams of random numbers that must not be one another's.
_ORDER, _MASKS = 1, 2
Texts = Iterable[str] | TokenFile


def open_texts(paths: Sequence[str | os.PathLike[str]], tokenizer: Tokenizer | None) -> Texts:
    """The lines of text files, or one token file."""
    kinds = {_is_token_file(path) for path in paths}
    if True not in kinds:
        return TextFiles(*paths)
    if len(paths) > 1:
        raise TextError(
            f"[open_texts] {len(paths)} files, of which some are token files: give one token file, "
            "or text files"
        )
    if tokenizer is None:
        raise TextError(
            f"[open_texts] {os.fspath(paths[0])} is a token file: give the tokenizer that wrote it"
        )
    return TokenFile(paths[0], tokenizer)


def _is_token_file(path: str | os.PathLike[str]) -> bool:
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def make_tokenizer(recipe: Recipe, texts: Texts) -> Tokenizer:
    """A tokenizer of the kind of a recipe, trained on texts."""
    if isinstance(texts, TokenFile):
        raise RecipeError("a tokenizer cannot be trained on a token file: give its tokenizer")
    least = 1 if recipe.tokenizer == "char" else recipe.min_frequency
    return Tokenizer.train(
        texts,
        recipe.tokenizer,  # type: ignore[arg-type]
        recipe.vocabulary,
        min_frequency=least,
    )


def token_counts(texts: Texts, tokenizer: Tokenizer) -> list[int]:
    """How often each token is in texts."""
    counts = np.zeros(len(tokenizer), np.int64)
    if isinstance(texts, TokenFile):
        for first in range(0, texts.count, 1 << 20):
            part = texts.stretches([first], min(1 << 20, texts.count - first))[0]
            counts += np.bincount(np.asarray(part), minlength=len(counts))
    else:
        for ids in tokenizer.encode_corpus(texts):
            counts += np.bincount(np.asarray(ids, np.int64), minlength=len(counts))
    found: list[int] = counts.tolist()
    return found


def samples(recipe: Recipe, texts: Texts, tokenizer: Tokenizer, columns: int = 1) -> Dataset:
    """Samples of a recipe without an order; masked tasks have their masks."""
    packs = recipe.sample in PACKED
    found: Dataset = lm_dataset(
        texts,
        tokenizer,
        recipe.context,
        "pack" if packs else recipe.sample,  # type: ignore[arg-type]
        eos=recipe.eos and packs,
        target_pad=None if packs else IGNORED,
        columns=columns,
    )
    masking = _token_masking(recipe, tokenizer)
    return RandomTransform(found, masking, mix(recipe.seed, _MASKS)) if masking else found


def _token_masking(recipe: Recipe, tokenizer: Tokenizer) -> TokenMasking | None:
    if recipe.task != "masked":
        return None
    return TokenMasking(
        tokenizer,
        recipe.mask_prob,
        random_prob=recipe.mask_random,
        same_prob=recipe.mask_same,
        mask_min_length=recipe.mask_min_length,
        ignore_index=IGNORED,
    )


def training_batches(
    recipe: Recipe,
    texts: Texts,
    tokenizer: Tokenizer,
    communicator: Communicator,
    prefetch: int = 0,
) -> Dataset:
    """This rank's share of batches, in a new order in each epoch, but for "carry"."""
    rank, ranks = communicator.rank, communicator.world_size
    seed = mix(recipe.seed, _ORDER)
    if recipe.sample in ("carry", "stream") and recipe.batch_size % ranks:
        raise RecipeError(
            f"batch_size {recipe.batch_size} on {ranks} ranks: with sample {recipe.sample} give a "
            "multiple, so that all ranks have equal shares"
        )
    made: Dataset
    if recipe.sample == "stream":
        if not isinstance(texts, TextFiles):
            raise RecipeError("sample stream reads text files, and this is none: give pack")
        masking, paths = _token_masking(recipe, tokenizer), texts.paths
        stream = stream_of_batches(recipe, paths, tokenizer, communicator, seed, masking)
        if has_places(recipe):
            stream = stream.map(_Counted(tokenizer.pad_id))
        return StreamBatches(stream.prefetch(prefetch) if prefetch else stream, recipe.stream_epoch)
    if recipe.sample == "carry":
        ds = samples(recipe, texts, tokenizer, recipe.batch_size)
        made = Batch(ds, recipe.batch_size, rank=rank, world_size=ranks)
    elif recipe.max_tokens:
        ds = samples(recipe, texts, tokenizer)
        lengths = _lengths(ds)
        made = BucketBatch(
            ds, lengths, max_size=recipe.max_tokens, seed=seed, rank=rank, world_size=ranks
        )
    else:
        ds = samples(recipe, texts, tokenizer)
        made = Batch(Shuffle(ds, seed), recipe.batch_size, rank=rank, world_size=ranks)
    if has_places(recipe):
        made = Transform(made, _Counted(tokenizer.pad_id))
    return Prefetch(made, threads=1, depth=prefetch) if prefetch else made


def valid_batches(
    recipe: Recipe, texts: Texts, tokenizer: Tokenizer, communicator: Communicator
) -> Dataset:
    """This rank's share of batches that are always the same. With "carry" there are as many columns
    as ranks, so that states go on for long."""
    columns = communicator.world_size if recipe.sample == "carry" else 1
    ds = samples(recipe, texts, tokenizer, columns)
    size = columns if recipe.sample == "carry" else recipe.batch_size
    made: Dataset = Batch(ds, size, rank=communicator.rank, world_size=communicator.world_size)
    return Transform(made, _Counted(tokenizer.pad_id)) if has_places(recipe) else made


def _lengths(ds: Dataset) -> Sequence[int]:
    while not hasattr(ds, "lengths"):
        ds = ds.sources[0]
    found: Sequence[int] = ds.lengths
    return found


class _Counted:
    """(tokens, ..., targets) with `IGNORED` among them to (tokens, ..., places, targets), without
    columns that are padding in all rows."""

    def __init__(self, pad: int | None) -> None:
        self.pad = pad

    def __call__(self, batch: Any) -> Any:
        *inputs, targets = batch
        wanted, tokens = np.asarray(targets), np.asarray(inputs[0])
        needed = np.flatnonzero(((tokens != self.pad) | (wanted != IGNORED)).any(0))
        width = min(tokens.shape[1], -(-(int(needed.max(initial=0)) + 1) // WIDTH) * WIDTH)
        flat = np.ascontiguousarray(wanted[:, :width]).reshape(-1)
        places = np.flatnonzero(flat != IGNORED)
        cut = [ft.asarray(np.ascontiguousarray(np.asarray(x)[:, :width])) for x in inputs]
        return (*cut, ft.asarray(places), ft.asarray(flat[places]))
