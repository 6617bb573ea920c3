"""Recurrent layers, attention, Transformers and positions in random configurations."""

from __future__ import annotations

import math

import pytest
from torch_twins import FAMILIES, Case, Draw, check_family, family, torch

import fl_nn as nn
import fl_tensor as ft

PACK = torch.nn.utils.rnn.pack_padded_sequence
UNPACK = torch.nn.utils.rnn.pad_packed_sequence


def recurrent(draw: Draw, mine: type, theirs: type, **extra: str) -> Case:
    inputs, hidden, layers = draw.sizes(3, 1, 3)
    bias, batch_first, both = draw.maybe(0.7), draw.maybe(), draw.maybe()
    steps, batch = draw.size(1, 5), draw.size(1, 3)
    args = dict(bias=bias, batch_first=batch_first, bidirectional=both, **extra)
    layer, twin = mine(inputs, hidden, layers, **args), theirs(inputs, hidden, layers, **args)
    x = draw.values((batch, steps, inputs) if batch_first else (steps, batch, inputs))
    lengths = list(draw.sizes(batch, 1, steps)) if draw.maybe() else None
    shape = (layers * (1 + both), batch, hidden)
    states = [draw.values(shape) for _ in range(layer.kept if draw.maybe() else 0)]

    def state(given: tuple) -> object:
        return None if not given else given[0] if len(given) == 1 else tuple(given)

    class Ours(nn.Module):
        def __init__(self) -> None:
            self.layer = layer

        def forward(self, x: ft.Array, *given: ft.Array) -> object:
            return self.layer(x, state(given), lengths)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = twin

        def forward(self, x: torch.Tensor, *given: torch.Tensor) -> object:
            if lengths is None:
                return self.layer(x, state(given))
            packed = PACK(x, lengths, batch_first, enforce_sorted=False)
            y, end = self.layer(packed, state(given))
            return UNPACK(y, batch_first, total_length=steps)[0], end

    note = f"{layer!r}, lengths {lengths}, {len(states)} states"
    return Case(Ours(), Twin(), (x, *states), note)


@family
def rnn(draw: Draw) -> Case:
    kind = draw.choice(["tanh", "relu"])
    return recurrent(draw, nn.RNN, torch.nn.RNN, nonlinearity=kind)


@family
def lstm(draw: Draw) -> Case:
    return recurrent(draw, nn.LSTM, torch.nn.LSTM)


@family
def gru(draw: Draw) -> Case:
    return recurrent(draw, nn.GRU, torch.nn.GRU)


def layer_pair(draw: Draw) -> tuple[nn.Module, torch.nn.Module, ft.Tensor]:
    """A layer with a weight, its twin, and an input."""
    inputs, outputs = draw.sizes(2, 1, 4)
    which = draw.randrange(3)
    if which == 0:
        mine, theirs = nn.Linear(inputs, outputs), torch.nn.Linear(inputs, outputs)
    elif which == 1:
        mine, theirs = nn.Conv2D(inputs, outputs, 2), torch.nn.Conv2d(inputs, outputs, 2)
    else:
        mine = nn.ConvTranspose2D(inputs, outputs, 2)
        theirs = torch.nn.ConvTranspose2d(inputs, outputs, 2)
    return mine, theirs, draw.values((2, inputs) if which == 0 else (2, inputs, 3, 3))


@family
def weight_norm(draw: Draw) -> Case:
    mine, theirs, x = layer_pair(draw)
    axis = draw.choice([0, 1, None])
    twin = torch.nn.utils.parametrizations.weight_norm(theirs, dim=axis)
    return Case(nn.WeightNorm(mine, axis), twin, (x,))


@family
def spectral_norm(draw: Draw) -> Case:
    mine, theirs, x = layer_pair(draw)
    axis, iterations, eps = draw.choice([None, 0, 1]), draw.size(1, 3), draw.choice([1e-12, 1e-3])
    twin = torch.nn.utils.parametrizations.spectral_norm(
        theirs, n_power_iterations=iterations, eps=eps, dim=axis
    )
    ours = nn.SpectralNorm(mine, axis, iterations=iterations, eps=eps)
    return Case(ours, twin, (x,), rounds=2)


@family
def spectral_norm_of_a_bias(draw: Draw) -> Case:
    inputs, outputs = draw.sizes(2, 1, 4)
    twin = torch.nn.utils.parametrizations.spectral_norm(
        torch.nn.Linear(inputs, outputs), name="bias"
    )
    ours = nn.SpectralNorm(nn.Linear(inputs, outputs), name="bias")
    return Case(ours, twin, (draw.values((3, inputs)),))


def mask_of(draw: Draw, shape: tuple[int, ...]) -> ft.Tensor:
    """A bool mask in which every row allows something."""
    mask = draw.integers(0, 3, shape) > 0
    first = ft.arange(shape[-1]) == draw.randrange(shape[-1])
    return ft.logical_or(mask, first)


