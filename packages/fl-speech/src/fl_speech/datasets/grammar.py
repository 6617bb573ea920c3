"""A seeded grammar of strings of words: some words follow others more often."""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Sequence

from fl_data import check_count
from fl_speech.datasets.folders import DIGITS
from fl_speech.errors import SpeechDataError
from fl_tensor.annotations import Checked, explained

_STEPS = 60
"""Bisections until the perplexity is met, to the precision of floats."""


class Grammar(Checked):
    """Strings of `min_words` .. `max_words` words, lengths equally often, drawn from a Markov chain
    of order 1: the first word is any of `words`, each next one depends on the word before.

    `seed` draws an order of preference of successors for each word: the one in place `k` of it has
    a probability proportional to `exp(-k t)`, with the `t` for which `perplexity()` is what was
    asked for. Raises `SpeechDataError` for a perplexity that is not in 2 .. the number of words.
    """

    def __init__(
        self,
        words: Sequence[str] = DIGITS,
        *,
        perplexity: float = 6.0,
        min_words: int = 3,
        max_words: int = 7,
        seed: int = 0,
    ) -> None:
        self.words = tuple(words)
        size = len(self.words)
        if isinstance(words, str) or len(set(self.words)) != size or size < 2:
            raise SpeechDataError(
                f"words {words!r} are not 2 or more different ones", "give a list"
            )
        if not 2 <= perplexity <= size:
            raise SpeechDataError(
                f"a perplexity of {perplexity} is not possible with {size} words",
                f"give one in 2 .. {size}",
            )
        if not 1 <= min_words <= max_words:
            raise SpeechDataError(
                f"min_words {min_words} and max_words {max_words}", "give 1 <= minimum <= maximum"
            )
        self.min_words, self.max_words, self.seed = min_words, max_words, seed
        self._requested = perplexity
        draw = random.Random(f"grammar {seed}")
        ranks = []
        for _ in self.words:
            ranks.append(list(range(size)))
            # `Random.random` gives the same numbers in all versions of Python; `shuffle` need not.
            ranks[-1].sort(key=[draw.random() for _ in self.words].__getitem__)
        low, high = 0.0, 50.0
        for _ in range(_STEPS):
            self._rows = [_probabilities(order, (low + high) / 2) for order in ranks]
            if self.perplexity() > perplexity:
                low = (low + high) / 2
            else:
                high = (low + high) / 2
        self._rows = [_probabilities(order, low) for order in ranks]

    def perplexity(self) -> float:
        """`exp` of the entropy of a string over its number of words, given that number; a string is
        drawn with lengths equally often."""
        size = len(self.words)
        entropies = [-sum(p * math.log(p) for p in row if p) for row in self._rows]
        present = [1 / size] * size
        total, words, entropy = 0.0, 0, math.log(size)
        for length in range(1, self.max_words + 1):
            if length > 1:
                entropy += sum(p * h for p, h in zip(present, entropies, strict=True))
                present = [
                    sum(p * row[k] for p, row in zip(present, self._rows, strict=True))
                    for k in range(size)
                ]
            if length >= self.min_words:
                total, words = total + entropy, words + length
        return math.exp(total / words)

    def probability(self, before: str, after: str) -> float:
        """How often `after` follows `before`."""
        return self._rows[self.words.index(before)][self.words.index(after)]

    @explained
    def strings(
        self, count: int, *, seed: int = 0, without: Collection[Sequence[str]] = ()
    ) -> list[tuple[str, ...]]:
        """`count` strings that `seed` draws, none of which is in `without`. A string may come more
        than once. Raises `SpeechDataError` where `without` leaves nothing to draw."""
        check_count(count, "count", "Grammar.strings")
        draw = random.Random(f"strings {self.seed} {seed}")
        excluded = {tuple(string) for string in without}
        found: list[tuple[str, ...]] = []
        refused = 0
        while len(found) < count:
            string = self._string(draw)
            if string not in excluded:
                found.append(string)
                continue
            refused += 1
            if refused > 1000 * (1 + count):
                raise SpeechDataError(
                    f"{len(excluded)} excluded strings leave none to draw", "exclude fewer"
                )
        return found

    def _string(self, draw: random.Random) -> tuple[str, ...]:
        length = self.min_words + int(draw.random() * (self.max_words - self.min_words + 1))
        number = int(draw.random() * len(self.words))
        string = [self.words[number]]
        while len(string) < length:
            number = _chosen(self._rows[number], draw.random())
            string.append(self.words[number])
        return tuple(string)

    def __repr__(self) -> str:
        return (
            f"Grammar({len(self.words)} words, perplexity={self._requested}, "
            f"{self.min_words} .. {self.max_words} words, seed={self.seed})"
        )


def _probabilities(order: Sequence[int], t: float) -> list[float]:
    row = [0.0] * len(order)
    for place, number in enumerate(order):
        row[number] = math.exp(-place * t)
    total = math.fsum(row)
    return [p / total for p in row]


def _chosen(row: Sequence[float], point: float) -> int:
    for number, probability in enumerate(row):
        point -= probability
        if point < 0:
            return number
    return max(range(len(row)), key=row.__getitem__)
