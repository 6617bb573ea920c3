"""``fl-text eval``: how well models predict a text, in one table."""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

from fl_memory.subcommands import at_least
from fl_nn.extend import runtime, runtime_options
from fl_text.cli.model_options import quantize
from fl_text.corpus import TextFiles
from fl_text.errors import TextError
from fl_text.evaluation import (
    MaskedFigures,
    TextFigures,
    evaluate_masked,
    evaluate_ngrams,
    evaluate_text,
)
from fl_text.language_model_folder import load_language_model
from fl_text.ngram import NGramModel
from fl_text.pictures import MOST_TOKENS, draw_attention

COLUMNS = {
    "tokens": "tokens",
    "perplexity": "perplexity",
    "word_perplexity": "a word",
    "character_perplexity": "a character",
    "nats_per_token": "nats a token",
    "nats_per_character": "nats a character",
    "bits_per_character": "bits a character",
    "unknown": "unknown",
}
MASKED = {
    "hidden": "hidden tokens",
    "nats": "nats",
    "accuracy": "accuracy",
    "commonest": "commonest token",
}


def main(arguments: list[str]) -> int:
    """Print a row for each model."""
    given = _parser().parse_args(arguments)
    with runtime(given):
        found = [(str(path), _figures(path, given)) for path in (given.model, *given.beside)]
    if given.attention is not None:
        with runtime(given):
            _draw(given)
    if given.json:
        for name, figures in found:
            print(json.dumps({"model": name, **_plain(figures)}))
        return 0
    for kind, columns in ((TextFigures, COLUMNS), (MaskedFigures, MASKED)):
        rows = [(name, figures) for name, figures in found if isinstance(figures, kind)]
        if rows:
            print("\n".join(_table(rows, columns)))
    for name, figures in found:
        if isinstance(figures, TextFigures):
            print(f"{name}: {figures.windows}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fl-text eval",
        description="Perplexity of causal models, of tokens, words and characters; of masked "
        "models the accuracy on hidden tokens.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help="a run, a folder of Hugging Face, or n-grams")
    add("files", type=Path, nargs="+", metavar="FILE", help="UTF-8 text")
    what = "other models for the same table"
    add("--beside", type=Path, nargs="+", default=[], metavar="MODEL", help=what)
    add("--context", type=at_least(1), metavar="N", help="tokens of a window (as in training)")
    what = "by how many tokens windows move; 0: one pass over the whole text (context)"
    add("--stride", type=at_least(0), metavar="N", help=what)
    add("--batch-size", type=at_least(1), default=16, metavar="N", help="windows (%(default)s)")
    what = "masked models: share of hidden tokens (%(default)s)"
    add("--mask-prob", type=float, default=0.15, metavar="X", help=what)
    add("--seed", type=int, default=0, metavar="N", help="masked models: which are hidden")
    what = "picture of attention on the beginning of the text (needs matplotlib)"
    add("--attention", type=Path, metavar="FILE", help=what)
    what = "layer of --attention; -1: the last (%(default)s)"
    add("--layer", type=int, default=-1, metavar="N", help=what)
    add("--int8", action="store_true", help="round weights to 8 bits first, those of all models")
    add("--json", action="store_true", help="a JSON object for each model")
    runtime_options(parser)
    return parser


def _draw(given: argparse.Namespace) -> None:
    """Draw the attention of MODEL on the beginning of the first file."""
    if given.model.is_file():
        raise TextError(f"{given.model}: n-grams have no attention: leave --attention out")
    model = load_language_model(given.model)
    text = "".join(itertools.islice(TextFiles(given.files[0]), 2 * MOST_TOKENS))
    if model.sample in ("line", "documents"):
        text = next((line for line in text.splitlines() if line.strip()), "")
    draw_attention(model, text, given.attention, given.layer)


def _figures(path: Path, given: argparse.Namespace) -> TextFigures | MaskedFigures:
    texts = TextFiles(*given.files)
    if path.is_file():
        return evaluate_ngrams(NGramModel.open(path), texts)
    model = load_language_model(path)
    if given.int8:
        quantize(model.network)
    size = given.batch_size
    if model.masked:
        return evaluate_masked(
            model, texts, mask_prob=given.mask_prob, seed=given.seed, batch_size=size
        )
    return evaluate_text(model, texts, context=given.context, stride=given.stride, batch_size=size)


def _plain(figures: TextFigures | MaskedFigures) -> dict[str, Any]:
    columns = COLUMNS if isinstance(figures, TextFigures) else MASKED
    found = {name: getattr(figures, name) for name in columns}
    if isinstance(figures, TextFigures):
        found |= {"nats": figures.nats, "characters": figures.characters, "words": figures.words}
        found["windows"] = figures.windows
    return found


def _table(rows: list[tuple[str, Any]], columns: dict[str, str]) -> list[str]:
    cells = [["model", *columns.values()]]
    for name, figures in rows:
        values = [getattr(figures, column) for column in columns]
        shown = [f"{value:.4f}" if isinstance(value, float) else str(value) for value in values]
        cells.append([name, *shown])
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in cells]
