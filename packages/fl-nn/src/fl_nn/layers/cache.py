"""Keys and values of earlier steps, for generation: growing, of fixed capacity, or of one step of a
compiled function."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import fl_autograd as ag
import fl_tensor as ft
from fl_nn.errors import ModuleError
from fl_nn.values import arange_like, tensor_of
from fl_tensor.annotations import Checked


class KVCache:
    """Keys and values of the steps so far, for generation: `attend(x, cache=cache)` sees them and
    adds its own. One cache per attention layer.

    `keys` and `values` are (batch, kv_heads, steps, size) or None; plain arrays, so that a beam
    search may pick rows: `cache.select(rows)`.
    """

    def __init__(self) -> None:
        self.keys: ft.Array | None = None
        self.values: ft.Array | None = None

    @property
    def steps(self) -> int:
        """How many steps are in it."""
        return 0 if self.keys is None else self.keys.shape[2]

    def append(self, keys: ft.Array, values: ft.Array) -> tuple[ft.Array, ft.Array]:
        """Add steps at the end; returns everything. ModuleError in the second run of a
        checkpointed function, whose steps are in it already."""
        _refuse_recomputing("KVCache")
        if self.keys is not None and self.values is not None:
            keys = ft.concatenate([self.keys, keys], 2)
            values = ft.concatenate([self.values, values], 2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: ft.Array) -> None:
        """Keep these rows of the batch, in this order; one may come several times."""
        if self.keys is not None and self.values is not None:
            self.keys = ft.gather(self.keys, rows, 0)
            self.values = ft.gather(self.values, rows, 0)


class FixedKVCache:
    """A KVCache whose memory has room for `capacity` steps from the first ones on.

    Steps are written in place, so that a step costs the same at every length, and shapes stay: one
    compiled graph (`CacheStep`) serves all steps. `keys` and `values` are those of the steps so
    far; `all_keys` and `all_values` (batch, kv_heads, capacity, size) have zeros after them. There
    are no gradients through it. Raises ModuleError for more than `capacity` steps.
    """

    def __init__(self, capacity: int) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise ModuleError(f"[FixedKVCache] capacity={capacity!r}: expected an integer above 0")
        self.capacity = capacity
        self.all_keys: Any = None
        self.all_values: Any = None
        self._steps = 0

    @property
    def steps(self) -> int:
        """How many steps are in it."""
        return self._steps

    @property
    def keys(self) -> ft.Array | None:
        return None if self.all_keys is None else self.all_keys[:, :, : self._steps]

    @property
    def values(self) -> ft.Array | None:
        return None if self.all_values is None else self.all_values[:, :, : self._steps]

    def append(self, keys: ft.Array, values: ft.Array) -> tuple[ft.Array, ft.Array]:
        """Write steps after the last one; returns those so far."""
        self.write(keys, values)
        found_keys, found_values = self.keys, self.values
        assert found_keys is not None and found_values is not None
        return found_keys, found_values

    def write(self, keys: ft.Array, values: ft.Array) -> None:
        """Write steps after the last one."""
        _refuse_recomputing("FixedKVCache")
        first, last = self._steps, self._steps + keys.shape[2]
        if last > self.capacity:
            raise ModuleError(
                f"[FixedKVCache] {first} steps and {keys.shape[2]} more, the capacity is "
                f"{self.capacity}: make it with a larger one, or take a KVCache, which grows"
            )
        if self.all_keys is None:
            self.all_keys, self.all_values = self._allocated(keys), self._allocated(values)
        for known, more in ((self.all_keys, keys), (self.all_values, values)):
            if (*more.shape[:2], more.shape[3]) != (*known.shape[:2], known.shape[3]):
                raise ft.ShapeError(
                    f"[FixedKVCache] steps {more.shape} for a cache {known.shape}: batch, heads "
                    "and size must be those of the first steps"
                )
            known[:, :, first:last] = tensor_of(more)
        self._steps = last

    def _allocated(self, like: ft.Array) -> ft.Array:
        n, heads, _, size = like.shape
        shape = (n, heads, self.capacity, size)
        return ft.zeros(shape, like.dtype, like.device, like.backend)

    def select(self, rows: ft.Array) -> None:
        """Keep these rows of the batch, in this order; one may come several times."""
        if self.all_keys is not None:
            self.all_keys = ft.gather(self.all_keys, rows, 0)
            self.all_values = ft.gather(self.all_values, rows, 0)


class CacheStep(Checked):
    """A cache as seen by one call of a network, of which a graph can be made: its arrays are
    arguments, and nothing is written.

    steps         int64 (batch,): the position of the first new step of each row; below 0 for rows
                  that begin with padding
    keys, values  (batch, kv_heads, capacity, size), or None where there are no earlier steps
    visible       bool (batch, capacity): True for the steps of `keys` that may be seen
    new_visible   bool (batch, new steps): False for new steps that are padding; all are seen if
                  None

    After the call `new_keys` and `new_values` (batch, kv_heads, new steps, size) are to be written,
    as by `FixedKVCache.write`. New steps see no later ones where the layer is causal. A window of
    attention counts the steps that may be seen.
    """

    def __init__(
        self,
        steps: ft.Array,
        keys: ft.Array | None = None,
        values: ft.Array | None = None,
        visible: ft.Array | None = None,
        new_visible: ft.Array | None = None,
    ) -> None:
        self.steps, self.keys, self.values = steps, keys, values
        self.visible, self.new_visible = visible, new_visible
        self.new_keys: ft.Array | None = None
        self.new_values: ft.Array | None = None

    def append(self, keys: ft.Array, values: ft.Array) -> tuple[ft.Array, ft.Array]:
        """Raises ModuleError: keys of several rows do not lie side by side here."""
        raise ModuleError(
            "[CacheStep] it does not grow: call cache.attention(q, k, v, scale, causal), as "
            "MultiHeadAttention does, or give the network a KVCache"
        )

    def attention(
        self,
        q: ft.Array,
        k: ft.Array,
        v: ft.Array,
        scale: float,
        causal: bool,
        window: int | None = None,
    ) -> ft.Array:
        """Attention of new queries (batch, heads, T, size) to the earlier steps and the new ones,
        k and v (batch, kv_heads, T, size), of which one softmax is taken without joining them in
        memory. Gives (batch, heads, T, size).

        window  how many steps a step sees, itself included; None for all
        """
        self.new_keys, self.new_values = k, v
        own = None if self.new_visible is None else self.new_visible[:, None, None, :]
        n, heads, steps, size = q.shape
        if window is not None and steps > window:
            places = arange_like(q, 0, steps, ft.int64)
            near = places[None, :] > places[:, None] - window
            own = near if own is None else ft.logical_and(own, near)
        if self.keys is None or self.values is None:
            return ft.attention(q, k, v, None, own, None, causal, scale)
        shared, capacity = self.keys.shape[1], self.keys.shape[2]
        q = (q * scale).reshape(n, shared, heads // shared * steps, size)
        before = ft.matmul(q, ft.swapaxes(self.keys, 2, 3))
        seen = self._mask(q, steps, capacity, window)
        if seen is not None:
            flat = before.shape
            before = ft.where(seen, before.reshape(n, heads, steps, capacity), -math.inf)
            before = before.reshape(flat)
        among = ft.matmul(q, ft.swapaxes(k, 2, 3)).reshape(n, heads, steps, steps)
        if own is not None:
            among = ft.where(own, among, -math.inf)
        if causal and steps > 1:
            among = ft.where(ft.tril(ft.ones((steps, steps), ft.bool)), among, -math.inf)
        among = among.reshape(n, shared, heads // shared * steps, steps)
        weights = ft.softmax(ft.concatenate([before, among], -1), -1)
        old, new = ft.split(weights, (capacity, steps), -1)
        mixed = ft.matmul(old, self.values) + ft.matmul(new, v)
        return mixed.reshape(n, heads, steps, v.shape[3])

    def _mask(self, x: ft.Array, steps: int, capacity: int, window: int | None) -> ft.Array | None:
        """Which earlier steps the new ones see, (batch, 1, 1 or new steps, capacity); None: all."""
        seen = None if self.visible is None else self.visible[:, None, None, :]
        if window is None or window >= capacity + steps:
            return seen
        numbers = arange_like(x, 0, capacity, ft.int64)
        if self.visible is not None:
            numbers = ft.cumulative_sum(self.visible.astype(ft.int64), -1) - 1
            numbers = numbers[:, None, None, :]
        query = self.steps[:, None] + arange_like(x, 0, steps, ft.int64)
        near = numbers > query[:, None, :, None] - window
        return near if seen is None else ft.logical_and(seen, near)


#: What attention layers take as `cache`.
Cache: TypeAlias = KVCache | FixedKVCache | CacheStep


def _refuse_recomputing(name: str) -> None:
    if ag.is_recomputing():
        raise ModuleError(
            f"[{name}] a function that adds steps to a cache cannot run twice: call it without "
            "checkpoint, or without the cache, which is for generation"
        )
