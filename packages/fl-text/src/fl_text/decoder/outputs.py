"""From the outputs of a sequence-to-sequence model or a transducer to labels and n-best lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl_text.decoder.hypothesis import Hypothesis, Paths, Run


class OutputLabels:
    """Each output is a label: a token, or the word that it completes. -1 and the end are none."""

    def __init__(self, names: Sequence[str], end: int, *, words: bool) -> None:
        self.names, self.end, self.words = names, end, words

    def runs(self, tokens: np.ndarray, words: np.ndarray, before: int) -> list[Run]:
        labels = words if self.words else np.where(tokens == self.end, -1, tokens)
        found, free = [], 0
        for at in np.flatnonzero(labels >= 0).tolist():
            found.append((int(labels[at]), free, at + 1))
            free = at + 1
        return found

    def settled(self, tokens: np.ndarray, words: np.ndarray) -> int:
        """How many outputs no label in progress needs."""
        return int(np.flatnonzero(words >= 0).max(initial=-1)) + 1 if self.words else len(tokens)

    def name(self, label: int) -> str:
        return self.names[label]

    def join(self, names: Sequence[str]) -> str:
        return (" " if self.words else "").join(names)


class FrameLabels:
    """Each token is a label of one frame; the second array has the numbers of the frames."""

    words = False

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def runs(self, tokens: np.ndarray, frames: np.ndarray, before: int) -> list[Run]:
        pairs = zip(tokens.tolist(), frames.tolist(), strict=True)
        return [(token, frame, frame + 1) for token, frame in pairs if token >= 0]

    def settled(self, tokens: np.ndarray, frames: np.ndarray) -> int:
        return len(tokens)

    def name(self, label: int) -> str:
        return self.names[label]

    def join(self, names: Sequence[str]) -> str:
        return "".join(names)


def n_best_list(
    scores: np.ndarray,
    emitting: np.ndarray,
    lm: np.ndarray,
    tokens: list[list[int]],
    marks: list[list[int]],
    labels: OutputLabels | FrameLabels,
) -> list[Hypothesis]:
    """Hypotheses of these outputs, in this order; each token has a word or a frame in ``marks``."""
    if not len(scores):
        return []
    longest = max(map(len, tokens))
    padded = [
        np.array([row + [-1] * (longest - len(row)) for row in rows], np.int32).reshape(
            len(rows), longest
        )
        for rows in (tokens, marks)
    ]
    confidence = np.exp(scores - scores.max())
    confidence /= confidence.sum()
    paths = Paths(padded[0], padded[1], confidence, 0, -1, labels)
    return [
        Hypothesis(
            float(scores[k]),
            float(emitting[k]),
            float(lm[k]),
            tuple(word for word in marks[k] if word >= 0) if labels.words else (),
            tuple(tokens[k]),
            float(confidence[k]),
            _paths=paths,
            _rank=k,
        )
        for k in range(len(scores))
    ]
