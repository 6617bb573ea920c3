"""The prefix tree of a lexicon, in flat arrays that kernels walk."""

# mypy: disable-error-code="valid-type"
from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

import fl_tensor as ft
from fl_tensor.annotations import Checked
from fl_tensor.kernels import Array
from fl_text.dictionary import Dictionary
from fl_text.errors import TextError
from fl_text.language_model import LanguageModel, as_language_model
from fl_text.lexicon import Lexicon
from fl_text.ngram import NGramModel

#: More labels on one node are dropped, as in the original.
MAX_LABELS = 6
SMEARINGS = ("none", "max", "logadd")


class TrieTables(NamedTuple):
    """Nodes in breadth-first order, the root first.

    The children of node ``n`` are ``first[n] + 1`` to ``first[n + 1]``: the edge into node ``k``
    has number ``k - 1``. Its labels are entries ``label_first[n]`` to ``label_first[n + 1] - 1``.
    """

    first: Array[ft.int32]
    token: Array[ft.int32]
    smear: Array[ft.float32]
    label_first: Array[ft.int32]
    label: Array[ft.int32]


class Trie(Checked):
    """The spellings of words as a prefix tree, with a score for each prefix.

    Parameters
    ----------
    spellings
        Tokens of each word, all from 0 to ``tokens - 1``. A word may have several spellings.
    labels
        The word of each spelling.
    scores
        A language model's score of each word on its own (usually the unigram), 0 by default. A
        decoder uses them for a word that is not complete.
    tokens
        Number of tokens of the acoustic model.
    smearing
        How the scores of words become the score of a prefix: ``"max"``, ``"logadd"`` or ``"none"``
        (prefixes have score 0).

    Raises
    ------
    TextError
        No spelling, an empty one, tokens outside, negative labels, scores that are not finite.
    """

    def __init__(
        self,
        spellings: Iterable[Sequence[int]],
        labels: Sequence[int],
        scores: Sequence[float] | None = None,
        *,
        tokens: int,
        smearing: str = "max",
    ) -> None:
        if smearing not in SMEARINGS:
            raise TextError(f"[text] Trie: smearing is {smearing!r}: use one of {SMEARINGS}")
        if tokens != int(tokens) or not 1 <= tokens < 2**30:
            raise TextError(f"[text] Trie: tokens is {tokens!r}: give the number of tokens")
        spelled = list(spellings)
        lengths = np.array([len(s) for s in spelled], np.int64)
        flat = np.array([t for s in spelled for t in s], np.int64)
        words = np.asarray(labels, np.int64)
        values = np.zeros(len(spelled)) if scores is None else np.asarray(scores, np.float64)
        _check(lengths, flat, words, values, tokens)
        node, parent, token, levels = _nodes(lengths, flat, tokens)
        node, words, values = _by_node(node, words, values)
        count = levels[-1]
        smear = np.zeros(count)
        if smearing != "none":
            smear = _smear(node, values, parent, levels, smearing)
        self.tokens = tokens
        self.labels = int(words.max()) + 1
        self.tables = TrieTables(
            _starts(parent, count),
            token.astype(np.int32),
            smear.astype(np.float32),
            _starts(node, count),
            words.astype(np.int32),
        )

    @classmethod
    def from_lexicon(
        cls,
        lexicon: Lexicon,
        tokens: Dictionary,
        words: Dictionary,
        lm: NGramModel | LanguageModel | None = None,
        *,
        max_reps: int = 0,
        smearing: str = "max",
    ) -> Trie:
        """The spellings of a lexicon, with the scores that ``lm`` gives to single words.

        ``max_reps`` is that of `pack_replabels`. Raises TextError for tokens and words that the
        dictionaries do not have.
        """
        spelled = list(lexicon.indices(tokens, max_reps))
        labels = words.map_entries_to_indices(word for word, _ in spelled)
        scores = None
        if lm is not None and spelled:
            model = as_language_model(lm, [words.get_entry(k) for k in range(len(words))])
            start = model.start()
            first = model.pair_scores(np.full(len(labels), start), np.array(labels))
            model.release(np.array([start]))
            scores = first.astype(np.float64) / np.log(10)
        return cls(
            [spelling for _, spelling in spelled],
            labels,
            scores,
            tokens=tokens.index_size(),
            smearing=smearing,
        )

    def __len__(self) -> int:
        """Number of nodes, with the root."""
        return len(self.tables.smear)

    def __repr__(self) -> str:
        return f"Trie({len(self)} nodes, {len(self.tables.label)} labels, {self.tokens} tokens)"

    def find(self, spelling: Sequence[int]) -> int:
        """The node of a prefix, -1 if no word begins so."""
        node = 0
        for token in spelling:
            one, end = self.tables.first[node : node + 2]
            at = one + int(np.searchsorted(self.tables.token[one:end], token))
            if at == end or self.tables.token[at] != token:
                return -1
            node = int(at) + 1
        return node


