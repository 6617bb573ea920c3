"""The kit catches broken promises: shared storage, false claims, threads, mutated suites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from fl_tensor import dtypes
from fl_tensor.backends.null import NullBackend
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy.adapter import NumpyAdapter
from fl_tensor.dtypes import DType
from fl_tensor.testing import CASES, OpCase

RunTest = Callable[[type[NumpyBackend], str], None]


class Correct(NumpyBackend):
    CONTRACT = (1, 0)
    name = "injected"


def adapter(values: Any) -> NumpyAdapter:
    return NumpyAdapter(np.asarray(values))


class ScatterWritesIntoItsOperand(Correct):
    CONTRACT = (1, 0)

    def scatter(self, x: Any, *args: Any) -> Any:
        result = super().scatter(x, *args)
        x.array = result.array.copy()
        return result


class DonationIsSeenThroughViews(Correct):
    CONTRACT = (1, 0)

    def scatter(
        self,
        x: Any,
        indices: Any,
        updates: Any,
        axis: int = 0,
        mode: str = "set",
        donate: bool = False,
    ) -> Any:
        result = super().scatter(x, indices, updates, axis, mode)
        if donate:
            x.array[...] = result.array
        return result


class FromHostBorrows(Correct):
    CONTRACT = (1, 0)

    def from_host(
        self, data: Any, shape: Any, dtype: DType, device: Any, blocking: bool = True
    ) -> Any:
        return NumpyAdapter(np.frombuffer(data, dtype.name).reshape(shape), dtype)


class ToHostIsWritable(Correct):
    CONTRACT = (1, 0)

    def to_host(self, x: Any, blocking: bool = True) -> memoryview:
        return memoryview(bytearray(super().to_host(x)))


class ToHostForgetsTheLayout(Correct):
    CONTRACT = (1, 0)

    def to_host(self, x: Any, blocking: bool = True) -> memoryview:
        return memoryview(x.array.tobytes("A"))


class ClaimsHalfPrecision(Correct):
    CONTRACT = (1, 0)

    def add(self, x, y):
        if x.dtype is dtypes.float16:
            raise TypeError("there is no arithmetic behind the claim")
        return super().add(x, y)


class ClaimsLittle(Correct):
    CONTRACT = (1, 0)
    dtypes: ClassVar[frozenset[DType]] = frozenset({dtypes.float32})


class ClaimsUnknownCapability(Correct):
    CONTRACT = (1, 0)
    capabilities = frozenset({"telepathy"})


class AllocatesSortOutsideTheManager(Correct):
    CONTRACT = (1, 0)

    def sort(self, x: Any, axis: int = -1, descending: bool = False) -> Any:
        return adapter(super().sort(x, axis, descending).array.copy())


class InheritsItsContract(Correct):
    name = "injected"


class IsTooNew(Correct):
    CONTRACT = (1, 7)


class LacksAParameter(Correct):
    CONTRACT = (1, 0)

    def sort(self, x: Any, axis: int = -1) -> Any:  # type: ignore[override]
        return super().sort(x, axis)


class SharesScratchBetweenThreads(Correct):
    CONTRACT = (1, 0)
    scratch: ClassVar[dict[Any, Any]] = {}

    def tanh(self, x: Any) -> Any:
        self.scratch[x.shape] = np.tanh(x.array)
        for _ in range(200):  # where a real fault would be pre-empted by chance
            np.sum(x.array)
        return adapter(self.scratch[x.shape].copy())


FAULTS: list[tuple[type[NumpyBackend], list[str]]] = [
    (ScatterWritesIntoItsOperand, ["test_operation[scatter-float32-plain]"]),
    (
        DonationIsSeenThroughViews,
        [
            "test_scatter_reaches_no_other_value[reshape-set-donate]",
            "test_donated_view_spares_its_source",
        ],
    ),
    (FromHostBorrows, ["test_from_host_copies"]),
    (
        ToHostIsWritable,
        ["test_operation[to_host-float32-plain]", "test_to_host_is_read_only_bytes"],
    ),
    (ToHostForgetsTheLayout, ["test_operation[to_host-float32-non-contiguous]"]),
    (ClaimsHalfPrecision, ["test_operation[add-float16-plain]"]),
    (ClaimsLittle, ["test_required_dtypes"]),
    (ClaimsUnknownCapability, ["test_capabilities"]),
    (AllocatesSortOutsideTheManager, ["test_large_results_are_blocks[sort]"]),
    (InheritsItsContract, ["test_contract_is_stated_and_accepted"]),
    (IsTooNew, ["test_contract_is_stated_and_accepted"]),
    (LacksAParameter, ["test_signatures", "test_operation[sort-float32-plain]"]),
    (SharesScratchBetweenThreads, ["test_threads"]),
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


def row(**changes: Any) -> OpCase:
    add = CASES["add"]
    return OpCase(add.name, add.samples, add.reference, add.kinds, **changes)


def test_an_undeclared_capability_is_a_visible_skip(
    suite_test: RunTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Modest(Correct):
        CONTRACT = (1, 0)
        capabilities = frozenset()

    monkeypatch.setitem(CASES, "add", row(capability="linalg"))
    with pytest.raises(pytest.skip.Exception, match="capability 'linalg' is not declared"):
        suite_test(Modest, "test_operation[add-float32-plain]")


def test_a_declared_capability_is_put_to_the_test(
    suite_test: RunTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Boastful(Correct):
        CONTRACT = (1, 0)
        capabilities = frozenset({"linalg"})

        def add(self, x: Any, y: Any) -> Any:
            raise NotImplementedError("not yet")

    monkeypatch.setitem(CASES, "add", row(capability="linalg"))
    with pytest.raises(AssertionError, match="raises NotImplementedError: not yet"):
        suite_test(Boastful, "test_operation[add-float32-plain]")


def test_an_operation_that_is_newer_than_the_backend_is_skipped(
    suite_test: RunTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CASES, "add", row(since=(1, 1)))
    with pytest.raises(pytest.skip.Exception, match=r"newer than the backend's contract 1\.0"):
        suite_test(Correct, "test_operation[add-float32-plain]")


def test_a_backend_without_values_is_not_asked_for_them(suite_test: RunTest) -> None:
    with pytest.raises(pytest.skip.Exception, match="shapes only"):
        suite_test(NullBackend, "test_from_host_copies")
