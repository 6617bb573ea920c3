"""Protocols of networks that score tokens, for training, evaluation and decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import fl_tensor as ft
from fl_text.heads.protocol import Head
from fl_text.models.caches import Cache


@runtime_checkable
class TokenNetwork(Protocol):
    """A network with a vector for each token, and a head that scores tokens from it.

    `network.head.loss(network.hidden(tokens), targets)` is the loss of training, without scores of
    all tokens where the head can do without. It is an `fl_nn.Module`, too. `MaskedLM` is one.
    """

    training: bool

    @property
    def head(self) -> Head:
        """What makes scores and losses of the vectors. See `fl_text.heads`."""
        ...

    def hidden(self, tokens: ft.Array) -> ft.Array:
        """Vectors (N, T, size) of int64 tokens (N, T)."""
        ...

    def __call__(self, tokens: ft.Array) -> Any:
        """Scores (N, T, tokens): `head(hidden(tokens))`."""
        ...


@runtime_checkable
class CausalNetwork(Protocol):
    """A `TokenNetwork` of which each vector depends on its token and earlier ones alone.

    `LSTMLanguageModel`, `GCNN`, `TransformerLanguageModel` and `GPT2` are these. The caches hold
    the tokens before `tokens`, and these too afterwards. A chain of calls with one list of caches
    gives what one call gives for all tokens.
    """

    training: bool

    @property
    def head(self) -> Head:
        """What makes scores and losses of the vectors. See `fl_text.heads`."""
        ...

    def hidden(self, tokens: ft.Array, caches: Sequence[Cache] | None = None) -> ft.Array:
        """Vectors (N, T, size) of int64 tokens (N, T), which extend `caches`."""
        ...

    def __call__(self, tokens: ft.Array, caches: Sequence[Cache] | None = None) -> Any:
        """Scores (N, T, tokens) of the token after each: `head(hidden(tokens, caches))`."""
        ...

    def caches(self) -> Sequence[Cache]:
        """Empty caches, one for each layer that has one, for sequences that begin."""
        ...