def _check(
    lengths: np.ndarray, flat: np.ndarray, words: np.ndarray, values: np.ndarray, tokens: int
) -> None:
    if not len(lengths):
        raise TextError("[text] Trie: there is no spelling: give at least one word")
    if words.shape != lengths.shape or values.shape != lengths.shape:
        raise TextError(
            f"[text] Trie: {len(lengths)} spellings, but labels have shape {words.shape} and scores"
            f" {values.shape}: give one label and one score for each spelling"
        )
    if not lengths.all():
        raise TextError(f"[text] Trie: spelling {int(lengths.argmin())} is empty: leave it out")
    bad = np.flatnonzero((flat < 0) | (flat >= tokens))
    if len(bad):
        which = int(np.searchsorted(np.cumsum(lengths), bad[0], side="right"))
        raise TextError(
            f"[text] Trie: spelling {which} has token {flat[bad[0]]}: tokens are 0 to {tokens - 1}"
        )
    if (words < 0).any() or (words >= 2**31).any():
        raise TextError("[text] Trie: labels are numbers of words, from 0 to 2**31 - 1")
    if not np.isfinite(values).all():
        which = int(np.flatnonzero(~np.isfinite(values))[0])
        raise TextError(f"[text] Trie: score {which} is {values[which]}: scores must be finite")


def _nodes(
    lengths: np.ndarray, flat: np.ndarray, tokens: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """The node of each spelling; parent and token of each edge; the first node of each level.

    Level by level, (parent, token) pairs are sorted: children of a node lie together, by token.
    """
    first = np.cumsum(lengths) - lengths
    node = np.zeros(len(lengths), np.int64)
    live = np.arange(len(lengths))
    parents, token, levels = [], [], [0, 1]
    for depth in range(int(lengths.max())):
        live = live[lengths[live] > depth]
        key = node[live] * tokens + flat[first[live] + depth]
        edges, which = np.unique(key, return_inverse=True)
        node[live] = levels[-1] + which
        parents.append(edges // tokens)
        token.append(edges % tokens)
        levels.append(levels[-1] + len(edges))
    return node, np.concatenate(parents), np.concatenate(token), levels


def _by_node(
    node: np.ndarray, words: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels in the order of their nodes, at most MAX_LABELS each: the first ones given."""
    order = np.argsort(node, kind="stable")
    node = node[order]
    rank = np.arange(len(node)) - np.searchsorted(node, node)
    kept = rank < MAX_LABELS
    if not kept.all():
        warnings.warn(
            f"{int((~kept).sum())} words are left out: a spelling has at most {MAX_LABELS} words",
            stacklevel=3,
        )
    order = order[kept]
    return node[kept], words[order], values[order]


def _smear(
    node: np.ndarray, values: np.ndarray, parent: np.ndarray, levels: list[int], smearing: str
) -> np.ndarray:
    """Scores of nodes: of their own labels (always added), then with those of their children."""
    smear = np.full(levels[-1], -np.inf)
    np.logaddexp.at(smear, node, values)
    merge = np.logaddexp if smearing == "logadd" else np.maximum
    for level in range(len(levels) - 2, 0, -1):
        one, end = levels[level], levels[level + 1]
        above, at = np.unique(parent[one - 1 : end - 1], return_index=True)
        smear[above] = merge(smear[above], merge.reduceat(smear[one:end], at))
    return smear


def _starts(owner: np.ndarray, count: int) -> np.ndarray:
    """Where the entries of each owner begin, and the end of the last: int32 (count + 1,)."""
    starts = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=count), out=starts[1:])
    return starts
