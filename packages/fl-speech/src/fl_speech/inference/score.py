"""Error rates of transcripts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fl_nn as nn


class Score:
    """Word and letter error rates over recordings, and a report of the errors."""

    def __init__(self) -> None:
        self.words, self.letters = nn.EditDistanceMeter(), nn.EditDistanceMeter()
        self.pairs: list[tuple[Any, list[str]]] = []

    def add(self, utterance: Any, words: list[str]) -> str:
        """Add a transcript; its own rates in words."""
        self.pairs.append((utterance, words))
        rates = []
        for meter, heard, true in (
            (self.words, words, list(utterance.words)),
            (self.letters, list(" ".join(words)), list(utterance.text)),
        ):
            meter.add(heard, true)
            own = meter.fresh()
            own.add(heard, true)
            rates.append(own.result())
        return f"sample: {utterance.id}, WER: {rates[0]:.2f}%, LER: {rates[1]:.2f}%"

    def write(self, folder: Path) -> list[Path]:
        """Write the report; its files."""
        raise NotImplementedError

    def __str__(self) -> str:
        return (
            f"{len(self.pairs)} recordings, WER {self.words.result():.2f} %, "
            f"LER {self.letters.result():.2f} %"
        )
