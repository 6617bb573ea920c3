"""``TextClassifier``: a network, its tokenizer and its classes, and the folder that keeps them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import replacing
from fl_text.corpus import as_texts
from fl_text.descriptions import load_tokenizer, read_description
from fl_text.errors import TextError, TextFileError
from fl_text.models import GRUClassifier
from fl_text.tokenizer import Tokenizer

DESCRIPTION, WEIGHTS, TOKENIZER = "text_classifier.json", "weights.safetensors", "tokenizer.json"
_FORMAT, _MAX_BYTES, _GREATEST = 1, 1 << 22, 1 << 24
_SETTINGS = {"hidden", "layers"}


@dataclass(frozen=True)
class TextClassifier:
    """A classifier of short texts.

    network    scores (N, classes) of tokens (N, T) and lengths (N,)
    tokenizer  of characters
    classes    the names, in the order of the scores
    """

    network: GRUClassifier
    tokenizer: Tokenizer
    classes: Sequence[str]

    @checked
    def log_probs(self, texts: Iterable[str], batch_size: int = 64) -> ft.Tensor:
        """log p (n, classes) of the classes of texts. Raises `TextError` for a blank text."""
        if batch_size < 1:
            raise TextError(f"[TextClassifier] batch_size {batch_size}: give at least 1")
        given = [text.strip() for text in as_texts(texts, "TextClassifier")]
        blank = next((i for i, text in enumerate(given) if not text), None)
        if blank is not None:
            raise TextError(f"[TextClassifier] text {blank} is blank: it has no class")
        if not given:
            raise TextError("[TextClassifier] no texts: give at least one")
        weight = next(iter(self.network.parameters()))
        found = []
        with nn.evaluating(self.network), ft.reproducible():
            for first in range(0, len(given), batch_size):
                tokens, lengths = self.tokenizer.encode_batch(given[first : first + batch_size])
                place = (ft.int64, weight.device, weight.backend)
                scores = self.network(ft.asarray(tokens, *place), ft.asarray(lengths, *place))
                found.append(ft.log_softmax(scores, -1))
        together: Any = ft.concatenate(found, 0)
        return together.tensor if hasattr(together, "tensor") else together

    def best(self, texts: Iterable[str], top: int = 1) -> list[list[tuple[str, float]]]:
        """For each text the `top` likeliest classes with their probabilities, the best first."""
        rows = ft.exp(self.log_probs(texts)).tolist()
        ranked = [sorted(range(len(row)), key=lambda k: -row[k])[:top] for row in rows]
        return [[(self.classes[k], row[k]) for k in ks] for row, ks in zip(rows, ranked)]


@checked
def save_text_classifier(folder: str | os.PathLike[str], classifier: TextClassifier) -> None:
    """Write a classifier into a folder: `text_classifier.json`, `tokenizer.json` and
    `weights.safetensors`, the last of them, each at once."""
    path, network = Path(folder), classifier.network
    path.mkdir(parents=True, exist_ok=True)
    classifier.tokenizer.save(path / TOKENIZER)
    description = {
        "format": _FORMAT,
        "classes": list(classifier.classes),
        "settings": {"hidden": network.embedding.weight.shape[1], "layers": network.gru.layers},
        "tokenizer": classifier.tokenizer.fingerprint(),
    }
    with replacing(path / DESCRIPTION) as file:
        file.write(json.dumps(description, indent=1, ensure_ascii=False).encode() + b"\n")
    nn.save_weights(path / WEIGHTS, network)


@checked
def load_text_classifier(folder: str | os.PathLike[str]) -> TextClassifier:
    """The classifier in a folder of `fl-text classify train`, in evaluation mode. Raises
    `TextFileError` for a description that makes no sense and for another tokenizer, and
    `fl_nn.CheckpointError` where weights do not fit."""
    path = Path(folder)
    if not (path / DESCRIPTION).is_file():
        raise TextFileError(
            path,
            f"it holds no classifier of texts ({DESCRIPTION})",
            "give the folder of fl-text classify train",
        )
    found = read_description(path / DESCRIPTION, "a classifier", _FORMAT, _CHECKS, _MAX_BYTES)
    tokenizer = load_tokenizer(path / TOKENIZER, found["tokenizer"])
    with ft.use("null"):  # nothing is allocated before the weights are known to fit
        network = GRUClassifier(len(tokenizer), len(found["classes"]), **found["settings"])
    nn.load_weights(path / WEIGHTS, network, cast=True)
    network.eval()
    return TextClassifier(network, tokenizer, found["classes"])


def _are_classes(found: Any) -> bool:
    return (
        isinstance(found, list)
        and 2 <= len(found) == len(set(map(str, found)))
        and all(isinstance(each, str) for each in found)
    )


def _are_settings(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and set(found) == _SETTINGS
        and all(type(n) is int and 1 <= n <= _GREATEST for n in found.values())
        and bool(found["layers"] <= 1000)
    )


_CHECKS = {
    "classes": _are_classes,
    "settings": _are_settings,
    "tokenizer": lambda found: isinstance(found, str),
}
