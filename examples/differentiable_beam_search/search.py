"""Beam search over a lexicon with differentiable scores (Collobert et al., 2019, arXiv 1902.06022).

A path gives each frame a node of the trie of spellings: it stays, moves to a child, or, at the end
of a word, starts the next word. Its score is the sum of

    emissions[t, token]             every frame
    transitions[token, token']      between neighbouring frames
    lm_weight * words[u, w] + word_score     for word w after word u, at its end

A hypothesis is the log-sum of all paths in the beam that agree on the trie node and the last word.
What a score is, and which graph it records, is the business of ``graphs.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import nlargest
from typing import Any, NamedTuple


class Trie:
    """Spellings as a tree. ``Trie([[0, 1], [0, 2]])`` has two words of two tokens."""

    def __init__(self, spellings: Sequence[Sequence[int]]) -> None:
        self.spellings = [tuple(spelling) for spelling in spellings]
        self.tokens = [-1]  # of each node; the root has none
        self.children: list[dict[int, int]] = [{}]  # token -> node
        self.words: list[list[int]] = [[]]  # that end at the node
        self.paths: list[list[int]] = []  # the nodes of each word
        for word, spelling in enumerate(self.spellings):
            if not spelling:
                raise ValueError(f"word {word} has an empty spelling")
            node, path = 0, []
            for token in spelling:
                if token not in self.children[node]:
                    self.children[node][token] = len(self.tokens)
                    self.tokens.append(token)
                    self.children.append({})
                    self.words.append([])
                node = self.children[node][token]
                path.append(node)
            self.words[node].append(word)
            self.paths.append(path)


class Scores(NamedTuple):
    """The differentiable inputs. T frames, N tokens, V words.

    emissions    (T, N)
    transitions  (N, N), from a token to a token
    words        (V + 1, V), from a word to a word; row V is the start of the sentence
    lm_weight    (), a factor of ``words``
    word_score   (), added at each word
    """

    emissions: Any
    transitions: Any
    words: Any
    lm_weight: Any
    word_score: Any


class State(NamedTuple):
    """What the paths of a hypothesis have in common.

    node   the trie node of the last frame
    last   the last finished word; V before the first one
    place  the number of finished words as long as the path spells the target, else -1
    """

    node: int
    last: int
    place: int


class Found(NamedTuple):
    """``total`` is the log-sum of all paths in the beam, ``target`` of those that spell the target
    (None without one)."""

    total: Any
    target: Any

    @property
    def loss(self) -> Any:
        """The negative log of the share of the target in the beam."""
        return self.total - self.target


def search(
    graph: Any,
    trie: Trie,
    scores: Scores,
    *,
    beam: int,
    threshold: float = math.inf,
    target: Sequence[int] | None = None,
) -> Found:
    """Search with at most ``beam`` hypotheses a frame, none more than ``threshold`` below the best.

    Hypotheses that spell a beginning of ``target`` never leave the beam: its paths are always part
    of the total. Raises ValueError where ``target`` has more tokens than there are frames, where no
    word ends at the last frame, and for scores that are not finite.
    """
    _check(trie, scores, beam, threshold, target)
    lattice = _Lattice(graph, trie, scores, target)
    frames = scores.emissions.shape[0]
    hypotheses = {
        state: graph.start(lattice.emission(0, state))
        for state in lattice.first(len(trie.paths), 0)
    }
    for frame in range(frames):
        if frame:
            paths: dict[State, list[tuple[Any, Any]]] = {}
            for state, score in hypotheses.items():
                for after, arc in lattice.moves(state):
                    paths.setdefault(after, []).append((score, arc))
            hypotheses = {
                state: graph.merge(into, lattice.emission(frame, state))
                for state, into in paths.items()
            }
        hypotheses = _select(graph, hypotheses, frame, beam, threshold)
    ends = [(score, *end) for state, score in hypotheses.items() for end in lattice.ends(state)]
    if not ends:
        raise ValueError("no hypothesis in the beam ends with a word: widen the beam")
    total = graph.result(graph.merge([(score, arc) for score, arc, _ in ends], None))
    if target is None:
        return Found(total, None)
    aims = [(score, arc) for score, arc, aim in ends if aim]
    if not aims:
        raise ValueError(f"the target does not fit in {frames} frames")
    return Found(total, graph.result(graph.merge(aims, None)))


def _select(
    graph: Any, hypotheses: dict[State, Any], frame: int, beam: int, threshold: float
) -> dict[State, Any]:
    values = {state: graph.value(score) for state, score in hypotheses.items()}
    best = max(values.values())
    if not all(map(math.isfinite, values.values())):
        raise ValueError(f"frame {frame}: a score is not finite")
    kept = [state for state, value in values.items() if value >= best - threshold]
    if len(kept) > beam:
        kept = nlargest(beam, kept, key=values.__getitem__)
    kept += [state for state in values.keys() - set(kept) if state.place >= 0]
    graph.end_of_frame([hypotheses[state] for state in kept])
    return {state: hypotheses[state] for state in kept}


class _Lattice:
    """Where paths go. Moves and scores are made at first use and shared by all frames."""

    def __init__(
        self, graph: Any, trie: Trie, scores: Scores, target: Sequence[int] | None
    ) -> None:
        self.graph, self.trie, self.scores = graph, trie, scores
        self.target = list(target) if target is not None else []
        self.marks = [set(trie.paths[word]) for word in self.target]
        self._emissions = graph.cells(scores.emissions)
        self._transitions = graph.cells(scores.transitions)
        self._words = graph.cells(scores.words)
        self._moves: dict[State, list[tuple[State, Any]]] = {}
        self._word_arcs: dict[tuple[int, int], Any] = {}

    def emission(self, frame: int, state: State) -> Any:
        return self._emissions(frame, self.trie.tokens[state.node])

    def first(self, last: int, place: int) -> list[State]:
        """The states in which the word after ``last`` begins."""
        return [
            State(node, last, self._place(node, place)) for node in self.trie.children[0].values()
        ]

    def moves(self, state: State) -> list[tuple[State, Any]]:
        """The states after ``state`` and the scores of the arcs."""
        found = self._moves.get(state)
        if found is None:
            found = self._moves[state] = self._make_moves(state)
        return found

    def ends(self, state: State) -> list[tuple[Any, bool]]:
        """The words that end in ``state``: the score, and whether the target ends with it."""
        return [
            (
                self.graph.arc(None, self._word_arc(state.last, word), word),
                0 <= self._place_after(state, word) == len(self.target),
            )
            for word in self.trie.words[state.node]
        ]

    def _make_moves(self, state: State) -> list[tuple[State, Any]]:
        trie, graph = self.trie, self.graph
        token = trie.tokens[state.node]
        moves = [(state, graph.arc(self._transitions(token, token), None, None))]
        for after, node in trie.children[state.node].items():
            arc = graph.arc(self._transitions(token, after), None, None)
            moves.append((State(node, state.last, self._place(node, state.place)), arc))
        for word in trie.words[state.node]:
            said = self._word_arc(state.last, word)
            for new in self.first(word, self._place_after(state, word)):
                transition = self._transitions(token, trie.tokens[new.node])
                moves.append((new, graph.arc(transition, said, word)))
        return moves

    def _word_arc(self, last: int, word: int) -> Any:
        found = self._word_arcs.get((last, word))
        if found is None:
            scores = self.scores
            found = self.graph.word(scores.lm_weight, self._words(last, word), scores.word_score)
            self._word_arcs[last, word] = found
        return found

    def _place(self, node: int, place: int) -> int:
        return place if 0 <= place < len(self.marks) and node in self.marks[place] else -1

    def _place_after(self, state: State, word: int) -> int:
        fits = state.place >= 0 and self.target[state.place] == word
        return state.place + 1 if fits else -1


def _check(
    trie: Trie, scores: Scores, beam: int, threshold: float, target: Sequence[int] | None
) -> None:
    count, tokens = len(trie.paths), max(trie.tokens) + 1
    shapes = [tuple(x.shape) for x in scores]
    if len(shapes[0]) != 2 or shapes[0][0] < 1 or shapes[0][1] < tokens or min(trie.tokens[1:]) < 0:
        raise ValueError(f"emissions {shapes[0]}: expected (frames, at least {tokens} tokens)")
    if shapes[1] != (shapes[0][1],) * 2:
        raise ValueError(f"transitions {shapes[1]}: expected {(shapes[0][1],) * 2}")
    if shapes[2] != (count + 1, count):
        raise ValueError(f"words {shapes[2]}: expected {(count + 1, count)}")
    if shapes[3:] != [(), ()]:
        raise ValueError(f"lm_weight {shapes[3]}, word_score {shapes[4]}: expected one number each")
    if beam < 1 or not threshold >= 0:
        raise ValueError(f"beam {beam}, threshold {threshold}: expected at least 1 and 0")
    if target is not None and not (target and all(0 <= word < count for word in target)):
        raise ValueError(f"target {list(target)}: expected words from 0 to {count - 1}")