@family
def attention_function(draw: Draw) -> Case:
    n, groups, share, size, other = draw.sizes(5, 1, 3)
    t, s = draw.sizes(2, 1, 5)
    causal = draw.maybe(0.3)
    s = t if causal else s
    scale = draw.random() if draw.maybe(0.3) else None
    shapes = [(n, groups * share, t, size), (n, groups, s, size), (n, groups, s, other)]
    inputs = [draw.values(shape) for shape in shapes]
    masked = not causal and draw.maybe()
    if masked:
        shape = draw.choice([(t, s), (n, 1, 1, s), (n, groups * share, t, s)])
        inputs.append(draw.values(shape) if draw.maybe() else mask_of(draw, shape))

    def mine(q: ft.Array, k: ft.Array, v: ft.Array, mask: ft.Array | None = None) -> ft.Array:
        return nn.attention(q, k, v, mask, causal, scale)

    def theirs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask=None) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=True
        )

    note = f"attention, causal={causal}, scale={scale}"
    return Case(mine, theirs, tuple(inputs), note, scale=2.0)


class GroupedAttention(torch.nn.Module):
    """Self-attention with shared heads of keys and values, made of PyTorch's function."""

    def __init__(self, size: int, heads: int, groups: int) -> None:
        super().__init__()
        inner = size // heads * (heads + 2 * groups)
        self.in_proj_weight = torch.nn.Parameter(torch.randn(inner, size))
        self.in_proj_bias = torch.nn.Parameter(torch.randn(inner))
        self.out_proj = torch.nn.Linear(size, size)
        self.counts = (heads, groups, groups)

    def forward(self, x):
        n, t, size = x.shape
        every = torch.nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        every = every.reshape(n, t, sum(self.counts), -1).transpose(1, 2)
        q, k, v = every.split(self.counts, 1)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).reshape(n, t, size))


@family
def grouped_heads(draw: Draw) -> Case:
    groups, share = draw.sizes(2, 1, 3)
    heads = groups * share
    size = heads * draw.size(1, 3)
    layer = nn.MultiHeadAttention(size, heads, groups=groups)
    x = draw.values((*draw.sizes(2, 1, 4), size))
    return Case(layer, GroupedAttention(size, heads, groups), (x,))


