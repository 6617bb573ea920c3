"""Training, evaluation and folders of language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fl_text as text
from bad_values import Bad, value
from cases import Target
from fl_text.evaluation import evaluate_masked, evaluate_ngrams, evaluate_text
from fl_text.language_model_folder import (
    LanguageModelFolder,
    build_network,
    load_language_model,
    save_language_model,
)
from fl_text.ngram import NGramModel, estimate
from fl_text.recipe import Recipe
from fl_text.training import train_language_model
from targets.making import At, target

LINES = ["some words and more words\n"] * 4
LSTM: dict[str, Any] = {"tokens": 30, "size": 4, "layers": 1}
BERT: dict[str, Any] = {"tokens": 30, "steps": 8, "size": 4, "heads": 2, "layers": 1, "hidden": 8}
SETTINGS = [
    value({}),
    value({"tokens": 0, "size": 4}),
    value({"tokens": 3, "sizes": 4}),
    value({"tokens": "3", "size": 4}),
    value(None),
    value(3),
]
TEXTS = [value(None), value(3), value("text"), value([1]), value([]), value(["a"])]
MODELS = [value(None), value(3), value("folder"), value(len)]
COUNTS = [value(0), value(-1), value(1.5), value("1")]


def model(kind: str = "LSTMLanguageModel", masked: bool = False) -> LanguageModelFolder:
    tokenizer = text.Tokenizer.train(LINES, "char", 30, min_frequency=1)
    settings = {**(BERT if masked else LSTM), "tokens": len(tokenizer)}
    network = build_network(kind, settings).eval()
    return LanguageModelFolder(network, tokenizer, 8, kind=kind, settings=settings, masked=masked)


def bert() -> LanguageModelFolder:
    return model("MaskedLM", True)


def ngrams() -> NGramModel:
    return NGramModel.from_ngrams(estimate(LINES, 2, discount_fallback=(0.5, 1.0, 1.5)))


class Folder(At):
    """The folder of a model, whole or with another description."""

    def __init__(self, description: bytes | None = None) -> None:
        super().__init__("model")
        self.description = description

    def make(self, folder: Path) -> Path:
        path = folder / "model"
        save_language_model(path, model())
        if self.description is not None:
            (path / "language_model.json").write_bytes(self.description)
        return path


DAMAGED = [
    Bad("no JSON", Folder(b"{").make),
    Bad("a list", Folder(b"[]").make),
    Bad("empty", Folder(b"").make),
    Bad("another format", Folder(b'{"format": 3}').make),
    value(None),
    value(3),
    value("nowhere"),
]


def trained(recipe: Any, train: Any, **options: Any) -> Any:
    return train_language_model(recipe, train, progress=False, **options)


RECIPE = {"tokenizer": "char", "context": 4, "size": 4, "heads": 2, "layers": 1, "updates": 1}

TARGETS: list[Target] = [
    target(
        "text.evaluation.evaluate_text",
        {"model": model, "texts": LINES, "context": 8, "stride": 4, "batch_size": 2},
        call=evaluate_text,
        model=[*MODELS, Bad("masked", lambda folder: bert())],
        texts=TEXTS,
        context=COUNTS,
        stride=COUNTS[1:],
        batch_size=COUNTS,
    ),
    target(
        "text.evaluation.evaluate_masked",
        {"model": bert, "texts": LINES},
        call=evaluate_masked,
        model=[*MODELS, Bad("not masked", lambda folder: model())],
        texts=TEXTS,
        mask_prob=[value(-1.0), value(2.0), value("1"), value(None)],
        batch_size=COUNTS,
    ),
    target(
        "text.evaluation.evaluate_ngrams",
        {"model": ngrams, "texts": LINES},
        call=evaluate_ngrams,
        model=MODELS,
        texts=TEXTS[:5],
    ),
    target(
        "text.language_model_folder.build_network",
        {"kind": "LSTMLanguageModel", "settings": LSTM},
        call=build_network,
        kind=[value(None), value("LSTM"), value(3)],
        settings=SETTINGS,
    ),
    target(
        "text.language_model_folder.load_language_model",
        {"folder": Folder()},
        call=load_language_model,
        folder=DAMAGED,
    ),
    target(
        "text.language_model_folder.save_language_model",
        {"folder": At("model"), "model": model},
        call=save_language_model,
        folder=[value(None), value(3)],
        model=[*MODELS, value(LanguageModelFolder(None, None), "without kind")],
    ),
    target(
        "text.training.train_language_model",
        {"recipe": Recipe(**RECIPE), "train": LINES},  # type: ignore[arg-type]
        call=trained,
        recipe=MODELS,
        train=TEXTS,
        valid=TEXTS[1:],
        tokenizer=MODELS[1:],
    ),
]
UNTRIED: dict[str, str] = {
    "text.models.GenerationSettings": "load_language_model fills it",
    "text.models.PublishedLanguageModel": "load_language_model fills it",
}
