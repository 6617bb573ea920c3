"""Tests of every operation, dtype and kind of sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from fl_memory.testing.kit import hide
from fl_tensor.backend import TensorBackend
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dtypes import ALL, DType
from fl_tensor.testing import wording
from fl_tensor.testing.cases import CASES
from fl_tensor.testing.expectations import differences, result_dtype
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.opcase import (
    EDGE,
    LABELS,
    LABELS_SINCE,
    LONG,
    MANY,
    NON_CONTIGUOUS,
    OpCase,
    Sample,
)
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide


def claimed(backend: TensorBackend, case: OpCase) -> list[DType]:
    """The dtypes in which ``case`` is to be tried, in the order of the array API."""
    kinds = 1 if isinstance(case.result, str) else len(case.result)
    return [
        d
        for d in ALL.values()
        if d in backend.dtypes
        and case.accepts(d)
        and all(result_dtype(case, d, i) in backend.dtypes for i in range(kinds))
    ]


def operation_ids(backend: TensorBackend) -> Iterator[str]:
    """``add-float32-plain``: one test case each."""
    for case in CASES.values():
        for dtype in claimed(backend, case):
            labels = {s.label for s in case.draw(dtype)}
            if not backend.has_values:  # layouts, special values and lengths do not show in a shape
                labels -= {NON_CONTIGUOUS, EDGE, LONG, MANY}
            for label in (name for name in LABELS if name in labels):
                yield f"{case.name}-{dtype}-{label}"


def overridden(backend: TensorBackend) -> list[str]:
    """The derived operations for which the backend has its own version."""
    cls = type(backend)
    names = [n for n, f in vars(DerivedOps).items() if not n.startswith("_") and callable(f)]
    return [n for n in names if getattr(cls, n) is not getattr(DerivedOps, n)]


class OperationTests(TensorSuite, official=True):
    """Results, shapes, dtypes and devices against the operation table."""

    def test_operation(self, harness: Harness, operation: str) -> None:
        """The operation agrees with its reference and with the shape rule, and changes no operand.

        The id is operation, dtype, kind of sample.
        """
        name, dtype_name, label = operation.split("-", 2)
        case, dtype = CASES[name], ALL[dtype_name]
        self.need(harness, case)
        self.need_contract(harness, f"{name}-{label}", LABELS_SINCE.get(label, case.since))
        if case.data_dependent:
            self.need_values(harness)
        samples = [
            sample
            for sample in harness.draw(case, dtype, label)
            if harness.backend.has_values or name != "to_host"
        ]
        self.tell(harness, name, samples, lambda sample: harness.check(case, sample, dtype))

    def test_derived_override(self, harness: Harness, derived: str) -> None:
        """A derived operation that the backend does its own way equals the composition."""
        if not derived:
            pytest.skip("the backend overrides no derived operation")
        self.need_values(harness)
        case, backend = CASES[derived], harness.backend
        # both sides may use up the tolerance, in opposite directions
        doubled = case.tolerance._replace(eps=2 * case.tolerance.eps, signed=False)
        for dtype in claimed(backend, case):

            def compared(sample: Sample, dtype: DType = dtype) -> list[str]:
                placed, own = harness.run(derived, sample)
                composed = getattr(DerivedOps, derived)(backend, *placed.args, **placed.kwargs)
                mine, theirs = ([harness.get(r) for r in _list(part)] for part in (own, composed))
                found = differences(case, sample, dtype, mine, theirs, doubled)
                return [f"{line} (the composition's result)" for line in found]

            stated = tuple(type(backend).CONTRACT)
            samples = [
                sample
                for sample in harness.draw(case, dtype)
                if stated >= LABELS_SINCE.get(sample.label, (1, 0))
            ]
            self.tell(harness, derived, samples, compared)

    def tell(
        self,
        harness: Harness,
        name: str,
        samples: Iterable[Sample],
        check: Callable[[Sample], list[str]],
    ) -> None:
        """Fail with the samples for which ``check`` finds something or the backend raises; with
        pytest's ``--pdb`` and ``--full-trace`` its error goes through."""
        problems: dict[str, list[str]] = {}
        for sample in samples:
            try:
                found = check(sample)
            except Exception as error:  # whatever a stranger's method raises
                if harness.debugging:
                    raise
                found = [wording.raised(error)]
            if found:
                problems[wording.call(name, sample)] = found
        if problems:
            wording.fail(wording.summary(problems))


def _list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]