class TorchAttention(torch.nn.Module):
    """PyTorch's layer without its weights, and with masks that say where attention may go."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(*args, batch_first=True, **options)

    def forward(self, q, k, v, mask=None, key_mask=None):
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask
        padding = None if key_mask is None else ~key_mask
        if padding is not None and mask is not None and mask.is_floating_point():
            padding = torch.zeros(padding.shape, dtype=mask.dtype).masked_fill(padding, -math.inf)
        return self.inner(q, k, v, padding, need_weights=False, attn_mask=mask)[0]


@family
def multi_head_attention(draw: Draw) -> Case:
    heads = draw.size(1, 3)
    size, bias = heads * draw.size(1, 3), draw.maybe()
    n, t, s = draw.sizes(3, 1, 4)
    layer = nn.MultiHeadAttention(size, heads, bias=bias)
    twin = TorchAttention(size, heads, bias=bias)
    kind = draw.choice(["self", "memory", "key and value"])
    s = t if kind == "self" else s
    mask = None
    if draw.maybe():
        mask = draw.values((t, s)) if draw.maybe() else mask_of(draw, (t, s))
    # At least the first key is known, and no row of the mask may be left without keys.
    lengths = draw.sizes(n, 1, s)
    key_mask = ft.asarray([[i < m for i in range(s)] for m in lengths])
    if mask is not None and mask.dtype is ft.bool:
        mask = ft.logical_or(mask, ft.arange(s) == 0)
    key_mask = key_mask if draw.maybe() else None
    masks = [None if m is None else torch.tensor(m.numpy()) for m in (mask, key_mask)]
    count = {"self": 1, "memory": 2, "key and value": 3}[kind]

    class Ours(nn.Module):
        def __init__(self) -> None:
            self.inner = layer

        def forward(self, *xs: ft.Array) -> ft.Array:
            m = mask
            if m is not None and m.dtype.is_floating:
                m = m.astype(xs[0].dtype)
            return self.inner(*xs, mask=m, key_mask=key_mask)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = twin.inner

        def forward(self, *xs: torch.Tensor) -> torch.Tensor:
            q, k, v = (*xs, xs[-1], xs[-1])[:3]
            m = masks[0]
            if m is not None and m.is_floating_point():
                m = m.to(q.dtype)
            return twin(q, k, v, m, masks[1])

    inputs = [(n, t, size), (n, s, size), (n, s, size)][:count]
    note = f"{layer!r}, {kind}, mask={mask is not None}, key_mask={key_mask is not None}"
    return Case(Ours(), Twin(), tuple(map(draw.values, inputs)), note)


@family
def transformer_encoder_layer(draw: Draw) -> Case:
    heads = draw.size(1, 3)
    size, hidden = heads * draw.size(1, 3), draw.size(1, 6)
    activation, first, bias = draw.choice(["relu", "gelu"]), draw.maybe(), draw.maybe(0.7)
    causal = draw.maybe()
    n, t = draw.sizes(2, 1, 4)
    layer = nn.TransformerEncoderLayer(
        size, heads, hidden, 0.0, activation, norm_first=first, bias=bias
    )
    twin = torch.nn.TransformerEncoderLayer(
        size, heads, hidden, 0.0, activation, batch_first=True, norm_first=first, bias=bias
    )

    class Ours(nn.Module):
        def __init__(self) -> None:
            self.inner = layer

        def forward(self, x: ft.Array) -> ft.Array:
            return self.inner(x, causal=causal)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = twin

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.triu(torch.full((t, t), -math.inf, dtype=x.dtype), 1)
            return self.inner(x, src_mask=mask if causal else None)

    return Case(Ours(), Twin(), (draw.values((n, t, size)),), repr(layer))


@family
def transformer_decoder_layer(draw: Draw) -> Case:
    heads = draw.size(1, 3)
    size, hidden = heads * draw.size(1, 3), draw.size(1, 6)
    activation, first, bias = draw.choice(["relu", "gelu"]), draw.maybe(), draw.maybe(0.7)
    n, t, s = draw.sizes(3, 1, 4)
    layer = nn.TransformerDecoderLayer(
        size, heads, hidden, 0.0, activation, norm_first=first, bias=bias
    )
    twin = torch.nn.TransformerDecoderLayer(
        size, heads, hidden, 0.0, activation, batch_first=True, norm_first=first, bias=bias
    )
    return Case(layer, twin, (draw.values((n, t, size)), draw.values((n, s, size))))


@family
def relative_positions(draw: Draw) -> Case:
    reach, size = draw.size(1, 6), draw.size()
    n, heads, t, offset = *draw.sizes(3, 1, 5), draw.size(0, 3)
    layer = nn.RelativePositionEmbedding(reach, size)

    class Ours(nn.Module):
        def __init__(self) -> None:
            self.inner = layer

        def forward(self, q: ft.Array) -> ft.Array:
            return self.inner(q, offset=offset)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.ParameterDict({"weight": torch.zeros(2 * reach - 1, size)})

        def forward(self, q: torch.Tensor) -> torch.Tensor:
            distance = torch.arange(t + offset) - torch.arange(offset, t + offset)[:, None]
            rows = self.inner["weight"][distance.clamp(1 - reach, reach - 1) + reach - 1]
            return torch.einsum("nhtd,tsd->nhts", q, rows)

    return Case(Ours(), Twin(), (draw.values((n, heads, t, size)),), f"{layer!r}, {offset}")


@family
def positions(draw: Draw) -> Case:
    size, t, offset = 2 * draw.size(1, 4), draw.size(), draw.size(0, 9)
    shape = (*draw.sizes(draw.size(0, 2)), t, size)
    time = torch.arange(offset, offset + t, dtype=torch.float64)[:, None]
    which = draw.choice(["sinusoidal", "halves", "pairs"])
    interleaved = which == "pairs"

    if which == "sinusoidal":
        scale = draw.random()
        layer = nn.SinusoidalPositionEmbedding(size, scale)

        def theirs(x: torch.Tensor) -> torch.Tensor:
            angles = time / 10000 ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
            table = torch.zeros(t, size, dtype=torch.float64)
            table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
            return x * scale + table.to(x.dtype)

    else:
        base = 10 ** draw.uniform(2, 5)
        layer = nn.RotaryEmbedding(size, base, interleaved)

        def theirs(x: torch.Tensor) -> torch.Tensor:
            # As a rotation of complex numbers.
            angles = time / base ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
            turn = torch.polar(torch.ones_like(angles), angles)
            if interleaved:
                z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2)) * turn
                return torch.view_as_real(z).flatten(-2).to(x.dtype)
            a, b = x.double().chunk(2, -1)
            z = torch.complex(a, b) * turn
            return torch.cat([z.real, z.imag], -1).to(x.dtype)

    def mine(x: ft.Array) -> ft.Array:
        return layer(x, offset)

    return Case(mine, theirs, (draw.values(shape),), f"{layer!r} at {offset}")


@family
def position_embedding(draw: Draw) -> Case:
    count, size = draw.sizes(2, 1, 6)
    t = draw.size(1, count)
    layer = nn.PositionEmbedding(count, size)

    class Twin(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(count, size))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.weight[:t]

    return Case(layer, Twin(), (draw.values((draw.size(), t, size)),))


HERE = [name for name, draws in FAMILIES.items() if draws.__module__ == __name__]


@pytest.mark.defect("item 7")
def test_heads_in_groups():
    check_family("grouped_heads")


@pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
@pytest.mark.parametrize("name", [name for name in HERE if name != "grouped_heads"])
def test_random_configurations(name):
    check_family(name)
