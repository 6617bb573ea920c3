"""Small made texts, trained tokenizers, and the real corpus if it is there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fl_text as text

sys.path.append(str(Path(__file__).parent))  # tests import `ngram_reference` from there

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


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    """A FIFO that has no other end: who waits for it fails after a while."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("FIFOs are of POSIX")

    def waited(number: int, frame: Any) -> None:
        pytest.fail("it waits for the other end of a FIFO")

    path = tmp_path / "fifo"
    os.mkfifo(path)
    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(20)
    yield path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    assert path.is_fifo()
