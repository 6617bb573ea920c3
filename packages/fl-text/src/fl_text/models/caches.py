"""Caches of causal networks: state of the tokens so far, with a row for each sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import fl_nn as nn
import fl_tensor as ft
from fl_nn.extend import tensor_of
from fl_text.errors import TextError


@runtime_checkable
class Cache(Protocol):
    """A cache of one layer: `fl_nn.KVCache`, `StateCache`, or one of your own.

    One of your own also has `arrays`, a tuple of its arrays, and `join(parts, rows)`, which fills
    it, still empty, as `join_rows` says.
    """

    @property
    def steps(self) -> int:
        """How many tokens are in it."""
        ...

    def select(self, rows: ft.Array) -> None:
        """Keep these rows (int64) of the batch, in this order; one may come several times."""
        ...


class StateCache:
    """A state of fixed size: that of a recurrent layer, or the last inputs of a convolution.

    `arrays` is empty before the first token. Each array has the sequences on `axis`. The arrays
    have no history, so that training with one cache for consecutive batches is truncated
    backpropagation through time.
    """

    def __init__(self, axis: int = 0) -> None:
        self.axis, self.steps = axis, 0
        self.arrays: tuple[ft.Array, ...] = ()

    def check(self, where: str, batch: int) -> None:
        """Raises `TextError` unless it is empty or has `batch` rows."""
        if self.arrays and self.arrays[0].shape[self.axis] != batch:
            raise TextError(
                f"[{where}] {batch} sequences of tokens, and caches of "
                f"{self.arrays[0].shape[self.axis]}: continue the same sequences in each call, or "
                "start with caches()"
            )

    def update(self, arrays: Sequence[ft.Array], steps: int) -> None:
        """The state after `steps` more tokens."""
        self.arrays = tuple(tensor_of(array) for array in arrays)
        self.steps += steps

    def select(self, rows: ft.Array) -> None:
        self.arrays = tuple(ft.gather(array, rows, self.axis) for array in self.arrays)

    def join(self, parts: Sequence[StateCache], rows: Sequence[ft.Array]) -> None:
        self.steps = parts[0].steps
        picked = [
            [ft.gather(array, chosen, part.axis) for array in part.arrays]
            for part, chosen in zip(parts, rows, strict=True)
        ]
        self.arrays = tuple(_joined(arrays, self.axis) for arrays in zip(*picked, strict=True))


def join_rows(empty: Any, parts: Sequence[Any], rows: Sequence[ft.Array]) -> None:
    """Fill the cache `empty` with `rows[0]` of `parts[0]`, then `rows[1]` of `parts[1]`, and so on.

    All are caches of one layer and of equally many steps; `parts` stay as they are.
    """
    if isinstance(empty, nn.KVCache):
        pairs = list(zip(parts, rows, strict=True))
        keys = _joined([ft.gather(part.keys, chosen, 0) for part, chosen in pairs], 0)
        values = _joined([ft.gather(part.values, chosen, 0) for part, chosen in pairs], 0)
        empty.append(keys, values)
        return
    if not callable(getattr(empty, "join", None)):
        raise TextError(
            f"[join_rows] a {type(empty).__name__} has no join(parts, rows): a cache that is no "
            "fl_nn.KVCache needs it, see fl_text.models.Cache"
        )
    empty.join(parts, rows)


def arrays_of(cache: Any) -> tuple[Any, ...]:
    """The arrays that a cache holds."""
    return (cache.keys, cache.values) if isinstance(cache, nn.KVCache) else tuple(cache.arrays)


def _joined(parts: Sequence[ft.Array], axis: int) -> Any:
    return parts[0] if len(parts) == 1 else ft.concatenate(parts, axis)
