"""Folders of language models: network, weights and tokenizer, as `fl-text train` writes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_tensor.annotations import checked
from fl_tensor.files import replacing
from fl_text.descriptions import load_tokenizer, read_description
from fl_text.errors import TextError, TextFileError
from fl_text.heads import AdaptiveSoftMax
from fl_text.models import (
    GCNN,
    GPT2,
    GenerationSettings,
    Llama,
    LSTMLanguageModel,
    MaskedLM,
    TransformerLanguageModel,
)
from fl_text.models.huggingface import load_language_model as load_published
from fl_text.models.published import PublishedConfig
from fl_text.models.published_options import gpt2_options, llama_options

__all__ = ["LanguageModelFolder", "build_network", "load_language_model", "save_language_model"]

DESCRIPTION, WEIGHTS, TOKENIZER = "language_model.json", "weights.safetensors", "tokenizer.json"
_FORMAT = 1
_MAX_BYTES = 1 << 20
#: The largest number of a setting, far above what exists: a forged one must not fill memory.
_GREATEST = 1 << 24
_SAMPLES = ("pack", "carry", "line", "documents")


@dataclass(frozen=True)
class LanguageModelFolder:
    """A language model with all that its use needs.

    network    in evaluation mode
    tokenizer  of the texts that it was trained on
    context    the tokens of a sample of its training; None: not known
    sample     what a sample was: "pack", "carry", "line" or "documents" (`fl-text train`)
    eos        with "pack" and "carry": whether the end token stood after each line
    masked     whether it predicts hidden tokens, not the next one
    kind       the name of the class of the network
    settings   the arguments of that class
    generation what a folder of Hugging Face says of generation
    """

    network: Any
    tokenizer: Any
    context: int | None = None
    sample: str = "pack"
    eos: bool = False
    masked: bool = False
    kind: str = ""
    settings: Mapping[str, Any] | None = None
    generation: GenerationSettings | None = None

    def description(self) -> dict[str, Any]:
        """Plain values that build it again, but for weights and tokenizer."""
        return {
            "format": _FORMAT,
            "network": self.kind,
            "settings": dict(self.settings or {}),
            "context": self.context,
            "sample": self.sample,
            "eos": self.eos,
            "masked": self.masked,
            "tokenizer": self.tokenizer.fingerprint(),
        }


def build_network(kind: str, settings: Mapping[str, Any], head: nn.Module | None = None) -> Any:
    """A network of the class named `kind` with these arguments; `head` is another one of training
    for "LSTMLanguageModel", "GCNN" and "TransformerLanguageModel". Raises `TextError`."""
    if kind not in _builders():
        raise TextError(f"[build_network] {kind!r}: one of {', '.join(_builders())}")
    more = {} if head is None else {"head": head}
    try:
        return _builders()[kind](**settings, **more)
    except (KeyError, TypeError) as error:
        raise TextError(f"[build_network] {kind}: {error}") from error


def _lstm(cutoffs: list[int] | None = None, **settings: Any) -> LSTMLanguageModel:
    """With `cutoffs` the output is an adaptive softmax."""
    if cutoffs is not None:
        width = settings.get("hidden") or settings["size"]
        settings["head"] = AdaptiveSoftMax(width, settings["tokens"], cutoffs)
    return LSTMLanguageModel(**settings)


def _builders() -> dict[str, Callable[..., Any]]:
    return {
        "TransformerLanguageModel": TransformerLanguageModel,
        "LSTMLanguageModel": _lstm,
        "GCNN": GCNN,
        "GPT2": GPT2,
        "MaskedLM": MaskedLM,
        "Llama": Llama,
    }


@checked
def save_language_model(folder: str | os.PathLike[str], model: LanguageModelFolder) -> None:
    """Write a language model into a folder: `language_model.json`, `tokenizer.json` and
    `weights.safetensors`, the last of them, each at once. `kind` and `settings` must be there."""
    path = Path(folder)
    if not model.kind or model.settings is None:
        raise TextError(
            "[save_language_model] kind and settings are missing: give the name of the network's "
            "class, and its arguments"
        )
    path.mkdir(parents=True, exist_ok=True)
    model.tokenizer.save(path / TOKENIZER)
    with replacing(path / DESCRIPTION) as file:
        file.write(json.dumps(model.description(), indent=1).encode() + b"\n")
    nn.save_weights(path / WEIGHTS, model.network)


@checked
def load_language_model(folder: str | os.PathLike[str]) -> LanguageModelFolder:
    """The language model in a folder of `fl-text train`, or of Hugging Face as
    `fl_text.models.load_language_model` reads it, in evaluation mode.

    Raises `TextFileError` for a description that makes no sense and for the tokenizer of another
    model, and `fl_nn.CheckpointError` where weights do not fit.
    """
    path = Path(folder)
    if (path / "config.json").is_file() and not (path / DESCRIPTION).is_file():
        return _published(path)
    if not (path / DESCRIPTION).is_file():
        raise TextFileError(
            path,
            f"it holds no language model ({DESCRIPTION}, or config.json of Hugging Face)",
            "give the folder of fl-text train",
        )
    found = read_description(path / DESCRIPTION, "a language model", _FORMAT, _CHECKS, _MAX_BYTES)
    tokenizer = load_tokenizer(path / TOKENIZER, found["tokenizer"])
    network = _built(path / DESCRIPTION, found["network"], found["settings"])
    nn.load_weights(path / WEIGHTS, network, cast=True)
    network.eval()
    return LanguageModelFolder(
        network,
        tokenizer,
        found["context"],
        found["sample"],
        found["eos"],
        found["masked"],
        found["network"],
        found["settings"],
    )


def _published(path: Path) -> LanguageModelFolder:
    network, tokenizer, generation = load_published(path)
    config = PublishedConfig(path / "config.json")
    options = gpt2_options(config) if isinstance(network, GPT2) else llama_options(config)
    return LanguageModelFolder(
        network,
        tokenizer,
        options["steps"],
        kind=type(network).__name__,
        settings=options,
        generation=generation,
    )


def _built(path: Path, kind: str, settings: dict[str, Any]) -> Any:
    """The network, of which nothing is allocated before the weights are known to fit."""
    try:
        with ft.use("null"):
            return build_network(kind, settings)
    except (nn.ModuleError, ft.ShapeError, ValueError) as error:
        raise TextFileError(
            path, f"its settings build no {kind} ({error})", "train it again"
        ) from (error)


def _is_setting(value: object) -> bool:
    if isinstance(value, (list, dict)):
        parts = value.values() if isinstance(value, dict) else value
        return len(value) <= 1000 and all(map(_is_setting, parts))
    if isinstance(value, (int, float)):
        return abs(value) <= _GREATEST
    return value is None or (isinstance(value, str) and len(value) < 100)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "network": lambda found: isinstance(found, str) and found in _builders(),
    "settings": lambda found: isinstance(found, dict) and all(map(_is_setting, found.values())),
    "context": lambda found: found is None or (type(found) is int and 1 <= found <= _GREATEST),
    "sample": lambda found: found in _SAMPLES,
    "eos": lambda found: isinstance(found, bool),
    "masked": lambda found: isinstance(found, bool),
    "tokenizer": lambda found: isinstance(found, str),
}
