"""From tokens by frame to labels in time: words of a lexicon, or tokens without repetitions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl_text.decoder.hypothesis import Run


class WordLabels:
    """Words of a lexicon. A word lasts from its first frame that is neither silent nor blank."""

    def __init__(self, names: Sequence[str], silence: int, blank: int) -> None:
        self.names, self.silence, self.blank = names, silence, blank

    def runs(self, tokens: np.ndarray, words: np.ndarray, before: int) -> list[Run]:
        said = np.flatnonzero((tokens != self.silence) & (tokens != self.blank))
        ends = np.flatnonzero(words >= 0)
        found, free = [], 0
        for end in ends.tolist():
            inside = said[np.searchsorted(said, free) : np.searchsorted(said, end, side="right")]
            one, last = (inside[0], inside[-1]) if len(inside) else (end, end)
            found.append((int(words[end]), int(one), int(last) + 1))
            free = end + 1
        return found

    def name(self, label: int) -> str:
        return self.names[label]

    def join(self, names: Sequence[str]) -> str:
        return " ".join(names)

    def settled(self, tokens: np.ndarray, words: np.ndarray) -> int:
        end = int(np.flatnonzero(words >= 0).max(initial=-1)) + 1
        rest = tokens[end:]
        silent = bool(((rest == self.silence) | (rest == self.blank)).all())
        return len(tokens) if silent else end


class TokenLabels:
    """Tokens: equal neighbours are one, blanks are none. A path begins in silence."""

    def __init__(self, names: Sequence[str], silence: int, blank: int) -> None:
        self.names, self.silence, self.blank = names, silence, blank

    def runs(self, tokens: np.ndarray, words: np.ndarray, before: int) -> list[Run]:
        turns = np.flatnonzero(np.diff(tokens, prepend=tokens.dtype.type(before)))
        ends = np.append(turns[1:], len(tokens))
        return [
            (int(tokens[one]), one, end)
            for one, end in zip(turns.tolist(), ends.tolist(), strict=False)
            if tokens[one] != self.blank
        ]

    def name(self, label: int) -> str:
        return " " if label == self.silence else self.names[label]

    def join(self, names: Sequence[str]) -> str:
        return "".join(names).strip()

    def settled(self, tokens: np.ndarray, words: np.ndarray) -> int:
        if not len(tokens):
            return 0
        differ = np.flatnonzero(tokens != tokens[-1])
        return len(tokens) if tokens[-1] == self.blank else int(differ.max(initial=-1)) + 1
