"""CompressedReducer: gradients travel in 16 bits, and what rounding took is sent later."""

from __future__ import annotations

import math
from collections.abc import Sequence

import fl_tensor as ft
from fl_dist.buckets import BucketReducer
from fl_dist.communicator import Communicator
from fl_dist.errors import ArgumentError
from fl_dist.reducer import GradientSpec, Reducer, check_communicator
from fl_tensor import DType, Tensor

#: Elements below which a tensor travels as it is: scalars and biases cost no bytes.
SMALLEST = 1024


class CompressedReducer(Reducer):
    """Sums gradients through another reducer, float32 ones rounded to 16 bits: half the bytes.

    Each rank rounds its own gradient before it is sent, so that all ranks add up the same numbers
    and get the same bits. It keeps what rounding took and adds it to its next gradient (error
    feedback; Seide et al., 1-Bit SGD, Interspeech 2014): over the steps nothing of a gradient is
    lost; sums are rounded once more. Values too large for the dtype are sent in parts, in this step
    and those that follow. What is not finite is sent as it is, so that every rank sees it.

    The errors that were not sent yet are no part of checkpoints: a run that is resumed begins
    without.

    reducer    what sums: a BucketReducer of the communicator unless another is given
    dtype      float16, or bfloat16 with less precision and a larger range
    smallest   tensors of fewer elements are not rounded
    """

    def __init__(
        self,
        communicator: Communicator,
        reducer: Reducer | None = None,
        dtype: DType | str = "float16",
        *,
        smallest: int = SMALLEST,
    ) -> None:
        self.dtype = ft.dtype(dtype)
        if self.dtype not in (ft.float16, ft.bfloat16):
            raise ArgumentError(f"[CompressedReducer] dtype {self.dtype}: float16 or bfloat16")
        check_communicator("CompressedReducer", communicator)
        self.communicator, self.smallest = communicator, smallest
        self.reducer = BucketReducer(communicator) if reducer is None else reducer
        #: By key, what rounding took and was not sent yet; the keys are those that are rounded.
        self.errors: dict[str, Tensor | None] = {}

    def plan(self, specs: Sequence[GradientSpec]) -> None:
        rounded = {key for key, shape, dtype in specs if self._is_rounded(shape, ft.dtype(dtype))}
        self.reducer.plan(
            [(key, shape, self.dtype if key in rounded else dtype) for key, shape, dtype in specs]
        )
        self.errors = {key: self.errors.get(key) for key in rounded}

    def add(self, key: str, gradient: Tensor) -> None:
        if key not in self.errors:
            self.reducer.add(key, gradient)
            return
        error = self.errors[key]
        wanted = gradient if error is None else gradient + error
        # The sum over ranks of what is sent must be finite, too.
        bound = ft.finfo(self.dtype).max / self.communicator.world_size
        sent = ft.clip(wanted, -bound, bound).astype(self.dtype)
        finite = ft.isfinite(wanted)
        sent = ft.where(finite, sent, wanted.astype(self.dtype))
        left = ft.where(finite, wanted - sent.astype(wanted.dtype), ft.zeros_like(wanted))
        self.errors[key] = left
        self.reducer.add(key, sent)

    def finalize(self, weight: float = 1.0) -> dict[str, Tensor]:
        found = self.reducer.finalize(weight)
        return {
            key: value.astype(ft.float32) if key in self.errors else value
            for key, value in found.items()
        }

    def _is_rounded(self, shape: tuple[int, ...], dtype: DType) -> bool:
        return dtype is ft.float32 and math.prod(shape) >= self.smallest

    def __repr__(self) -> str:
        return f"CompressedReducer({self.reducer!r}, {self.dtype})"
