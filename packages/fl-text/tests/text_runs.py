"""Runs of `fl-text train` on a small made text."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from fl_text.cli import main

#: The rest of the suite takes half a minute; a session of its own asks for it.
WHOLE = pytest.mark.skipif("FL_PROGRAM_WHOLE" not in os.environ, reason="FL_PROGRAM_WHOLE")
NUMPY = ("--backend", "numpy")
SMALL = (
    *("--tokenizer", "char", "--min-frequency", "1", "--vocabulary", "300"),
    *("--context", "16", "--size", "16", "--heads", "2", "--layers", "1", "--dropout", "0"),
    *("--batch-size", "6", "--lr", "0.01", "--quiet", *NUMPY),
)


def write_texts(folder: Path) -> None:
    """`train.txt` and `valid.txt`: lines of words that follow one another by a simple rule."""
    draw = random.Random(1)
    nouns, verbs = ("cat", "dog", "owl"), ("sees", "hears")
    lines = [
        f"the {draw.choice(nouns)} {draw.choice(verbs)} a {draw.choice(nouns)}\n"
        for _ in range(120)
    ]
    (folder / "train.txt").write_text("".join(lines[:90]))
    (folder / "valid.txt").write_text("".join(lines[90:]))


def train(folder: Path, out: str, *options: str) -> int:
    """Train on the texts of a folder, into its folder `out`."""
    texts = ("--train", str(folder / "train.txt"), "--valid", str(folder / "valid.txt"))
    return main(["train", *texts, "--out", str(folder / out), *SMALL, *options])


def records(run: Path, event: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [record for record in lines if record["event"] == event]
