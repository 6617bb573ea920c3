"""Datasets and streams of token numbers, and token files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fl_tensor as ft
import fl_text as text
from bad_values import KINDS, Bad, value
from cases import Target
from targets.making import At, target


def tokenizer() -> text.Tokenizer:
    return text.Tokenizer.train(["some words and more words"] * 3, "bpe", 300)


def written(folder: Path) -> Path:
    path = folder / "t.tokens"
    text.write_tokens(path, ["some words", "more words"], tokenizer())
    return path


class Written(At):
    """A token file, whole or damaged."""

    def __init__(self, damage: Any = None) -> None:
        super().__init__("t.tokens")
        self.damage = damage

    def make(self, folder: Path) -> Path:
        path = written(folder)
        if self.damage is not None:
            path.write_bytes(self.damage(path.read_bytes()))
        return path


DAMAGED = [
    Bad("cut off", Written(lambda raw: raw[:-3]).make),
    Bad("head alone", Written(lambda raw: raw[:64]).make),
    Bad("other magic", Written(lambda raw: b"x" + raw[1:]).make),
    Bad("a forged count", Written(lambda raw: raw[:24] + b"\xff" * 8 + raw[32:]).make),
    Bad("forged starts", Written(lambda raw: raw[:-8] + b"\xff" * 8).make),
]
SHARDS = At("a.txt", b"some words\nmore words\n")
FIT = {"context": 4, "pad": 0}
STREAM: dict[str, Any] = {"0": lambda: shards(), "1": tokenizer, "2": 2}


def shards() -> text.TextShards:
    return text.TextShards([__file__])


TARGETS: list[Target] = [
    target(
        "text.TokenStream",
        {"tokens": list(range(20)), "context": 4},
        tokens="choice",
        context="positive",
        columns=[*KINDS["positive"], value(6)],
    ),
    *(
        target(
            f"text.{name}",
            {"texts": [[1, 2, 3]], **FIT},
            texts=[*KINDS["iterable"], value([[1]]), value([["a", "b"]])],
            context=[bad for bad in KINDS["positive"] if bad.label != "None"],
            pad="count",
        )
        for name in ("TokenLines", "PackedDocuments")
    ),
    *(
        target(
            name,
            {"0": lambda: ft.ones((1, 3), dtype="int64")},
            _0=[*KINDS["required_array"], value(None)],
        )
        for name in ("text.document_mask", "text.document_positions")
    ),
    target(
        "text.lm_dataset",
        {"texts": ["some words and more words"] * 3, "tokenizer": tokenizer, "context": 2},
        texts="iterable",
        tokenizer="module",
        context="positive",
        mode="choice",
        columns="positive",
    ),
    target(
        "text.TokenFile",
        {"0": Written()},
        _0=[*KINDS["input_path"], *DAMAGED],
        tokenizer=[value(3), value("bpe"), Bad("another", lambda _: _other())],
    ),
    target(
        "text.write_tokens",
        {"0": At("new.tokens"), "1": ["some words"], "2": tokenizer},
        _0="no_path",
        _1="iterable",
        _2="module",
    ),
    target(
        "text.TextShards",
        {"0": lambda: [__file__]},
        _0=[*KINDS["iterable"], value([]), value("a.txt"), value(["missing.txt"])],
        rank=[value(1), value(-1), value("0")],
        world_size=[value(0), value(2), value(None)],
        max_line=[value(0), value(-1), value("x"), value(3)],
        call=lambda *paths, **o: list(text.TextShards(*paths, **o)),
    ),
    target(
        "text.TokenChunks",
        STREAM,
        _0=[value(None), value(["a"])],
        _1="module",
        _2="positive",
    ),
    target(
        "text.TokenMasking",
        {"0": tokenizer},
        _0="module",
        mask_prob=[value(-0.1), value(2), value("x"), value(None)],
        random_prob=[value(-0.1), value(2), value(0.95), value("x")],
        same_prob=[value(-0.1), value(2), value(0.95), value("x")],
        mask_min_length="positive",
        ignore_index=[value("x"), value(None), value(0.5)],
    ),
]
UNTRIED: dict[str, str] = {}


def _other() -> text.Tokenizer:
    return text.Tokenizer.train(["other words"], "char", 300, min_frequency=1)
