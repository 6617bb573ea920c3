"""Tokens of sequence layers.

In a network of four axes their input is (1, batch, steps, features). For recurrent layers it is (1,
steps, batch, features).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated

from fl_nn.arch.arguments import Factory, Padding, Probability, Share, Size, Whole
from fl_nn.layers import augment, positions
from fl_nn.layers import rnn as recurrent
from fl_nn.layers.conformer import Conformer
from fl_nn.layers.four_axes import FourAxes
from fl_nn.layers.original import OriginalConformer, OriginalTransformer
from fl_nn.layers.tds import TDSBlock
from fl_nn.layers.transformer import TransformerEncoderLayer
from fl_nn.module import Module
from fl_nn.settings import Kind

Depth = Annotated[int, Kind("a whole number from 1 to 1000", lambda n: 1 <= n <= 1000)]


def tds(
    channels: Size,
    kernel: Size,
    width: Size,
    dropout: Probability = 0.0,
    hidden: Whole = 0,
    future: Padding = -1,
    norm_over_time: bool = True,
) -> Module:
    lookahead = None if future == -1 else future
    return TDSBlock(channels, kernel, width, dropout, hidden, lookahead, norm_over_time)


def transformer(
    size: Size,
    hidden: Size,
    heads: Size,
    context: Whole,
    dropout: Probability,
    layer_drop: Share = 0.0,
    norm_first: bool = False,
    causal: bool = False,
) -> Module:
    layer = TransformerEncoderLayer(
        size, heads, hidden, dropout, norm_first=norm_first, layer_drop=layer_drop,
        relative=context, causal=causal,
    )  # fmt: skip
    return FourAxes(layer)


def conformer(
    size: Size,
    hidden: Size,
    heads: Size,
    context: Whole,
    kernel: Size,
    dropout: Probability,
    layer_drop: Share = 0.0,
) -> Module:
    return FourAxes(Conformer(size, heads, hidden, kernel, context, dropout, layer_drop))


def original_transformer(
    size: Size,
    hidden: Size,
    heads: Size,
    context: Whole,
    dropout: Probability,
    layer_drop: Share = 0.0,
    norm_output: bool = False,
    causal: bool = False,
) -> Module:
    return FourAxes(
        OriginalTransformer(size, heads, hidden, context, dropout, layer_drop, norm_output, causal)
    )


def original_conformer(
    size: Size,
    hidden: Size,
    heads: Size,
    context: Whole,
    kernel: Size,
    dropout: Probability,
    layer_drop: Share = 0.0,
) -> Module:
    return FourAxes(OriginalConformer(size, heads, hidden, kernel, context, dropout, layer_drop))


def position_embedding(size: Size, count: Size, dropout: Probability = 0.0) -> Module:
    return positions.PositionEmbedding(count, size, dropout)


def sinusoidal_position_embedding(size: Size, scale: float = 1.0) -> Module:
    return positions.SinusoidalPositionEmbedding(size, scale)


def _recurrent(kind: Callable[..., Module]) -> Factory:
    def recurrent_layer(
        inputs: Size,
        outputs: Size,
        layers: Depth = 1,
        bidirectional: bool = False,
        dropout: Probability = 0.0,
    ) -> Module:
        return FourAxes(kind(inputs, outputs, layers, dropout=dropout, bidirectional=bidirectional))

    return recurrent_layer


rnn = _recurrent(functools.partial(recurrent.RNN, nonlinearity="relu"))
lstm = _recurrent(recurrent.LSTM)
gru = _recurrent(recurrent.GRU)


def spec_augment(
    time_warp: Whole,
    frequency_width: Whole,
    frequency_masks: Whole,
    time_width: Whole,
    time_share: Probability,
    time_masks: Whole,
) -> Module:
    return augment.SpecAugment(
        time_warp, frequency_width, frequency_masks, time_width, time_share, time_masks
    )
