"""The kit catches what a class says wrongly about itself: parameters, names, capabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from fl_tensor import dtypes
from fl_tensor.backend import TensorBackend
from fl_tensor.backends.delegate import DelegatingBackend
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.dtypes import DType

RunTest = Callable[[type[TensorBackend], str], None]


class Correct(NumpyBackend):
    CONTRACT = (1, 0)
    name = "injected"


class SwapsParameters(Correct):
    CONTRACT = (1, 0)

    def sum(self, x: Any, keepdims: bool, axis: Any = ()) -> Any:  # type: ignore[override]
        return super().sum(x, axis, keepdims)


class HasAnotherDefault(Correct):
    CONTRACT = (1, 0)

    def sort(self, x: Any, axis: int = -1, descending: bool = True) -> Any:
        return super().sort(x, axis, descending)


class NeedsWhatMayBeLeftOut(Correct):
    CONTRACT = (1, 0)

    def softmax(self, x: Any, axis: int) -> Any:  # type: ignore[override]
        return super().softmax(x, axis)


class HasNoDonate(Correct):
    CONTRACT = (1, 0)

    def scatter(self, x: Any, *args: Any) -> Any:
        return super().scatter(x, *args)


class Misspells(Correct):
    CONTRACT = (1, 0)

    def log_sofmtax(self, x: Any, axis: int = -1) -> Any:
        return super().log_softmax(x, axis)


class MisspellsAnAttribute(Correct):
    CONTRACT = (1, 0)
    check_shapes = True


class TakesAPublicName(Correct):
    CONTRACT = (1, 0)

    def flush(self) -> None: ...


class IsNeverReady(Correct):
    CONTRACT = (1, 0)

    def is_ready(self, x: Any) -> bool:
        return False


class CachesResults(Correct):
    CONTRACT = (1, 1)
    _results: ClassVar[dict[Any, Any]] = {}

    def call_composition(self, function: Any, arguments: Any) -> Any:
        key = function, tuple(getattr(x, "shape", x) for x in arguments)
        if key not in self._results:
            self._results[key] = function(self, *arguments)
        return self._results[key]


class ClaimsPartsWithoutNumbers(Correct):
    CONTRACT = (1, 0)
    dtypes: ClassVar[frozenset[DType]] = dtypes.REQUIRED
    capabilities = frozenset({"complex"})


class HasUndeclaredTransforms(Correct):
    CONTRACT = (1, 0)
    capabilities = frozenset({"complex", "linalg"})

    def irfft(self, x: Any, n: int, axis: int) -> Any:
        raise NotImplementedError("not yet")


class ScansForward(Correct):
    def scan(self, xs, count, body, carries, scanned, steps, reverse=False):
        return super().scan(xs, count, body, carries, scanned, steps)


class HidesParts(Correct):
    CONTRACT = (1, 0)
    capabilities = frozenset({"linalg"})


@pytest.mark.parametrize(
    ("backend", "test", "words"),
    [
        (SwapsParameters, "test_signatures", "sum.*: keepdims stands before axis"),
        (HasAnotherDefault, "test_signatures", "sort.*: descending is True by default, in"),
        (NeedsWhatMayBeLeftOut, "test_signatures", "softmax.*: missing a required argument"),
        (HasNoDonate, "test_signatures", "scatter.*: got an unexpected keyword argument 'donate'"),
        (Misspells, "test_names", "log_sofmtax: do you mean log_softmax?"),
        (MisspellsAnAttribute, "test_names", "check_shapes: do you mean checks_shapes?"),
        (TakesAPublicName, "test_names", "flush: begin names of your own with _"),
        (IsNeverReady, "test_what_was_evaluated_is_ready", "is_ready gave False for a value that"),
        (CachesResults, "test_call_composition", r"x \* 2.0 \+ x of \[3.0, 5.0\]"),
        (ScansForward, "test_control_flow", r"scan, reverse gave \[3124.0, .*: expected \[3421.0"),
        (ClaimsPartsWithoutNumbers, "test_complex_dtypes_have_parts", "no complex dtype"),
        (
            HasUndeclaredTransforms,
            "test_undeclared_capability[fft]",
            "'fft' is not declared, but there is fft, ifft, rfft, irfft: declare it",
        ),
        (HidesParts, "test_complex_dtypes_have_parts", "needs the capability 'complex'"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_a_false_claim_is_caught(
    suite_test: RunTest, backend: type[NumpyBackend], test: str, words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        suite_test(backend, test)


class Free(Correct):
    """What is nobody's business: names of parameters, more of them, gathered arguments."""

    CONTRACT = (1, 0)
    _cache: ClassVar[dict[str, int]] = {}

    def where(self, x: Any, y: Any, z: Any) -> Any:
        return super().where(x, y, z)

    def sum(self, input: Any, dim: Any, keep: bool = False, precise: bool = True) -> Any:  # type: ignore[override]
        return super().sum(input, dim, keep)

    def scatter(self, *args: Any, donate: bool = False) -> Any:  # type: ignore[override]
        return super().scatter(*args, donate=donate)

    def _flush(self) -> None: ...


class Modest(Correct):
    CONTRACT = (1, 0)
    capabilities = frozenset({"complex", "linalg"})
    fft, ifft = TensorBackend.fft, TensorBackend.ifft
    rfft, irfft = TensorBackend.rfft, TensorBackend.irfft


class Borrows(DelegatingBackend):
    """Whatever the lender has, only what is declared is offered."""

    CONTRACT = (1, 0)
    name = "borrows"


def test_what_is_not_declared_may_be_missing(suite_test: RunTest) -> None:
    suite_test(Modest, "test_undeclared_capability[fft]")
    for capability in ("linalg", "fft", "complex"):
        suite_test(Borrows, f"test_undeclared_capability[{capability}]")
    with pytest.raises(pytest.skip.Exception, match="is declared: test_operation tries it"):
        suite_test(Modest, "test_undeclared_capability[linalg]")
    with pytest.raises(pytest.skip.Exception, match="'memory' is not declared"):
        suite_test(Modest, "test_undeclared_capability[memory]")


@pytest.mark.parametrize("test", ["test_names", "test_complex_dtypes_have_parts"])
def test_the_same_tests_pass_without_the_fault(suite_test: RunTest, test: str) -> None:
    suite_test(Correct, test)
    suite_test(Free, test)


def test_signatures_leave_names_free(suite_test: RunTest) -> None:
    suite_test(Correct, "test_signatures")
    suite_test(Free, "test_signatures")
