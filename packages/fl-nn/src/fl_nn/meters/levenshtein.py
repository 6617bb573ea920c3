"""Levenshtein distance with bit-parallel integer operations.

With a and b of m and n tokens, D[i, j] is the distance between their first i and j tokens. In
column j, bit i - 1 of a number says something about the cell (i, j):

    down    D[i, j] = D[i - 1, j] + 1       up      D[i, j] = D[i - 1, j] - 1
    right   D[i, j] = D[i, j - 1] + 1       left    D[i, j] = D[i, j - 1] - 1
    level   D[i, j] = D[i - 1, j - 1]

Myers, 1999, in the form of Hyyro, 2003; Python's integers have as many bits as a is long.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Edits(NamedTuple):
    """What makes one sequence of another: tokens left out, put in, and replaced."""

    deletions: int
    insertions: int
    substitutions: int


def edits(reference: Sequence[Hashable], hypothesis: Sequence[Hashable]) -> Edits:
    """The fewest edits that make `hypothesis` of `reference`.

    Of several ways with equally few, this one: from the last tokens to the first, a token is paired
    with a token, equal or not, where that is on a shortest way, else deleted where that is, else
    inserted.
    """
    if reference == hypothesis:
        return Edits(0, 0, 0)
    columns = _columns(reference, hypothesis)
    i, j = len(reference), len(hypothesis)
    deletions = insertions = substitutions = 0
    while i and j:
        level, down = columns[j - 1]
        bit = 1 << (i - 1)
        if reference[i - 1] == hypothesis[j - 1]:
            i, j = i - 1, j - 1
        elif not level & bit:  # the distance grows along the diagonal: by a substitution
            i, j, substitutions = i - 1, j - 1, substitutions + 1
        elif down & bit:
            i, deletions = i - 1, deletions + 1
        else:
            j, insertions = j - 1, insertions + 1
    return Edits(deletions + i, insertions + j, substitutions)


def _columns(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    # `level` and `down` of every column.
    places: dict[Hashable, int] = {}
    for i, token in enumerate(a):
        places[token] = places.get(token, 0) | 1 << i
    everywhere = (1 << len(a)) - 1
    down, up = everywhere, 0
    columns = []
    for token in b:
        equal = places.get(token, 0) | up
        # A match reaches down through cells that grow: the carries of one addition.
        level = (((equal & down) + down) ^ down) | equal
        right = up | everywhere & ~(level | down)
        left = down & level
        right = right << 1 | 1  # the first row grows with every token of b
        up = right & level & everywhere
        down = everywhere & (left << 1 | ~(level | right))
        columns.append((level, down))
    return columns
