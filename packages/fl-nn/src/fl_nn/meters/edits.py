"""EditDistanceMeter: error rates of recognised sequences."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.meters.levenshtein import edits
from fl_nn.meters.meter import Meter
from fl_nn.values import tensor_of
from fl_tensor.annotations import explained

Tokens = Sequence[Hashable] | ft.Array
_COUNTS = ("n", "deletions", "insertions", "substitutions")


class ErrorCounts(NamedTuple):
    """`errors` is the sum of the last three, `n` the number of tokens in the targets."""

    errors: int
    n: int
    deletions: int
    insertions: int
    substitutions: int


class ErrorRates(NamedTuple):
    """Percentages of `n`, the number of tokens in the targets: infinite where there is an error
    but no token, NaN where there is neither."""

    errors: float
    n: int
    deletions: float
    insertions: float
    substitutions: float


class EditDistanceMeter(Meter):
    """The Levenshtein distance of predictions from targets, over the number of target tokens: the
    word, letter or token error rate, whichever the tokens are.

        words = nn.EditDistanceMeter()
        words.add("the cat sat".split(), "a cat sat down".split())
        print(words.result())                   # 50.0, percent
        print(words.value)                      # errors=2, n=4, deletions=1, ..., substitutions=1

    A target token that is missing is a deletion, one too many in the prediction an insertion. Where
    several alignments have equally few errors, substitutions go first: from the last tokens to the
    first, tokens are paired where a shortest way allows it, else the target's is deleted, else the
    prediction's inserted. Merging is exact, whatever the order.
    """

    def reset(self) -> None:
        self._n = self._deletions = self._insertions = self._substitutions = 0

    @explained
    def add(self, prediction: Tokens, target: Tokens) -> None:
        """One pair of sequences: lists, tuples or strings of tokens, or arrays of one axis. Cut off
        padding first. Raises ShapeError for arrays with more axes."""
        target = _tokens("target", target)
        found = edits(target, _tokens("prediction", prediction))
        self.add_counts(len(target), *found)

    def add_counts(self, n: int, deletions: int, insertions: int, substitutions: int) -> None:
        """Errors that were counted elsewhere, in `n` target tokens."""
        counts = (n, deletions, insertions, substitutions)
        if min(counts) < 0 or deletions + substitutions > n:
            raise ModuleError(
                f"[EditDistanceMeter] {deletions} deletions, {insertions} insertions and "
                f"{substitutions} substitutions in {n} tokens: counts are at least 0, and a token "
                "is deleted or substituted once at most"
            )
        self._n += int(n)
        self._deletions += int(deletions)
        self._insertions += int(insertions)
        self._substitutions += int(substitutions)

    @property
    def value(self) -> ErrorCounts:
        parts = (self._deletions, self._insertions, self._substitutions)
        return ErrorCounts(sum(parts), self._n, *parts)

    @property
    def error_rate(self) -> ErrorRates:
        counts = self.value
        return ErrorRates(
            _percent(counts.errors, self._n),
            self._n,
            *(_percent(part, self._n) for part in counts[2:]),
        )

    def result(self) -> float:
        return self.error_rate.errors

    def state(self) -> dict[str, Any]:
        return {name: getattr(self.value, name) for name in _COUNTS}

    def merge(self, state: Mapping[str, Any]) -> None:
        self.add_counts(*(state[name] for name in _COUNTS))


def _tokens(name: str, given: Tokens) -> Sequence[Hashable]:
    if not isinstance(given, ft.Array):
        if not isinstance(given, Sequence):
            raise ft.DTypeError(f"[EditDistanceMeter] {name} {given!r}: expected several tokens")
        return given
    if given.ndim != 1:
        raise ft.ShapeError(
            f"[EditDistanceMeter] {name} {given.shape}: expected one axis; add the sequences of a "
            "batch one by one, without their padding"
        )
    return tensor_of(given).tolist()


def _percent(count: int, n: int) -> float:
    if n:
        return 100.0 * count / n
    return math.inf if count else math.nan
