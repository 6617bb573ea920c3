"""A causal network that is run token by token, for rows of different lengths.

The rows of a batch end in the same column of their caches. Shorter rows begin with padding.
Positions count from the first token of each row, and no token sees padding. So a row gives what it
gives alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

import fl_autograd as ag
import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import arange_like
from fl_text.errors import TextError
from fl_text.generation.growing import GrowingState, takes_fixed_caches

#: Capacities are multiples of it, so that prompts of similar lengths share a graph.
_MULTIPLE = 32


class CausalNetwork(Protocol):
    """What generates; `fl_text.models.GPT2` is one.

    Its layers hand caches to `fl_nn.MultiHeadAttention`, and `caches[0].steps` to their positions.
    Where `caches()` gives others than `fl_nn.KVCache`, steps have no graph. `context`, or `steps`,
    is the most tokens that it takes. `vocabulary` is the number of tokens. All may be missing.
    """

    training: bool

    def parameters(self) -> Iterable[Any]: ...

    def __call__(self, tokens: ft.Array, caches: Sequence[Any], /) -> ft.Array:
        """Scores (N, T, vocabulary) of the tokens after `tokens` (N, T), which follow `caches`."""
        ...

    def caches(self) -> Sequence[Any]:
        """Empty caches, one for each attention layer."""
        ...


class CompiledNetwork:
    """A causal network in eval mode, and the graph of its step. `generate`, `stream` and
    `beam_search` take it in place of the network. Later calls use the graphs of earlier ones.

    compiled  run steps as a graph (`fl_nn.compile`): one for each batch size and capacity

    Raises `TextError` for other objects, and for a network in training mode.
    """

    def __init__(self, network: CausalNetwork, compiled: bool = True) -> None:
        needed = ("caches", "parameters")
        if not callable(network) or not all(callable(getattr(network, n, None)) for n in needed):
            raise TextError(
                f"[generate] a {type(network).__name__} is no causal network: give one that takes "
                "tokens and caches, such as fl_text.models.GPT2"
            )
        if not isinstance(compiled, bool):
            raise TextError(f"[generate] compiled={compiled!r}: expected True or False")
        self.network = cast(Any, network)
        self.steps: int | None = getattr(network, "context", getattr(network, "steps", None))
        self.vocabulary: int | None = getattr(network, "vocabulary", None)
        self._run: Any = self._step
        self._fixed = takes_fixed_caches(network, network.caches())
        if compiled and self._fixed and isinstance(network, nn.Module):
            self._run = nn.compile(self._step, network)
        self._weight: ft.Array | None = next(iter(self.network.parameters()), None)

    def explain(self) -> str:
        """Which graphs there are, and why a step has none."""
        found: str = self._run.explain() if hasattr(self._run, "explain") else "not compiled"
        return found

    def numbers(self, values: Any) -> Any:
        """int64, where the network is."""
        if self._weight is None:
            return ft.asarray(values, ft.int64)
        return ft.asarray(values, ft.int64, self._weight.device, self._weight.backend)

    def start(self, rows: list[list[int]], capacity: int) -> DecodingState | GrowingState:
        """The state before the last token of each row, with room for `capacity` tokens."""
        if self.network.training:
            raise TextError("[generate] the network is in training mode: call its eval() first")
        if not self._fixed:
            return GrowingState(self, rows)
        width = max(1, *(len(row) - 1 for row in rows))
        pads = [width - (len(row) - 1) for row in rows]
        columns = [[0] * pad + row[:-1] for pad, row in zip(pads, rows, strict=True)]
        longest = max(map(len, rows))
        room = max(capacity, longest) + width + 1 - longest
        room = -(-room // _MULTIPLE) * _MULTIPLE
        first = self.numbers(pads)
        known = self.numbers(range(width)) >= first[:, None]
        views = [nn.CacheStep(-first, new_visible=known) for _ in self.network.caches()]
        with ag.no_grad():
            # On a backend that defers, scores that nobody reads are not computed.
            self.network(self.numbers(columns), views)
            caches = [nn.FixedKVCache(room) for _ in views]
            for cache, view in zip(caches, views, strict=True):
                if view.new_keys is None or view.new_values is None:
                    raise TextError(
                        f"[generate] {type(self.network).__name__} leaves caches unused: hand each "
                        "to an fl_nn.MultiHeadAttention, or call its `attention`"
                    )
                cache.write(view.new_keys, view.new_values)
        return DecodingState(self, caches, first)

    def _step(
        self, tokens: Any, pads: Any, column: Any, keys: list[Any], values: list[Any]
    ) -> tuple[Any, list[Any], list[Any]]:
        """One more token (N, 1) for each row, in this column: its scores, keys and values."""
        places = arange_like(pads, 0, keys[0].shape[2], ft.int64)
        visible = ft.logical_and(places >= pads[:, None], places < column)
        pairs = zip(keys, values, strict=True)
        views = [nn.CacheStep(column - pads, k, v, visible) for k, v in pairs]
        scores = self.network(tokens, views)[:, -1]
        return scores, [view.new_keys for view in views], [view.new_values for view in views]


class DecodingState:
    """The caches of a batch of rows."""

    def __init__(self, of: CompiledNetwork, caches: list[nn.FixedKVCache], pads: Any) -> None:
        self._of, self._caches, self._pads = of, caches, pads

    def step(self, tokens: list[int]) -> ft.Array:
        """Scores (rows, vocabulary) after one more token for each row."""
        numbers, caches = self._of.numbers, self._caches
        with ag.no_grad():
            scores, keys, values = self._of._run(
                numbers(tokens).reshape(-1, 1),
                self._pads,
                numbers(caches[0].steps),
                [cache.all_keys for cache in caches],
                [cache.all_values for cache in caches],
            )
            for cache, more_keys, more_values in zip(caches, keys, values, strict=True):
                cache.write(more_keys, more_values)
        self._of.vocabulary = scores.shape[1]
        return value_of(scores)

    def select(self, rows: list[int]) -> None:
        """Keep these rows, in this order; one may come several times."""
        if rows == list(range(self._pads.shape[0])):
            return
        chosen = self._of.numbers(rows)
        self._pads = ft.gather(self._pads, chosen, 0)
        for cache in self._caches:
            cache.select(chosen)


def value_of(x: ft.Array) -> ft.Array:
    """The value without its history."""
    return x.tensor if isinstance(x, ag.Variable) else x
