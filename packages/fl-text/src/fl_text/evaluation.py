"""How well language models predict a text: perplexity, bits per character, masked accuracy."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fl_nn as nn
import fl_tensor as ft
from fl_data import Batch, RandomTransform
from fl_tensor.annotations import explained
from fl_text.corpus import as_texts
from fl_text.datasets.lm import lm_dataset
from fl_text.datasets.masking import TokenMasking
from fl_text.errors import TextError
from fl_text.language_model_folder import LanguageModelFolder
from fl_text.ngram import NGramModel

__all__ = ["MaskedFigures", "TextFigures", "evaluate_masked", "evaluate_ngrams", "evaluate_text"]

IGNORED = -100


@dataclass(frozen=True)
class TextFigures:
    """What a model makes of a text.

    nats        -log p of all that was predicted
    tokens      how many tokens were predicted
    characters  of the text that they stand for, line breaks included
    words       between white space; with end tokens, a line's end is one, too
    unknown     tokens that stand for text outside the vocabulary: with some, nats of models of
                other vocabularies cannot be compared
    windows     how the text was read, in words
    """

    nats: float
    tokens: int
    characters: int
    words: int
    unknown: int
    windows: str

    @property
    def nats_per_token(self) -> float:
        return self.nats / max(1, self.tokens)

    @property
    def nats_per_character(self) -> float:
        return self.nats / max(1, self.characters)

    @property
    def bits_per_character(self) -> float:
        return self.nats_per_character / math.log(2)

    @property
    def perplexity(self) -> float:
        """Of a token: exp of the nats per token."""
        return _exp(self.nats_per_token)

    @property
    def word_perplexity(self) -> float:
        return _exp(self.nats / max(1, self.words))

    @property
    def character_perplexity(self) -> float:
        return _exp(self.nats_per_character)


@dataclass(frozen=True)
class MaskedFigures:
    """What a masked model makes of hidden tokens.

    nats      the mean of -log p of a hidden token
    accuracy  the share of hidden tokens that have the highest score
    commonest the share of the commonest of them: the accuracy of a model that always says it
    """

    nats: float
    hidden: int
    accuracy: float
    commonest: float


@explained
def evaluate_text(
    model: LanguageModelFolder,
    texts: Iterable[str],
    *,
    context: int | None = None,
    stride: int | None = None,
    batch_size: int = 16,
) -> TextFigures:
    """A causal model on texts, joined to one stream as in its training, or line by line where it
    was trained on lines.

    context  tokens of a window; that of the training unless given
    stride   by how many tokens windows move: each has its last `stride` tokens predicted, which so
             see at least `context - stride` others (Baevski & Auli, 2019). The whole `context`
             unless given. 0: one pass over the whole text with caches, as for models that carry a
             state, which is their default

    The first token of the text has nothing before it, and is not predicted. Raises `TextError` for
    texts without two tokens, windows beyond the positions of the model, and masked models.
    """
    if model.masked:
        raise TextError("[evaluate_text] the model is a masked one: use evaluate_masked")
    _check_batch(batch_size)
    texts = list(as_texts(texts, "evaluate_text"))
    if model.sample in ("line", "documents"):
        return _by_lines(model, texts, batch_size)
    ids = array("q")
    for tokens in model.tokenizer.encode_corpus(texts, eos=model.eos):
        ids.extend(tokens)
    if len(ids) < 2:
        raise TextError(f"[evaluate_text] the text has {len(ids)} tokens: two are the least")
    whole = stride == 0 or (stride is None and context is None and model.sample == "carry")
    if whole:
        nats, windows = _carried(model, ids), "whole text, one pass"
    else:
        if context is None:
            context = model.context or len(ids) - 1
        stride = context if stride is None else stride
        _check_window(model, context, stride)
        nats = _in_windows(model, ids, context, stride, batch_size)
        windows = f"windows of {context} tokens, stride {stride}"
    first = len(model.tokenizer.decode(ids[:1]))
    return TextFigures(
        nats,
        len(ids) - 1,
        sum(map(len, texts)) - first,
        sum(len(line.split()) for line in texts) + (len(texts) if model.eos else 0),
        _unknown(model, ids[1:]),
        windows,
    )


def _check_batch(size: int) -> None:
    if size < 1:
        raise TextError(f"[evaluate_text] batch_size {size}: give at least 1")


def _check_window(model: LanguageModelFolder, context: int, stride: int) -> None:
    steps = (model.settings or {}).get("steps")
    if context < 1 or not 1 <= stride <= context:
        raise TextError(
            f"[evaluate_text] context {context}, stride {stride}: give a stride of 1 to context"
        )
    if steps is not None and context > steps:
        raise TextError(
            f"[evaluate_text] context {context}: the model has {steps} positions; give at most so "
            "many"
        )


def _in_windows(
    model: LanguageModelFolder, ids: array[int], context: int, stride: int, batch_size: int
) -> float:
    """The nats of all tokens but the first."""
    count = len(ids) - 1
    context = min(context, count)
    # Where a window begins, and how many of its targets were predicted by the one before.
    places = [(0, 0)]
    while (end := places[-1][0] + context) < count:
        start = min(end + stride, count) - context
        places.append((start, end - start))
    numbers, total = np.asarray(ids, np.int64), 0.0
    with nn.evaluating(model.network), ft.reproducible():
        for first in range(0, len(places), batch_size):
            batch = places[first : first + batch_size]
            rows = np.stack([numbers[start : start + context + 1] for start, _ in batch])
            targets = rows[:, 1:].copy()
            for row, (_, known) in zip(targets, batch):
                row[:known] = IGNORED
            total += _nats(model.network, rows[:, :-1], targets)
    return total


def _carried(model: LanguageModelFolder, ids: array[int]) -> float:
    caches, total = model.network.caches(), 0.0
    step = model.context or 128
    numbers = np.asarray(ids, np.int64)
    with nn.evaluating(model.network), ft.reproducible():
        for first in range(0, len(ids) - 1, step):
            part = numbers[None, first : first + step + 1]
            total += _nats(model.network, part[:, :-1], part[:, 1:], caches=caches)
    return total


def _by_lines(model: LanguageModelFolder, texts: Iterable[str], size: int) -> TextFigures:
    lines = [text.rstrip("\r\n") for text in texts if text.strip()]
    ds = lm_dataset(lines, model.tokenizer, model.context, "line", target_pad=IGNORED)
    cut = getattr(ds, "truncated", 0)
    if cut:
        raise TextError(
            f"[evaluate_text] {cut} lines are longer than the context of {model.context} tokens: "
            "leave them out, or train with a longer context"
        )
    total, tokens, unknown = 0.0, 0, 0
    with nn.evaluating(model.network), ft.reproducible():
        for x, y in Batch(ds, size):
            wanted = np.asarray(y)
            total += _nats(model.network, np.asarray(x), wanted)
            counted = wanted[wanted != IGNORED]
            tokens, unknown = tokens + len(counted), unknown + _unknown(model, counted)
    words = sum(len(line.split()) for line in lines) + len(lines)
    characters = sum(map(len, lines)) + len(lines)
    return TextFigures(total, tokens, characters, words, unknown, "line by line")


def _nats(network: Any, tokens: Any, targets: Any, **options: Any) -> float:
    """-log p of the targets that are not ignored."""
    weight = next(iter(network.parameters()))
    where = (ft.int64, weight.device, weight.backend)
    head = network.head
    head.eval()
    hidden = network.hidden(ft.asarray(np.ascontiguousarray(tokens), *where), **options)
    wanted = ft.asarray(np.ascontiguousarray(targets), *where)
    found: float = head.loss(hidden, wanted, IGNORED, "sum").item()
    return found


@explained
def evaluate_masked(
    model: LanguageModelFolder,
    texts: Iterable[str],
    *,
    mask_prob: float = 0.15,
    seed: int = 0,
    batch_size: int = 16,
) -> MaskedFigures:
    """A masked model on texts, of whose tokens the share `mask_prob` is hidden, all of them by the
    mask token. Which ones depends on `seed` alone."""
    if not model.masked:
        raise TextError("[evaluate_masked] the model is no masked one: use evaluate_text")
    packs = model.sample == "pack"
    mode: Any = "pack" if packs else "line"
    pad = None if packs else IGNORED
    ds = lm_dataset(
        texts, model.tokenizer, model.context, mode, eos=packs and model.eos, target_pad=pad
    )
    masking = TokenMasking(model.tokenizer, mask_prob, random_prob=0.0, same_prob=0.0)
    total, hits = 0.0, 0
    seen: list[Any] = []
    with nn.evaluating(model.network), ft.reproducible():
        for x, y in _masked(ds, masking, seed, batch_size):
            # Lines are padded, which training hides from attention, too.
            options = {} if packs else {"key_mask": x != model.tokenizer.pad_id}
            best = np.asarray(ft.argmax(model.network(x, **options), -1))
            wanted = np.asarray(y)
            counted = wanted != IGNORED
            hits += int((best == wanted)[counted].sum())
            total += _nats(model.network, np.asarray(x), wanted, **options)
            seen.append(wanted[counted])
    targets = np.concatenate(seen)
    if not len(targets):
        raise TextError("[evaluate_masked] no token was hidden: give more text")
    commonest = int(np.bincount(targets).max())
    count = len(targets)
    return MaskedFigures(total / count, count, hits / count, commonest / count)


def _masked(ds: Any, masking: TokenMasking, seed: int, size: int) -> Iterator[Any]:
    hidden = RandomTransform(ds, masking, seed)
    hidden.set_epoch(0)
    yield from Batch(hidden, size)


@explained
def evaluate_ngrams(model: NGramModel, texts: Iterable[str]) -> TextFigures:
    """An n-gram model of words on texts, a sentence a line. Tokens are words and ends of sentences,
    characters those of the lines with their breaks."""
    checked = as_texts(texts, "evaluate_ngrams")
    lines = [text.rstrip("\r\n") for text in checked if text.strip()]
    if not lines:
        raise TextError("[evaluate_ngrams] every line is blank: give some text")
    found = model.perplexity(lines)
    return TextFigures(
        -found.log_prob * math.log(10),
        found.words,
        sum(map(len, lines)) + len(lines),
        found.words,
        found.unknown,
        "sentence by sentence",
    )


def _unknown(model: LanguageModelFolder, ids: Any) -> int:
    unk = getattr(model.tokenizer, "unk_id", None)
    return 0 if unk is None else int((np.asarray(ids) == unk).sum())


def _exp(x: float) -> float:
    return math.exp(min(x, 700.0))
