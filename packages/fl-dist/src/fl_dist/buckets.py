"""BucketReducer: gradients summed over ranks in large pieces, while backward still runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import fl_tensor as ft
from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError
from fl_dist.reducer import (
    GradientSpec,
    Reducer,
    check_communicator,
    check_planned,
    checked_plan,
)
from fl_dist.values import beside
from fl_dist.work import Work
from fl_tensor import DType, Tensor

#: Bytes of the first bucket, and of every other.
FIRST_BUCKET, BUCKET = 1 << 20, 20 << 20


class BucketReducer(Reducer):
    """Sums gradients in buckets of one dtype, each with one asynchronous ``all_reduce``.

    Backward finds the gradients of the last layers first. So buckets are filled in the reverse
    order of the plan, and the first one is small, to be sent early (Li et al., VLDB 2020). A bucket
    is sent as soon as all of its gradients were added and the bucket before it was sent: ranks may
    add in different orders, and still make the same collectives in the same order.

    Buckets are packed into memory of ``communicator.buffer`` that is kept from step to step, and
    results are views of it. Let go of them before the next step: a bucket of which somebody holds
    a result is copied.

    bucket_bytes         the size of buckets; a larger gradient is a bucket of its own
    first_bucket_bytes   the size of the first one
    """

    def __init__(
        self,
        communicator: Communicator,
        *,
        bucket_bytes: int = BUCKET,
        first_bucket_bytes: int = FIRST_BUCKET,
    ) -> None:
        sizes = {"bucket_bytes": bucket_bytes, "first_bucket_bytes": first_bucket_bytes}
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ArgumentError(f"[BucketReducer] {name}={size!r}: give a number of bytes")
        check_communicator("BucketReducer", communicator)
        self.communicator = communicator
        self.bucket_bytes, self.first_bucket_bytes = bucket_bytes, first_bucket_bytes
        self._specs: dict[str, tuple[tuple[int, ...], DType]] = {}
        self._places: dict[str, _Place] = {}
        self._buckets: list[_Bucket] = []
        self._works: list[Work] = []
        self._added: set[str] = set()

    def plan(self, specs: Sequence[GradientSpec]) -> None:
        self._specs = checked_plan(self.communicator, specs)
        self._buckets = self._filled()
        self._places = {place.key: place for bucket in self._buckets for place in bucket.places}
        self._works, self._added = [], set()

    def add(self, key: str, gradient: Tensor) -> None:
        check_planned("BucketReducer", self._specs, key, gradient)
        if key in self._added:
            raise ArgumentError(
                f"[BucketReducer] {key!r} was added twice; call finalize() after each step"
            )
        self._added.add(key)
        self._places[key].bucket.gradients[key] = gradient
        self._send(only_complete=True)

    def finalize(self, weight: float = 1.0) -> dict[str, Tensor]:
        self._send(only_complete=False)
        works, self._works, self._added = self._works, [], set()
        for bucket, work in zip(self._buckets, works, strict=True):
            bucket.buffer = work.wait()
        totals = {key: self._places[key].value() for key in self._specs}
        if weight != 1.0:
            return {key: ft.multiply(total, weight) for key, total in totals.items()}
        return totals

    def _filled(self) -> list[_Bucket]:
        """Buckets of the plan, in the order in which their last gradients come."""
        full: list[_Bucket] = []
        filling: dict[DType, _Bucket] = {}
        first_limit = min(self.bucket_bytes, self.first_bucket_bytes)
        for key, (shape, dtype) in reversed(self._specs.items()):
            size = math.prod(shape)
            bucket = filling.get(dtype)
            limit = self.bucket_bytes if full else first_limit
            if bucket is not None and (bucket.size + size) * dtype.itemsize > limit:
                full.append(filling.pop(dtype))
                bucket = None
            if bucket is None:
                bucket = filling[dtype] = _Bucket(dtype)
            bucket.places.append(_Place(key, shape, bucket, bucket.size, bucket.size + size))
            bucket.size += size
        order = {key: number for number, key in enumerate(reversed(self._specs))}
        return sorted([*full, *filling.values()], key=lambda one: order[one.places[-1].key])

    def _send(self, only_complete: bool) -> None:
        while len(self._works) < len(self._buckets):
            bucket = self._buckets[len(self._works)]
            if only_complete and len(bucket.gradients) < len(bucket.places):
                return
            packed = bucket.packed(self.communicator)
            work = self.communicator.all_reduce(packed, donate=True, async_op=True)
            self._works.append(work)

    def __repr__(self) -> str:
        return f"BucketReducer({len(self._specs)} gradients in {len(self._buckets)} buckets)"


@dataclass
class _Bucket:
    """Gradients that travel as one flat tensor: ``gradients`` are those of the present step."""

    dtype: DType
    size: int = 0
    places: list[_Place] = field(default_factory=list)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    buffer: Tensor | None = None

    def packed(self, communicator: Communicator) -> Tensor:
        """The buffer, to be donated, with the gradients, and zeros for those that are missing."""
        gradients, self.gradients = self.gradients, {}
        buffer, self.buffer = self.buffer, None
        if buffer is None:
            buffer = communicator.buffer((self.size,), self.dtype)
        for first in gradients.values():
            buffer = beside(first, buffer)
            break
        for place in self.places:
            gradient = gradients.get(place.key)
            if gradient is None:
                buffer[place.start : place.stop] = 0.0
            else:
                flat = ft.reshape(gradient, (-1,))
                buffer[place.start : place.stop] = beside(buffer, flat)
        return buffer


@dataclass
class _Place:
    """Where a gradient is in its bucket."""

    key: str
    shape: tuple[int, ...]
    bucket: _Bucket
    start: int
    stop: int

    def value(self) -> Tensor:
        assert self.bucket.buffer is not None  # the bucket has come back
        return ft.reshape(self.bucket.buffer[self.start : self.stop], self.shape)
