"""The kit catches wrong arithmetic: each fault is injected in a correct backend, and named tests of
the suite fail. They are called directly, so that a fault costs milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fl_tensor import dtypes
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy.adapter import NumpyAdapter

RunTest = Callable[[type[NumpyBackend], str], None]


class Correct(NumpyBackend):
    CONTRACT = (1, 1)
    name = "injected"


def adapter(values: Any) -> NumpyAdapter:
    return NumpyAdapter(np.asarray(values))


class AddWithoutBroadcasting(Correct):
    CONTRACT = (1, 0)

    def add(self, x: Any, y: Any) -> Any:
        if x.shape != y.shape:
            return x
        return super().add(x, y)


class SumForgetsKeepdims(Correct):
    CONTRACT = (1, 0)

    def sum(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return super().sum(x, axis, False)


class SumInTheOperandsDtype(Correct):
    CONTRACT = (1, 0)

    def sum(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return adapter(np.sum(x.array, axis, x.array.dtype, keepdims=keepdims))


class SumAddsRowAfterRow(Correct):
    CONTRACT = (1, 1)

    def sum(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        return adapter(np.add.reduce(x.array, axis, keepdims=keepdims))


class VarianceFromARoundedMean(Correct):
    CONTRACT = (1, 1)

    def var(self, x: Any, axis: Any, keepdims: bool = False, correction: float = 0.0) -> Any:
        return adapter(np.var(x.array, axis, keepdims=keepdims, ddof=correction))


class CumulativeSumInTheOperandsDtype(Correct):
    CONTRACT = (1, 1)

    def cumulative_sum(self, x: Any, axis: int = -1) -> Any:
        return adapter(np.cumsum(x.array, axis, x.array.dtype))


class SumWrapsBeforeWidening(Correct):
    CONTRACT = (1, 0)

    def sum(self, x: Any, axis: Any, keepdims: bool = False) -> Any:
        narrow = np.sum(x.array, axis, x.array.dtype, keepdims=keepdims)
        return adapter(narrow.astype(super().sum(x, axis, keepdims).dtype.name))


class UnstableSort(Correct):
    CONTRACT = (1, 0)

    def argsort(self, x: Any, axis: int = -1, descending: bool = False) -> Any:
        order = super().argsort(x, axis, not descending).array
        return adapter(np.flip(order, axis).copy())


class NanSortsFirst(Correct):
    CONTRACT = (1, 0)

    def sort(self, x: Any, axis: int = -1, descending: bool = False) -> Any:
        a = np.sort(x.array, axis)
        if x.dtype.is_floating and a.ndim == 1:
            a = np.roll(a, int(np.isnan(a).sum()))
        return adapter(np.flip(a, axis).copy() if descending else a)


class ArgmaxTakesTheLast(Correct):
    CONTRACT = (1, 0)

    def argmax(self, x: Any, axis: int, keepdims: bool = False) -> Any:
        last = np.argmax(np.flip(x.array, axis), axis, keepdims=keepdims)
        return adapter(np.asarray(x.shape[axis] - 1 - last, np.int64))


class ScatterAddLosesDuplicates(Correct):
    CONTRACT = (1, 0)

    def scatter(self, x: Any, indices: Any, updates: Any, axis: int = 0, *rest: Any) -> Any:
        if not rest or rest[0] == "set":
            return super().scatter(x, indices, updates, axis, *rest)
        out = x.array.copy()
        out[(slice(None),) * axis + (indices.array,)] += updates.array
        return adapter(out)


class RoundsHalvesAway(Correct):
    CONTRACT = (1, 0)

    def round(self, x: Any) -> Any:
        a = x.array
        return adapter((np.sign(a) * np.floor(np.abs(a) + 0.5)).astype(a.dtype))


class ConvIgnoresGroups(Correct):
    CONTRACT = (1, 0)

    def conv(self, x: Any, w: Any, *args: Any) -> Any:
        *rest, groups = args
        if groups == 1:
            return super().conv(x, w, *args)
        wide = adapter(np.tile(w.array, (1, groups) + (1,) * (w.array.ndim - 2)))
        return super().conv(x, wide, *rest, 1)


class ConvClipsNegativePadding(Correct):
    CONTRACT = (1, 0)

    def conv(self, x: Any, w: Any, stride: Any, padding: Any, *rest: Any) -> Any:
        clipped = tuple((max(low, 0), max(high, 0)) for low, high in padding)
        return super().conv(x, w, stride, clipped, *rest)


class ConvFlipsTheKernel(Correct):
    CONTRACT = (1, 0)

    def conv(self, x: Any, w: Any, *args: Any) -> Any:
        return super().conv(x, adapter(np.flip(w.array, range(2, w.array.ndim)).copy()), *args)


class RemainderLikeC(Correct):
    CONTRACT = (1, 0)

    def remainder(self, x: Any, y: Any) -> Any:
        return adapter(np.fmod(x.array, y.array))


class FloorDivideTruncates(Correct):
    CONTRACT = (1, 0)

    def floor_divide(self, x: Any, y: Any) -> Any:
        return adapter(np.trunc(x.array / y.array).astype(x.array.dtype))


class MaximumDropsNan(Correct):
    CONTRACT = (1, 0)

    def maximum(self, x: Any, y: Any) -> Any:
        return adapter(np.fmax(x.array, y.array))


class DoubleComputedInSingle(Correct):
    CONTRACT = (1, 0)

    def exp(self, x: Any) -> Any:
        with np.errstate(all="ignore"):
            return adapter(np.exp(x.array.astype(np.float32)).astype(x.array.dtype))


class Expm1Cancels(Correct):
    CONTRACT = (1, 0)

    def expm1(self, x: Any) -> Any:
        with np.errstate(all="ignore"):
            return adapter(np.asarray(np.exp(x.array) - 1, x.array.dtype))


class ExclusiveCumulativeSum(Correct):
    CONTRACT = (1, 0)

    def cumulative_sum(self, x: Any, axis: int = -1) -> Any:
        return self.subtract(
            super().cumulative_sum(x, axis), self.cast(x, dtypes.sum_dtype(x.dtype))
        )


class PhiloxForgetsTheOffset(Correct):
    CONTRACT = (1, 0)

    def random_bits(self, seed: int, offset: int, shape: Any, device: Any) -> Any:
        return super().random_bits(seed, offset // 4 * 4, shape, device)


class PhiloxWith32BitCounter(Correct):
    CONTRACT = (1, 0)

    def random_bits(self, seed: int, offset: int, shape: Any, device: Any) -> Any:
        return super().random_bits(seed, offset % (4 * 2**32), shape, device)


class ReversedSliceStartsLate(Correct):
    CONTRACT = (1, 0)

    def slice(self, x: Any, starts: Any, sizes: Any, steps: Any) -> Any:
        kept = super().slice(x, starts, sizes, steps)
        return adapter(np.roll(kept.array, 1, -1)) if steps and steps[-1] < 0 else kept


class PadWithZerosOnly(Correct):
    CONTRACT = (1, 0)

    def pad(self, x: Any, low: Any, high: Any, interior: Any, value: Any = 0) -> Any:
        return super().pad(x, low, high, interior, 0)


class WrongFusedSoftmax(Correct):
    CONTRACT = (1, 0)

    def softmax(self, x: Any, axis: int = -1) -> Any:
        with np.errstate(all="ignore"):
            e = np.exp(x.array)
            return adapter(np.asarray(e / e.sum(axis, keepdims=True), x.array.dtype))


FAULTS: list[tuple[type[NumpyBackend], list[str]]] = [
    (AddWithoutBroadcasting, ["test_operation[add-float32-broadcast]"]),
    (SumForgetsKeepdims, ["test_operation[sum-int64-plain]"]),
    (SumAddsRowAfterRow, ["test_operation[sum-float32-many]", "test_operation[mean-float64-many]"]),
    (VarianceFromARoundedMean, ["test_operation[var-float32-many]"]),
    (CumulativeSumInTheOperandsDtype, ["test_operation[cumulative_sum-float32-many]"]),
    (SumInTheOperandsDtype, ["test_operation[sum-int32-plain]", "test_operation[sum-bool-plain]"]),
    (SumWrapsBeforeWidening, ["test_operation[sum-int32-edge]", "test_operation[sum-uint8-edge]"]),
    (UnstableSort, ["test_operation[argsort-int32-edge]", "test_operation[topk-uint8-edge]"]),
    (NanSortsFirst, ["test_operation[sort-float32-edge]"]),
    (ArgmaxTakesTheLast, ["test_operation[argmax-int32-edge]", "test_operation[argmax-bool-edge]"]),
    (ScatterAddLosesDuplicates, ["test_operation[scatter-float32-plain]"]),
    (RoundsHalvesAway, ["test_operation[round-float32-edge]"]),
    (ConvIgnoresGroups, ["test_operation[conv-float32-plain]"]),
    (ConvClipsNegativePadding, ["test_operation[conv-float32-edge]"]),
    (ConvFlipsTheKernel, ["test_operation[conv-float32-plain]"]),
    (
        RemainderLikeC,
        ["test_operation[remainder-int32-edge]", "test_operation[remainder-float32-edge]"],
    ),
    (FloorDivideTruncates, ["test_operation[floor_divide-int64-edge]"]),
    (
        MaximumDropsNan,
        ["test_operation[maximum-float32-edge]", "test_operation[relu-float32-edge]"],
    ),
    (DoubleComputedInSingle, ["test_operation[exp-float64-plain]"]),
    (Expm1Cancels, ["test_operation[expm1-float32-edge]"]),
    (ExclusiveCumulativeSum, ["test_operation[cumulative_sum-float32-plain]"]),
    (PhiloxForgetsTheOffset, ["test_operation[random_bits-int32-edge]"]),
    (PhiloxWith32BitCounter, ["test_operation[random_bits-int32-edge]"]),
    (
        ReversedSliceStartsLate,
        ["test_operation[slice-int32-plain]", "test_operation[flip-bool-plain]"],
    ),
    (PadWithZerosOnly, ["test_operation[pad-float32-plain]"]),
    (WrongFusedSoftmax, ["test_operation[softmax-float32-edge]", "test_derived_override[softmax]"]),
]


@pytest.mark.parametrize(
    ("backend", "test"),
    [(backend, test) for backend, tests in FAULTS for test in tests],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_injected_fault_is_caught(
    catches: RunTest, backend: type[NumpyBackend], test: str
) -> None:
    catches(backend, test)


CAUGHT = sorted({test for _, tests in FAULTS for test in tests if "float16" not in test})


@pytest.mark.parametrize("test", [t for t in CAUGHT if "override" not in t])
def test_the_same_tests_pass_without_the_fault(suite_test: RunTest, test: str) -> None:
    suite_test(Correct, test)
