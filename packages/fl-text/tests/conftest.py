"""Small made texts, trained tokenizers, and the real corpus if it is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fl_text as text

LINES = [
    "the cat sat on the mat\n",
    "\n",
    "the dog sat on the log\n",
    "cats and dogs, dogs and cats\n",
    "naïve café — ünïcödé\n",
]


@pytest.fixture
def lines() -> list[str]:
    return list(LINES)


@pytest.fixture(scope="session")
def tokenizers() -> dict[str, text.Tokenizer]:
    """One small tokenizer of each kind."""
    return {
        kind: text.Tokenizer.train(LINES, kind, 300, min_frequency=1)
        for kind in ("bpe", "wordpiece", "char")
    }


@pytest.fixture(scope="session")
def corpus() -> Path:
    """A megabyte of English plays."""
    root = os.environ.get("FL_TEST_DATA")
    if not root:
        pytest.skip("FL_TEST_DATA is not set")
    return Path(root) / "text" / "tinyshakespeare.txt"
