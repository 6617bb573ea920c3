"""A language model of gated convolutions.

Dauphin et al., Language modeling with gated convolutional networks, 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fl_nn as nn
import fl_tensor as ft
from fl_text.errors import TextError
from fl_text.heads import AdaptiveSoftMax, FullSoftmax, Head
from fl_text.models.caches import StateCache
from fl_text.models.checks import check_tokens, one_cache_each

#: A residual block: channels and width of each of its convolutions.
Block = Sequence[tuple[int, int]]

#: GCNN-14B of the paper, a bottleneck architecture for a billion words.
GCNN_14B: tuple[Block, ...] = (
    ((512, 5),),
    *[((128, 1), (128, 5), (512, 1))] * 3,
    *[((512, 1), (512, 5), (1024, 1))] * 3,
    *[((1024, 1), (1024, 5), (2048, 1))] * 6,
    ((1024, 1), (1024, 5), (4096, 1)),
)


class GatedConvolution(nn.Module):
    """x (N, inputs, T) gives a * sigmoid(b), (N, outputs, T); a and b are the halves of a causal
    convolution of width `kernel`, with weight normalisation."""

    def __init__(self, inputs: int, outputs: int, kernel: int) -> None:
        self.kernel = kernel
        self.conv = nn.WeightNorm(nn.Conv1D(inputs, 2 * outputs, kernel))

    def forward(self, x: ft.Array, cache: StateCache | None = None) -> ft.Array:
        """The `kernel - 1` inputs before x are those of the cache; zeros without one."""
        steps = x.shape[2]
        if self.kernel > 1:
            if cache is not None and cache.arrays:
                before = cache.arrays[0]
            else:
                shape = (x.shape[0], x.shape[1], self.kernel - 1)
                before = ft.full(shape, 0.0, x.dtype, x.device, x.backend)
            x = ft.concatenate([before, x], 2)
        if cache is not None:
            cache.update([x[:, :, steps:]], steps)
        value, gate = ft.split(self.conv(x), 2, 1)
        return value * ft.sigmoid(gate)


class GatedBlock(nn.Module):
    """Gated convolutions, and the input added to their output. Where sizes differ the input goes
    through a product with weight normalisation."""

    def __init__(self, inputs: int, convolutions: Block) -> None:
        self.convolutions = []
        width = inputs
        for outputs, kernel in convolutions:
            self.convolutions.append(GatedConvolution(width, outputs, kernel))
            width = outputs
        same = width == inputs
        self.projection = None if same else nn.WeightNorm(nn.Conv1D(inputs, width, 1))

    def forward(self, x: ft.Array, caches: Sequence[StateCache] | None = None) -> ft.Array:
        y, left = x, iter(caches or ())
        for convolution in self.convolutions:
            y = convolution(y, next(left) if caches and convolution.kernel > 1 else None)
        return y + (x if self.projection is None else self.projection(x))

    def cached(self) -> int:
        """How many of its convolutions have a cache: those wider than one step."""
        return sum(convolution.kernel > 1 for convolution in self.convolutions)


class GCNN(nn.Module):
    """Tokens (N, T) give scores (N, T, tokens) of the token after each. A `CausalNetwork`.

    size     of the embedding
    blocks   the residual blocks, each with (channels, kernel width) of its gated convolutions
    cutoffs  of an adaptive softmax; a full softmax with bias without them
    dropout  of the embeddings and the output of each block
    head     another `Head` of vectors (..., channels of the last convolution)

    Each convolution sees its own and earlier steps alone. The cache of one of width k is its last
    k - 1 inputs. Raises `TextError` for blocks without a convolution wider than one step.
    """

    def __init__(
        self,
        tokens: int,
        size: int,
        blocks: Sequence[Block],
        cutoffs: Sequence[int] | None = None,
        dropout: float = 0.0,
        head: Head | None = None,
    ) -> None:
        check_blocks(blocks)
        self.vocabulary = tokens
        self.embedding = nn.Embedding(tokens, size)
        self.embedding.weight.tensor = self.embedding.weight.tensor * 0.1
        self.dropout = nn.Dropout(dropout)
        self.blocks = []
        width = size
        for block in blocks:
            self.blocks.append(GatedBlock(width, block))
            width = block[-1][0]
        if head is None:
            head = (
                FullSoftmax(width, tokens)
                if cutoffs is None
                else AdaptiveSoftMax(width, tokens, cutoffs)
            )
        self.head: Any = head

    @classmethod
    def gcnn_14b(
        cls,
        tokens: int = 221_452,
        cutoffs: Sequence[int] | None = (10_000, 40_000, 200_000),
        **settings: Any,
    ) -> GCNN:
        """GCNN-14B: an embedding of 128 features, `GCNN_14B`, an adaptive softmax. The number of
        tokens is that of the word model for LibriSpeech."""
        return cls(tokens, 128, GCNN_14B, cutoffs, **settings)

    def forward(self, tokens: ft.Array, caches: Sequence[StateCache] | None = None) -> ft.Array:
        """Scores (N, T, tokens); `caches` as in `hidden`."""
        scores: ft.Array = self.head(self.hidden(tokens, caches))
        return scores

    def hidden(self, tokens: ft.Array, caches: Sequence[StateCache] | None = None) -> ft.Array:
        """Vectors (N, T, channels of the last convolution), which extend `caches`."""
        check_tokens("GCNN", tokens)
        one_cache_each("GCNN", caches, sum(block.cached() for block in self.blocks))
        for cache in caches or ():
            cache.check("GCNN", tokens.shape[0])
        x = ft.swapaxes(self.dropout(self.embedding(tokens)), 1, 2)
        first = 0
        for block in self.blocks:
            last = first + block.cached()
            x = self.dropout(block(x, caches[first:last] if caches else None))
            first = last
        return ft.swapaxes(x, 1, 2)

    def caches(self) -> list[StateCache]:
        """Empty ones, of the convolutions wider than one step."""
        return [StateCache() for block in self.blocks for _ in range(block.cached())]


def check_blocks(blocks: Sequence[Block]) -> None:
    """Raises `TextError` unless there are sizes of at least 1, one width of them above 1."""
    try:
        sizes = [(int(outputs), int(kernel)) for block in blocks for outputs, kernel in block]
        empty = not sizes or not all(len(block) for block in blocks)
    except (TypeError, ValueError):
        sizes, empty = [], True
    if empty or min(min(pair) for pair in sizes) < 1:
        raise TextError(
            f"[GCNN] blocks {blocks!r:.80}: give lists of (channels, kernel width), such as "
            "[[(512, 5)], [(128, 1), (128, 5), (512, 1)]]"
        )
    if max(kernel for _, kernel in sizes) < 2:
        raise TextError("[GCNN] blocks: no convolution is wider than one step, so none sees others")
