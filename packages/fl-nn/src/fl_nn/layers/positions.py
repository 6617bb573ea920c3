"""Positional encodings: added to embeddings, rotary, or added to attention scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import fl_tensor as ft
from fl_nn import init
from fl_nn.errors import ModuleError
from fl_nn.layers.dropout import Dropout
from fl_nn.layers.rotary import check_scaling, frequencies
from fl_nn.module import Module
from fl_nn.parameter import Parameter
from fl_nn.values import arange_like


class PositionEmbedding(Module):
    """Adds row t of the learned `weight` (count, size) to step t of x (..., steps, size), then
    drops out. The rows start normal with standard deviation `std`; `offset` counts the steps that
    came before, in all or, as int64 (N,), in each row of x (N, steps, size), or has the number of
    each step, int64 (N, steps). A step whose number is below 0 is padding, and gets row 0; numbers
    in an array above the last one get the last row."""

    def __init__(
        self,
        count: int,
        size: int,
        dropout: float = 0.0,
        std: float = 0.02,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if count < 1 or size < 1:
            raise ModuleError(f"[PositionEmbedding] count {count}, size {size}: at least 1")
        self.count, self.size = count, size
        self.weight = Parameter(
            init.normal((count, size), std=std, generator=generator, dtype=dtype)
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: ft.Array, offset: int | ft.Array = 0) -> ft.Array:
        _check("PositionEmbedding", x, self.size)
        steps = x.shape[-2]
        if isinstance(offset, ft.Array):
            known = ft.clip(_numbers("PositionEmbedding", x, steps, offset), 0, self.count - 1)
            return self.dropout(x + ft.gather(self.weight, known, 0))
        if offset < 0 or offset + steps > self.count:
            raise ft.ShapeError(
                f"[PositionEmbedding] x {x.shape} at offset {offset}: there are {self.count} "
                "positions; build the layer with more"
            )
        return self.dropout(x + self.weight[offset : offset + steps])

    def extra_repr(self) -> str:
        return f"{self.count}, {self.size}"


class SinusoidalPositionEmbedding(Module):
    """`scale * x` plus sines and cosines of the step in x (..., steps, size), at wavelengths from
    2 pi to 10000 * 2 pi:

        table[t, 2i] = sin(t / 10000^(2i / size)),   table[t, 2i + 1] = cos of the same

    Vaswani et al., 2017. Nothing is learned, and any number of steps goes. `offset` counts the
    steps that came before, in all or, as int64 (N,), in each row of x (N, steps, size), or has the
    number of each step, int64 (N, steps).
    """

    def __init__(self, size: int, scale: float = 1.0) -> None:
        if size < 1:
            raise ModuleError(f"[SinusoidalPositionEmbedding] size {size}: at least 1")
        self.size, self.scale = size, scale

    def forward(self, x: ft.Array, offset: int | ft.Array = 0) -> ft.Array:
        _check("SinusoidalPositionEmbedding", x, self.size)
        angles = _angles(x, x.shape[-2], offset, self.size, 10000.0)
        pairs = ft.stack([ft.sin(angles), ft.cos(angles)], -1)
        table = pairs.reshape(*angles.shape[:-1], -1)[..., : self.size]
        return (x if self.scale == 1.0 else x * self.scale) + table.astype(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.size}" + (f", scale={self.scale}" if self.scale != 1.0 else "")


class RotaryEmbedding(Module):
    """Turns the pairs of features (i, i + size / 2) of x (..., steps, size) by the angle
    t / base^(2i / size) at step t, so that products of two such vectors depend on their distance
    alone. Su et al., 2021. `interleaved` pairs (2i, 2i + 1) instead, as the paper does; weights
    that were trained one way need that way. `offset` counts the steps that came before, in all or,
    as int64 (N,), in each row of x (N, heads, steps, size), or has the number of each step, int64
    (N, steps).

    scaling  frequencies for contexts beyond those of training, in Hugging Face's terms:
             {"rope_type": "linear", "factor": 2.0}; "dynamic" and "llama3" have settings besides.
             Under "dynamic", steps are turned as their number in the call asks; keys in caches
             stay as they were turned
    """

    def __init__(
        self,
        size: int,
        base: float = 10000.0,
        interleaved: bool = False,
        scaling: Mapping[str, Any] | None = None,
    ) -> None:
        if size < 2 or size % 2:
            raise ModuleError(f"[RotaryEmbedding] size {size}: pairs need an even size")
        if not 0.0 < base < math.inf:
            raise ModuleError(f"[RotaryEmbedding] base={base}: give a number above 0")
        self.size, self.base, self.interleaved = size, base, interleaved
        self.scaling = check_scaling("RotaryEmbedding", scaling, size)

    def forward(self, x: ft.Array, offset: int | ft.Array = 0) -> ft.Array:
        _check("RotaryEmbedding", x, self.size)
        return self.turn(x, *self.angles(x, x.shape[-2], offset))

    def angles(
        self, x: ft.Array, steps: int, offset: int | ft.Array = 0
    ) -> tuple[ft.Tensor, ft.Tensor]:
        """Cosines and sines (steps, size / 2) of the steps after `offset`, with the dtype, device
        and backend of `x`: for `turn`, where several arrays have the same steps. For an offset of
        each row, (N, 1, steps, size / 2); ModuleError then for scaling that is "dynamic"."""
        # At least in float32: half precision cannot count to 3000.
        dtype = x.dtype if x.dtype.itemsize >= 4 else ft.float32
        if isinstance(offset, ft.Array):
            if self.scaling is not None and self.scaling["rope_type"] == "dynamic":
                raise ModuleError(
                    "[RotaryEmbedding] dynamic scaling depends on the number of steps, which an "
                    "offset of each row does not tell: use caches that grow (KVCache)"
                )
            turns = frequencies(self.size, self.base, self.scaling, steps)
            t = _numbers("RotaryEmbedding", x, steps, offset).astype(dtype)[:, None, :, None]
        else:
            turns = frequencies(self.size, self.base, self.scaling, offset + steps)
            t = ft.expand_dims(arange_like(x, offset, offset + steps, dtype), 1)
        angles = t * ft.asarray(turns, dtype, x.device, x.backend)
        return ft.cos(angles).astype(x.dtype), ft.sin(angles).astype(x.dtype)

    def turn(self, x: ft.Array, cos: ft.Array, sin: ft.Array) -> ft.Array:
        """x (..., steps, size) turned by `angles`."""
        if self.interleaved:
            pairs = ft.reshape(x, (*x.shape[:-1], self.size // 2, 2))
            a, b = pairs[..., 0], pairs[..., 1]
            return ft.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(x.shape)
        a, b = ft.split(x, 2, -1)
        return ft.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def extra_repr(self) -> str:
        text = f"{self.size}, base={self.base}" + ", interleaved=True" * self.interleaved
        kind = self.scaling["rope_type"]
        return text if kind == "default" else f"{text}, scaling={kind!r}"


class RelativePositionEmbedding(Module):
    """What distance adds to attention scores: the product of the query with row
    `key step - query step + reach - 1` of the learned `weight` (2 * reach - 1, size). Shaw et al.,
    2018; rows start uniform within +-0.1, as Flashlight's. Steps further apart than `reach - 1`
    share the outermost rows.

    Queries (..., T, size) and the number of keys S give (..., T, S); the last query is the last
    key's, and `offset` keys come before the first query.
    """

    def __init__(
        self,
        reach: int,
        size: int,
        *,
        generator: ft.Generator | None = None,
        dtype: ft.DType | None = None,
    ) -> None:
        if reach < 1 or size < 1:
            raise ModuleError(f"[RelativePositionEmbedding] reach {reach}, size {size}: at least 1")
        self.reach, self.size = reach, size
        shape = (2 * reach - 1, size)
        self.weight = Parameter(init.uniform(shape, -0.1, 0.1, generator=generator, dtype=dtype))

    def forward(self, q: ft.Array, keys: int | None = None, offset: int = 0) -> ft.Array:
        _check("RelativePositionEmbedding", q, self.size)
        queries = q.shape[-2]
        keys = queries + offset if keys is None else keys
        # Column c is the distance c - (queries - 1) - offset; row i of the result is row i of the
        # products from column queries - 1 - i on. One column more than there are distances makes
        # that a reshape: the skew of Huang et al., 2019.
        distances = range(1 - queries - offset, keys - offset + 1)
        edge = self.reach - 1
        rows = [min(max(d, -edge), edge) + edge for d in distances]
        table = ft.gather(self.weight, ft.asarray(rows, ft.int64, q.device, q.backend), 0)
        scores = ft.linear(q, table)
        width, lead = queries + keys, scores.shape[:-2]
        flat = ft.reshape(scores, (*lead, queries * width))
        flat = flat[..., queries - 1 : queries - 1 + queries * (width - 1)]
        return ft.reshape(flat, (*lead, queries, width - 1))[..., :keys]

    def extra_repr(self) -> str:
        return f"{self.reach}, {self.size}"


def _angles(x: ft.Array, steps: int, offset: int | ft.Array, size: int, base: float) -> ft.Array:
    # (steps, ceil(size / 2)), or (N, steps, ...) for an offset of each row; at least in float32:
    # half precision cannot count to 3000.
    dtype = x.dtype if x.dtype.itemsize >= 4 else ft.float32
    if isinstance(offset, ft.Array):
        t = _numbers("SinusoidalPositionEmbedding", x, steps, offset).astype(dtype)
    else:
        t = arange_like(x, offset, offset + steps, dtype)
    t = ft.expand_dims(t, -1)
    i = arange_like(x, 0, -(-size // 2), dtype)
    return t * ft.exp(i * (-2.0 * math.log(base) / size))


def _numbers(layer: str, x: ft.Array, steps: int, offset: ft.Array) -> ft.Array:
    # The numbers of the steps of each row, int64 (N, steps).
    if offset.shape == (x.shape[0], steps) and offset.dtype.is_integer:
        return offset
    if offset.shape != x.shape[:1] or not offset.dtype.is_integer:
        raise ft.ShapeError(
            f"[{layer}] offset {offset.shape} of {offset.dtype} for x {x.shape}: expected an "
            "integer, or one for each row of the batch or each of its steps"
        )
    return offset[:, None] + arange_like(x, 0, steps, ft.int64)


def _check(layer: str, x: ft.Array, size: int) -> None:
    if x.ndim < 2 or x.shape[-1] != size:
        raise ft.ShapeError(f"[{layer}] x {x.shape}: expected (..., steps, {size})")
