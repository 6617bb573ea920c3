"""Alignment of a reference and a hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fl_speech.errors import SpeechDataError


class Pair(NamedTuple):
    """A token of the reference and what was recognised for it; None where there is none."""

    reference: str | None
    hypothesis: str | None

    @property
    def kind(self) -> str:
        """ "correct", "substitution", "deletion" or "insertion"."""
        if self.hypothesis is None:
            return "deletion"
        if self.reference is None:
            return "insertion"
        return "correct" if self.reference == self.hypothesis else "substitution"


def align_tokens(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Pair]:
    """The pairs of an alignment with the fewest errors, in order; of several such alignments, the
    one whose errors `fl_nn.EditDistanceMeter` counts. Takes memory for the product of both lengths.

    Raises `SpeechDataError` for a text where a list of tokens is expected.
    """
    for name, tokens in (("reference", reference), ("hypothesis", hypothesis)):
        if isinstance(tokens, str) or not isinstance(tokens, Sequence):
            raise SpeechDataError(f"the {name} {tokens!r} is no list of tokens", "split it")
    costs = [list(range(len(hypothesis) + 1))]
    for i, token in enumerate(reference, 1):
        above, row = costs[-1], [i]
        for j, other in enumerate(hypothesis, 1):
            row.append(min(above[j - 1] + (token != other), above[j] + 1, row[j - 1] + 1))
        costs.append(row)
    pairs: list[Pair] = []
    i, j = len(reference), len(hypothesis)
    while i or j:
        if i and j:
            differs = reference[i - 1] != hypothesis[j - 1]
            if costs[i][j] == costs[i - 1][j - 1] + differs:
                i, j = i - 1, j - 1
                pairs.append(Pair(reference[i], hypothesis[j]))
                continue
        if i and costs[i][j] == costs[i - 1][j] + 1:
            i -= 1
            pairs.append(Pair(reference[i], None))
        else:
            j -= 1
            pairs.append(Pair(None, hypothesis[j]))
    pairs.reverse()
    return pairs
