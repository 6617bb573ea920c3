"""The protocol between decoders and language models of any kind, and a check of answers.

States are numbers that the model hands out, so that a neural model may keep caches behind them that
branch. A decoder asks for all hypotheses of its beam in one call.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from fl_tensor.annotations import Checked, explained
from fl_text.errors import TextError
from fl_text.ngram import NGramModel

IntArray: TypeAlias = "np.ndarray[Any, Any]"
FloatArray: TypeAlias = "np.ndarray[Any, Any]"

_LN10 = math.log(10.0)


@runtime_checkable
class LanguageModel(Protocol):
    """A model of sequences of tokens (or words) 0 to vocabulary - 1, for decoders.

    A state stands for a sequence. States and tokens come as int64 arrays `(k,)`, scores are natural
    logarithms of probabilities. Decoders that keep a model in use by several searches at once ask
    it from one thread at a time.
    """

    def start(self) -> int:
        """The state of the empty sequence."""
        ...

    def extend(self, states: IntArray, tokens: IntArray) -> IntArray:
        """The states after one more token each; int64 `(k,)`. The old ones stay valid."""
        ...

    def scores(self, states: IntArray) -> FloatArray:
        """log p(token | state) of every token; float32 `(k, vocabulary)`."""
        ...

    def finish(self, states: IntArray) -> FloatArray:
        """log p(the sequence ends | state); `(k,)`."""
        ...

    def release(self, states: IntArray) -> None:
        """These states are not needed any more. Each comes once for each time it was handed out."""
        ...


@runtime_checkable
class PairScores(Protocol):
    """What a language model of many words may have besides: scores of chosen words."""

    def pair_scores(self, states: IntArray, tokens: IntArray) -> FloatArray:
        """log p(token | state) of each pair; `(k,)`."""
        ...


class ZeroLM(Checked):
    """The language model that scores nothing: 0 for each of `vocabulary` tokens and for the end."""

    def __init__(self, vocabulary: int) -> None:
        if vocabulary < 1:
            raise TextError(f"[ZeroLM] vocabulary {vocabulary}: give the number of tokens")
        self.vocabulary = vocabulary

    def start(self) -> int:
        return 0

    def extend(self, states: IntArray, tokens: IntArray) -> IntArray:
        return np.zeros(len(states), np.int64)

    def scores(self, states: IntArray) -> FloatArray:
        return np.zeros((len(states), self.vocabulary), np.float32)

    def finish(self, states: IntArray) -> FloatArray:
        return np.zeros(len(states), np.float32)

    def release(self, states: IntArray) -> None:
        pass


class NGramLM(Checked):
    """An n-gram model as `LanguageModel` for tokens (or words) with these names, in this order.

    A state is the model's own: a context. Raises `TextError` where the model knows no name.
    """

    def __init__(self, model: NGramModel, names: Iterable[str]) -> None:
        listed = list(names)
        self.model = model
        self._words = model.indices(listed)
        if not len(listed) or (self._words == model.unk).all():
            shown = f", such as {listed[0]!r}" if listed else ""
            raise TextError(
                f"[NGramLM] the n-gram model knows none of the {len(listed)} names{shown}: give a "
                "model that was estimated on them"
            )

    def start(self) -> int:
        return self.model.start

    def extend(self, states: IntArray, tokens: IntArray) -> IntArray:
        return self._walk(states, tokens)[1].astype(np.int64)

    def scores(self, states: IntArray) -> FloatArray:
        contexts, which = np.unique(states, return_inverse=True)  # many sequences share one
        width = len(self._words)
        tokens = np.tile(np.arange(width), len(contexts))
        found = self.pair_scores(np.repeat(contexts, width), tokens)
        rows: FloatArray = found.reshape(len(contexts), width)[which]
        return rows

    def pair_scores(self, states: IntArray, tokens: IntArray) -> FloatArray:
        return (self._walk(states, tokens)[0] * _LN10).astype(np.float32)

    def finish(self, states: IntArray) -> FloatArray:
        ends = np.full(len(states), self.model.eos, np.int32)
        return (self.model.score_words(states, ends)[0] * _LN10).astype(np.float32)

    def release(self, states: IntArray) -> None:
        pass

    def _walk(self, states: IntArray, tokens: IntArray) -> tuple[FloatArray, IntArray]:
        _in_range("NGramLM", tokens, len(self._words))
        return self.model.score_words(states, self._words[tokens])


class CheckedLM(Checked):
    """A language model whose answers are checked: shapes, dtypes, NaN, and the vocabulary.

    Decoders put it around every model that is given to them. Each problem raises `TextError`,
    which names the model and the method.
    """

    def __init__(self, model: LanguageModel, vocabulary: int) -> None:
        missing = [
            name
            for name in ("start", "extend", "scores", "finish", "release")
            if not callable(getattr(model, name, None))
        ]
        if isinstance(model, type):
            raise TextError(f"[{model.__name__}] it is a class: give an object of it")
        if missing:
            raise TextError(
                f"[{type(model).__name__}] it is no language model: it has no method "
                f"{', '.join(missing)}; see docs/language-models.md"
            )
        if vocabulary < 1:
            raise TextError(f"[CheckedLM] vocabulary {vocabulary}: give the number of tokens")
        self.model, self.vocabulary = model, vocabulary
        self.has_pairs = isinstance(model, PairScores)

    def start(self) -> int:
        state = self.model.start()
        if isinstance(state, bool) or not isinstance(state, int | np.integer):
            raise self._error("start", f"gave {state!r}", "a state is an int")
        return int(state)

    def extend(self, states: IntArray, tokens: IntArray) -> IntArray:
        found = self._array("extend", self.model.extend(states, tokens))
        self._shaped("extend", found, (len(states),), "one state for each pair")
        if found.dtype.kind not in "iu":
            raise self._error("extend", f"gave {found.dtype}", "states are int64")
        return found.astype(np.int64, copy=False)

    def scores(self, states: IntArray) -> FloatArray:
        found = self._array("scores", self.model.scores(states))
        if found.ndim == 2 and found.shape[0] == len(states) != 0:
            if found.shape[1] != self.vocabulary:
                raise self._error(
                    "scores",
                    f"gave {found.shape[1]} scores a state, and the decoder has "
                    f"{self.vocabulary} tokens",
                    "give a model of the decoder's vocabulary, in the same order",
                )
        self._shaped("scores", found, (len(states), self.vocabulary), "a row for each state")
        return self._logarithms("scores", found)

    def pair_scores(self, states: IntArray, tokens: IntArray) -> FloatArray:
        """From the model's own `pair_scores`, or out of the rows of `scores`."""
        if not isinstance(self.model, PairScores):
            rows = self.scores(states)
            return np.take_along_axis(rows, tokens[:, None], 1)[:, 0]
        found = self._array("pair_scores", self.model.pair_scores(states, tokens))
        self._shaped("pair_scores", found, (len(states),), "one score for each pair")
        return self._logarithms("pair_scores", found)

    def finish(self, states: IntArray) -> FloatArray:
        found = self._array("finish", self.model.finish(states))
        self._shaped("finish", found, (len(states),), "one score for each state")
        return self._logarithms("finish", found)

    def release(self, states: IntArray) -> None:
        self.model.release(states)

    def _array(self, method: str, answer: Any) -> FloatArray:
        try:
            found = np.asarray(answer)
        except (TypeError, ValueError) as error:
            raise self._error(method, f"gave no array ({error})", "give NumPy arrays") from error
        if found.dtype.kind not in "fiu":
            raise self._error(method, f"gave {found.dtype}", "give NumPy arrays of numbers")
        return found

    def _shaped(self, method: str, found: IntArray, shape: tuple[int, ...], what: str) -> None:
        if found.shape != shape:
            raise self._error(method, f"gave shape {found.shape}", f"expected {shape}, {what}")

    def _logarithms(self, method: str, found: FloatArray) -> FloatArray:
        bad = np.isnan(found) | (found == np.inf)
        if bad.any():
            place = tuple(int(k) for k in np.argwhere(bad)[0])
            raise self._error(
                method,
                f"gave {found[place]} at {place}",
                "scores are natural logarithms of probabilities; look at the weights and inputs",
            )
        return found.astype(np.float32, copy=False)

    def _error(self, method: str, problem: str, remedy: str) -> TextError:
        return TextError(f"[{type(self.model).__name__}.{method}] it {problem}: {remedy}")


def _in_range(name: str, tokens: IntArray, vocabulary: int) -> None:
    bad = (tokens < 0) | (tokens >= vocabulary)
    if bad.any():
        raise TextError(
            f"[{name}] token {int(tokens[bad][0])}: the vocabulary has 0 to {vocabulary - 1}"
        )


@explained
def as_language_model(model: LanguageModel | NGramModel | None, names: Iterable[str]) -> CheckedLM:
    """The model as decoders use it, for tokens (or words) of these names; None scores nothing."""
    listed = list(names)
    if model is None:
        return CheckedLM(ZeroLM(len(listed)), len(listed))
    if isinstance(model, NGramModel):
        return CheckedLM(NGramLM(model, listed), len(listed))
    if isinstance(model, CheckedLM):
        model = model.model
    return CheckedLM(model, len(listed))
