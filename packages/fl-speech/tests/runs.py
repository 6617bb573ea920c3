"""A task of tones, and runs of `fl-speech train` on it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from fl_speech.cli import main

NUMPY = ("--backend", "numpy")
SMALL = (
    *(*NUMPY, "--sample-rate", "8000", "--filters", "20", "--mel-floor", "1e7"),
    *("--channels", "24", "--blocks", "1", "--kernel", "3", "--dropout", "0"),
    *("--batch-size", "4", "--lr", "0.01", "--quiet"),
)
ASG = ("--criterion", "asg", "--linseg", "20", "--surround", "|")
#: The rest of the suite takes half a minute; a session of its own asks for it.
WHOLE = pytest.mark.skipif("FL_PROGRAM_WHOLE" not in os.environ, reason="FL_PROGRAM_WHOLE")


def train(folder: Path, out: str, *options: str) -> int:
    return main(
        [
            "train",
            *("--train", str(folder / "train.lst"), "--valid", f"test:{folder / 'test.lst'}"),
            *("--tokens", str(folder / "tokens.txt"), "--lexicon", str(folder / "lexicon.txt")),
            *("--out", str(folder / out), *SMALL, *options),
        ]
    )


def records(run: Path, event: str) -> list[dict[str, Any]]:
    lines = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [record for record in lines if record["event"] == event]
