"""The sequences of a beam, with a state of the language model each."""

from __future__ import annotations

import math

import numpy as np

from fl_text.language_model import CheckedLM, ZeroLM

_LOG10 = 1 / math.log(10.0)


class Histories:
    """Sequences of tokens (or words), by number; equal sequences have one number.

    Number 0 is the empty sequence. The model is asked once for what is new, in one call. Scores are
    logarithms to base 10.
    """

    def __init__(self, model: CheckedLM) -> None:
        self._vocabulary = model.vocabulary
        # `as_language_model` makes this of None: there is nothing to ask.
        silent = type(model.model) is ZeroLM and model.model.vocabulary == model.vocabulary
        self._model = None if silent else model
        # A tree of all sequences in use and their beginnings, so that a beginning that left the
        # beam and comes back has its number.
        self._number: dict[tuple[int, int], int] = {}
        self._pair: dict[int, tuple[int, int]] = {0: (-1, -1)}
        self._longer = {0: 0}  # how many in the tree have one token more
        self._next = 1
        # Those in use have states of the model.
        self._handle = {0: 0 if self._model is None else model.start()}
        self._row: dict[int, np.ndarray] = {}

    def extend(self, parents: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The numbers of sequences with one more token each; the parents are in use."""
        found = np.empty(len(parents), np.int64)
        new: dict[int, tuple[int, int]] = {}
        for k, pair in enumerate(zip(parents.tolist(), tokens.tolist(), strict=True)):
            number = self._number.get(pair)
            if number is None:
                number = self._number[pair] = self._next
                self._pair[number] = pair
                self._longer[number] = 0
                self._longer[pair[0]] += 1
                self._next += 1
            if number not in self._handle:
                new[number] = pair
            found[k] = number
        if new:
            handles = [0] * len(new)
            if self._model is not None:
                before = np.array([self._handle[parent] for parent, _ in new.values()], np.int64)
                after = np.array([token for _, token in new.values()], np.int64)
                handles = self._model.extend(before, after).tolist()
            self._handle.update(zip(new, handles, strict=True))
        return found

    def sequence(self, number: int) -> list[int]:
        """The tokens of a sequence."""
        tokens = []
        while number > 0:
            number, token = self._pair[number]
            tokens.append(token)
        return tokens[::-1]

    def parents(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Each sequence as the number of the one before its last token, and that token."""
        unique, which = np.unique(numbers, return_inverse=True)
        pairs = np.array([self._pair[number] for number in unique.tolist()], np.int64)
        parents, tokens = pairs.reshape(-1, 2).T
        return parents[which], tokens[which]

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """The scores of all tokens after each sequence; (numbers, vocabulary)."""
        if self._model is None:
            return np.broadcast_to(np.zeros(1), (len(numbers), self._vocabulary))
        listed = numbers.tolist()
        missing = [number for number in dict.fromkeys(listed) if number not in self._row]
        if missing:
            found = self._model.scores(self._handles(missing)) * np.float32(_LOG10)
            self._row.update(zip(missing, map(np.copy, found), strict=True))
        return np.stack([self._row[number] for number in listed])

    def scores(self, numbers: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """The score of one token after each sequence."""
        if self._model is None or not len(numbers):
            return np.zeros(len(numbers))
        if self._model.has_pairs:
            return self._model.pair_scores(self._handles(numbers.tolist()), tokens) * _LOG10
        unique, which = np.unique(numbers, return_inverse=True)
        found: np.ndarray = self.rows(unique)[which, tokens]
        return found

    def ends(self, numbers: np.ndarray) -> np.ndarray:
        """The score of the end after each sequence."""
        if self._model is None or not len(numbers):
            return np.zeros(len(numbers))
        return self._model.finish(self._handles(numbers.tolist())).astype(np.float64) * _LOG10

    def keep(self, numbers: np.ndarray) -> None:
        """Only these are in use from here on."""
        kept = set(numbers.tolist())
        gone = [number for number in self._handle if number not in kept]
        if gone and self._model is not None:
            self._model.release(self._handles(gone))
        for number in gone:
            del self._handle[number]
            self._row.pop(number, None)
        for number in gone:
            self._prune(number)

    def close(self) -> None:
        """No sequence is in use any more."""
        self.keep(np.zeros(0, np.int64))

    def _prune(self, number: int) -> None:
        """Takes a sequence out of the tree, and its beginnings, as far as nothing needs them."""
        while number in self._pair and number not in self._handle and not self._longer[number]:
            pair = self._pair.pop(number)
            del self._longer[number]
            if number > 0:
                del self._number[pair]
                self._longer[pair[0]] -= 1
            number = pair[0]

    def _handles(self, numbers: list[int]) -> np.ndarray:
        return np.array([self._handle[number] for number in numbers], np.int64)
