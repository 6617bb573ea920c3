"""Update functions as the original has them: lists with an entry for each hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fl_text.decoder.rows import pair_of
from fl_text.decoder.seq2seq_search import Update
from fl_text.errors import TextError

#: (emissions, N, T, tokens, rows, states, step) -> (scores of each, state of each)
Callback = Callable[..., tuple[Sequence[Any], Sequence[Any]]]


def per_hypothesis(function: Callback, emissions: Any) -> Update:
    """The update function for an `EmittingModelUpdateFunc` of flashlight-text.

    ``function(emissions, N, T, tokens, rows, states, step)`` is called with `emissions` (T, N) as
    they are, and lists: the previous token of each hypothesis, the row of the call before that it
    comes from, and what that call gave as its state; -1, -1 and None in the first call. It gives a
    list of scores and a state for each hypothesis; one with the state None is dropped.

    Raises `TextError` for emissions that have no frames, or other than two dimensions.
    """
    shape = np.shape(emissions)
    if len(shape) != 2 or 0 in shape:
        raise TextError(
            f"[per_hypothesis] emissions of shape {shape}: give (frames, tokens), at least one each"
        )
    frames, size = shape

    def update(tokens: np.ndarray, items: Any) -> tuple[np.ndarray, np.ndarray]:
        before: list[tuple[int, Any, int]] = [(-1, None, 0)] if items is None else items.tolist()
        step = before[0][2]
        rows, states = [row for row, _, _ in before], [state for _, state, _ in before]
        answer = function(emissions, size, frames, tokens.tolist(), rows, states, step)
        scores, new = pair_of(answer, "per_hypothesis", "scores and new states")
        if len(scores) != len(tokens) or len(new) != len(tokens):
            raise TextError(
                f"[per_hypothesis] the function gave {len(scores)} lists of scores and {len(new)} "
                f"states for {len(tokens)} hypotheses: give one of each for each"
            )
        found = np.array([np.asarray(row, np.float64) for row in scores])
        found[[state is None for state in new]] = -np.inf
        items = np.empty(len(new), object)
        items[:] = [(row, state, step + 1) for row, state in enumerate(new)]
        return found, items

    return update
