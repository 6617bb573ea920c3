"""States of a network with a row for each hypothesis: picking and joining rows.

States are arrays (NumPy arrays, also of objects, Tensors, Variables), objects with
`select(rows)`, such as `fl_nn.KVCache`, or tuples, lists and dicts of these. None has no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fl_tensor as ft
from fl_text.errors import TextError


def pick_rows(states: Any, rows: np.ndarray, where: str) -> Any:
    """These rows of each array, in this order. An object with `select` is told, and kept."""

    def pick(leaf: Any) -> Any:
        if hasattr(leaf, "select"):
            picked = leaf.select(ft.asarray(rows))
            return leaf if picked is None else picked
        if isinstance(leaf, np.ndarray):
            return leaf[rows]
        places = ft.asarray(rows, ft.int64, leaf.device, leaf.backend)
        return ft.gather(leaf, places, 0)

    return _walk(pick, [states], where)


def join_rows(parts: Sequence[Any], where: str) -> Any:
    """The rows of all parts, one part after the other. Objects with `select` cannot be joined."""

    def join(*leaves: Any) -> Any:
        if isinstance(leaves[0], np.ndarray):
            return np.concatenate(leaves, 0)
        if hasattr(leaves[0], "select"):
            raise TextError(
                f"[{where}] states are a {type(leaves[0]).__name__}, whose rows have one length: "
                "this decoder has hypotheses of different lengths, so give arrays"
            )
        return ft.concatenate(leaves, 0)

    return _walk(join, list(parts), where)


def check_rows(states: Any, count: int, where: str) -> None:
    """Raises TextError unless every array has `count` rows."""

    def check(leaf: Any) -> None:
        if hasattr(leaf, "select"):
            return
        if leaf.ndim == 0 or leaf.shape[0] != count:
            raise TextError(
                f"[{where}] states have shape {tuple(leaf.shape)} for {count} hypotheses: the "
                "first axis has a row for each hypothesis, in their order"
            )

    _walk(check, [states], where)


def _walk(function: Callable[..., Any], trees: list[Any], where: str) -> Any:
    """The function of the leaves at each place of trees that are built alike."""
    first = trees[0]
    if first is None:
        return None
    if any(type(tree) is not type(first) for tree in trees):
        raise TextError(
            f"[{where}] states change from {type(trees[-1]).__name__} to {type(first).__name__}: "
            "give states of one structure in every call"
        )
    if isinstance(first, dict):
        return {key: _walk(function, [tree[key] for tree in trees], where) for key in first}
    if isinstance(first, tuple | list):
        found = [_walk(function, list(leaves), where) for leaves in zip(*trees, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*found)
        return tuple(found) if isinstance(first, tuple) else found
    if not (isinstance(first, np.ndarray) or hasattr(first, "backend") or hasattr(first, "select")):
        raise TextError(
            f"[{where}] states have a {type(first).__name__}: give arrays with a row for each "
            "hypothesis (np.array(items, dtype=object) for objects), or tuples and dicts of them"
        )
    return function(*trees)


def scores_of(answer: Any, rows: int, tokens: int, where: str) -> np.ndarray:
    """A network's scores as float64 `(rows, tokens)`, checked for shape, NaN and infinity."""
    try:
        found = np.asarray(answer)
    except (TypeError, ValueError) as error:
        raise TextError(f"[{where}] the scores are no array of numbers: {error}") from error
    if found.shape != (rows, tokens) or found.dtype.kind not in "fiu":
        raise TextError(
            f"[{where}] the scores are {found.dtype} of shape {found.shape}: expected {rows} rows, "
            f"one for each hypothesis, with a score for each of the {tokens} tokens"
        )
    bad = np.isnan(found) | (found == np.inf)
    if bad.any():
        row, token = np.argwhere(bad)[0]
        raise TextError(
            f"[{where}] the score of token {token} in row {row} is {found[row, token]}: give log "
            "probabilities, -inf for what is impossible; look at the weights and inputs"
        )
    return found.astype(np.float64)


def pair_of(answer: Any, where: str, what: str) -> tuple[Any, Any]:
    """The two things that a network gives."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TextError(f"[{where}] it gave {type(answer).__name__}: expected a tuple, {what}")
    return answer
