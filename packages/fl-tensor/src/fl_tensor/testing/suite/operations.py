"""Every operation, in every dtype that the backend claims, on every kind of sample."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fl_tensor.backend import TensorBackend
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.dtypes import ALL, DType
from fl_tensor.testing.cases import CASES
from fl_tensor.testing.harness import Harness, differences, result_dtype, summary
from fl_tensor.testing.opcase import EDGE, LABELS, LONG, NON_CONTIGUOUS, OpCase
from fl_tensor.testing.suite.base import TensorSuite


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
                labels -= {NON_CONTIGUOUS, EDGE, LONG}
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
        if case.data_dependent:
            self.need_values(harness)
        problems: dict[str, list[str]] = {}
        for sample in case.draw(dtype, label):
            if harness.supports(sample) and (harness.backend.has_values or name != "to_host"):
                found = harness.check(case, sample, dtype)
                if found:
                    problems[f"{name}({sample})"] = found
        assert not problems, summary(problems)

    def test_derived_override(self, harness: Harness, derived: str) -> None:
        """A derived operation that the backend does its own way equals the composition."""
        if not derived:
            pytest.skip("the backend overrides no derived operation")
        self.need_values(harness)
        case, backend = CASES[derived], harness.backend
        problems: dict[str, list[str]] = {}
        for dtype in claimed(backend, case):
            for sample in filter(harness.supports, case.draw(dtype)):
                placed, own = harness.run(derived, sample)
                composed = getattr(DerivedOps, derived)(backend, *placed.args, **placed.kwargs)
                mine, theirs = ([harness.get(r) for r in _list(part)] for part in (own, composed))
                # both sides may use up the tolerance, in opposite directions
                doubled = case.tolerance._replace(eps=2 * case.tolerance.eps, signed=False)
                found = differences(case, sample, dtype, mine, theirs, doubled)
                if found:
                    problems[f"{derived}({sample}), expected what the composition gives"] = found
        assert not problems, summary(problems)


def _list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]
