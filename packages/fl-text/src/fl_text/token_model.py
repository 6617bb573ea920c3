"""A causal network, such as `fl_text.models.GPT2` or `GCNN`, as language model of decoders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

import fl_autograd as ag
import fl_tensor as ft
from fl_tensor.annotations import Checked
from fl_text.errors import TextError
from fl_text.models.caches import Cache, arrays_of, join_rows

IntArray: TypeAlias = "np.ndarray[Any, Any]"
FloatArray: TypeAlias = "np.ndarray[Any, Any]"


class CausalModel(Protocol):
    """What a `TokenModel` calls; each `fl_text.models.CausalNetwork` is one."""

    training: bool

    def __call__(self, tokens: ft.Array, caches: Any) -> ft.Array:
        """Scores (N, T, vocabulary) of the tokens after `tokens` (N, T), which extend `caches`."""
        ...

    def caches(self) -> Sequence[Cache]:
        """Empty caches, one for each layer that has one."""
        ...


class _Block:
    """States of equal length that were made together: a row of each cache and of scores each."""

    def __init__(self, caches: Sequence[Cache], scores: FloatArray, handles: list[int]) -> None:
        self.caches, self.scores, self.handles = caches, scores, handles
        self.live = len(handles)


class TokenModel(Checked):
    """A `LanguageModel` over the tokens of a causal network, with caches that branch.

    model   a network in eval mode that takes tokens and caches, as `GPT2` does
    start   the token before the first one (`tokenizer.bos_id`, or what the model was trained with)
    end     the token that ends a sequence; without one `finish` scores nothing
    tokens  the network's token for each token of the decoder, if their numbers differ

    A state holds what the caches keep of its sequence: keys and values, the state of a recurrent
    layer, the last inputs of a convolution. A longer one takes over those of its parent and runs
    the network for one token. Sequences of equal length run as one batch. Memory is that
    of the states in use: rows of released ones are taken out once they are half of their batch.
    Raises `TextError` for a network in training mode and for sequences that it does not take.
    """

    def __init__(
        self,
        model: CausalModel,
        start: int,
        end: int | None = None,
        tokens: Sequence[int] | None = None,
    ) -> None:
        if not callable(getattr(model, "caches", None)) or not hasattr(model, "training"):
            raise TextError(
                f"[TokenModel] a {type(model).__name__} is no causal network: give one that takes "
                "tokens and caches, such as fl_text.models.GPT2"
            )
        if model.training:
            raise TextError("[TokenModel] the network is in training mode: call its eval() first")
        self.model = model
        self._weight = _first_weight(model)
        self._next = 0
        self._place: dict[int, tuple[_Block, int]] = {}
        self._start, self._end = start, end
        try:
            scores = self._run([start], model.caches())[1]
        except ft.IndexingError as error:
            raise TextError(f"[TokenModel] start={start} is no token of the network") from error
        size = scores.shape[1]
        chosen = list(range(size) if tokens is None else tokens)
        for name, token in [("end", end), *(("tokens", token) for token in chosen)]:
            if token is not None and not 0 <= token < size:
                raise TextError(f"[TokenModel] {name}={token}: the network has 0 to {size - 1}")
        self.vocabulary = len(chosen)
        self._tokens = np.array(chosen, np.int64)

    @property
    def cached_rows(self) -> int:
        """How many rows its caches have: at most twice the number of states in use."""
        blocks = {id(block): block for block, _ in self._place.values()}
        return sum(len(block.handles) for block in blocks.values())

    def start(self) -> int:
        return self._add(*self._run([self._start], self.model.caches()))[0]

    def extend(self, states: IntArray, tokens: IntArray) -> IntArray:
        places = [self._where(state) for state in states.tolist()]
        bad = (tokens < 0) | (tokens >= self.vocabulary)
        if bad.any():
            raise TextError(
                f"[TokenModel] token {tokens[bad][0]}: there are 0 to {self.vocabulary - 1}"
            )
        by_length: dict[int, list[int]] = defaultdict(list)
        for k, (block, _) in enumerate(places):
            by_length[block.caches[0].steps].append(k)
        found = np.empty(len(places), np.int64)
        for together in by_length.values():
            # Rows of one block are picked by one gather.
            together.sort(key=lambda k: id(places[k][0]))
            caches = self._branch([places[k] for k in together])
            found[together] = self._add(*self._run(self._tokens[tokens[together]].tolist(), caches))
        return found

    def scores(self, states: IntArray) -> FloatArray:
        rows = np.empty((len(states), self.vocabulary), np.float32)
        for k, state in enumerate(states.tolist()):
            block, row = self._where(state)
            rows[k] = block.scores[row, self._tokens]
        return rows

    def finish(self, states: IntArray) -> FloatArray:
        if self._end is None:
            return np.zeros(len(states), np.float32)
        places = [self._where(state) for state in states.tolist()]
        return np.array([block.scores[row, self._end] for block, row in places], np.float32)

    def release(self, states: IntArray) -> None:
        touched = {}
        for state in states.tolist():
            block, _ = self._where(state)
            del self._place[state]
            block.live -= 1
            touched[id(block)] = block
        for block in touched.values():
            if 0 < 2 * block.live <= len(block.handles):
                self._compact(block)

    def _compact(self, block: _Block) -> None:
        rows = [row for row, handle in enumerate(block.handles) if handle in self._place]
        chosen = self._ints(rows)
        for cache in block.caches:
            cache.select(chosen)
            ft.eval(*arrays_of(cache))  # so that the whole batch can be freed
        block.scores = block.scores[rows]
        block.handles = [block.handles[row] for row in rows]
        self._place.update({handle: (block, row) for row, handle in enumerate(block.handles)})

    def _branch(self, places: list[tuple[_Block, int]]) -> Sequence[Cache]:
        """Caches with the rows of `places`, which lie block by block."""
        runs: list[tuple[_Block, list[int]]] = []
        for block, row in places:
            if not runs or runs[-1][0] is not block:
                runs.append((block, []))
            runs[-1][1].append(row)
        chosen = [self._ints(rows) for _, rows in runs]
        branched = self.model.caches()
        for layer, cache in enumerate(branched):
            join_rows(cache, [block.caches[layer] for block, _ in runs], chosen)
        return branched

    @ag.no_grad()
    def _run(
        self, tokens: list[int], caches: Sequence[Cache]
    ) -> tuple[Sequence[Cache], FloatArray]:
        """One more token for each row of the caches, and the scores after it."""
        try:
            found = self.model(self._ints(tokens).reshape(-1, 1), caches)
        except ft.ShapeError as error:
            raise TextError(
                f"[TokenModel] the network does not take a sequence of {caches[0].steps + 1} "
                f"tokens: limit the length of hypotheses, or give a network of more steps ({error})"
            ) from error
        scores = ft.log_softmax(found[:, -1], -1)
        return caches, np.asarray(scores, np.float32)

    def _add(self, caches: Sequence[Cache], scores: FloatArray) -> list[int]:
        handles = list(range(self._next, self._next + len(scores)))
        self._next += len(handles)
        block = _Block(caches, scores, handles)
        self._place.update({handle: (block, row) for row, handle in enumerate(handles)})
        return handles

    def _where(self, state: int) -> tuple[_Block, int]:
        try:
            return self._place[state]
        except KeyError:
            raise TextError(f"[TokenModel] state {state} is unknown, or released already") from None

    def _ints(self, values: list[int]) -> Any:
        return ft.asarray(values, ft.int64, self._weight.device, self._weight.backend)


def _first_weight(model: Any) -> ft.Array:
    weight: ft.Array = next(iter(model.parameters()))
    return weight
