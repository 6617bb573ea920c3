"""``GradientSuite``: the gradient of every operation, on one backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from fl_autograd.check import GradCheckError, check_grads
from fl_autograd.dispatch import tape_for
from fl_autograd.rules import NON_DIFFERENTIABLE, RULES
from fl_autograd.variable import Variable
from fl_memory.testing.kit import hide
from fl_tensor import Tensor, dtypes
from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.dtypes import DType, complex_of
from fl_tensor.testing import wording
from fl_tensor.testing.cases import CASES
from fl_tensor.testing.harness import Harness
from fl_tensor.testing.opcase import LABELS, OpCase, Sample
from fl_tensor.testing.suite.base import TensorSuite

__tracebackhide__ = hide


#: They have no gradients: a MissingRuleError says so.
WITHOUT_RULES = frozenset({"eig", "eigvals", "to_host"})
#: Of complex matrices they are unique up to phases, which differences would see.
WITH_PHASES = frozenset({"eigh", "svd"})


def differentiable() -> list[OpCase]:
    """The rows of the operation table whose gradients exist."""
    return [
        case
        for case in CASES.values()
        if case.name not in NON_DIFFERENTIABLE | WITHOUT_RULES
        if "f" in case.kinds or "c" in case.kinds
    ]


def gradient_ids(backend: TensorBackend) -> Iterator[str]:
    """``add-plain``: one test case each, of real numbers."""
    return _ids(differentiable(), precise(backend))


def complex_ids(backend: TensorBackend) -> Iterator[str]:
    """The same of complex numbers; none where the backend has none."""
    return _ids(_complex_cases(backend), complex_of(precise(backend)))


def complex_rules(backend: TensorBackend) -> Iterator[str]:
    """The operations with a rule that take complex numbers; none where the backend has none."""
    return (case.name for case in _complex_cases(backend) if case.name in RULES)


def _complex_cases(backend: TensorBackend) -> list[OpCase]:
    dtype = complex_of(precise(backend))
    cases = differentiable() if dtype in backend.dtypes else []
    return [c for c in cases if c.accepts(dtype) and c.name not in WITH_PHASES]


def _ids(cases: list[OpCase], dtype: DType) -> Iterator[str]:
    for case in cases:
        if not case.accepts(dtype):
            continue
        labels = {s.label for s in case.draw(dtype) if s.label in case.grad}
        for label in (name for name in LABELS if name in labels):
            yield f"{case.name}-{label}"


def precise(backend: TensorBackend) -> DType:
    """The dtype to check in: float64 where the backend has it."""
    return dtypes.float64 if dtypes.float64 in backend.dtypes else dtypes.float32


class GradientSuite(TensorSuite, official=True):
    """Subclass it, call the class ``Test...``, set ``backend`` (as for ``TensorBackendSuite``)."""

    @classmethod
    def __fl_generate__(cls, metafunc: Any) -> list[str]:
        """The samples depend on the dtypes of the backend."""
        wanted: dict[str, Callable[[TensorBackend], Iterable[str]]] = {
            "gradient": gradient_ids,
            "rule": lambda backend: sorted(_real_rules()),
            "complex_gradient": complex_ids,
            "complex_rule": complex_rules,
        }
        names = [name for name in wanted if name in metafunc.fixturenames]
        for name in names:
            # a suite without a backend is reported by the plugin, not here
            backend = None if cls.__fl_problems__() else cls.implementation
            made = [] if backend is None else list(wanted[name](backend))
            metafunc.parametrize(name, made or [""], ids=made or ["none"])
        return names

    def test_every_operation_has_a_gradient_case(self) -> None:
        """A differentiable operation without gradient samples would never be checked."""
        missing = [case.name for case in differentiable() if not case.grad]
        assert not missing, f"no gradient samples in the operation table: {', '.join(missing)}"
        constant = [c.name for c in CASES.values() if c.grad and c.name in NON_DIFFERENTIABLE]
        assert not constant, f"gradient samples, but listed as not differentiable: {constant}"

    def test_gradient(self, harness: Harness, gradient: str) -> None:
        """First order, on the samples with one label."""
        name, label = gradient.split("-", 1)
        most = 1 if harness.quick else None
        self._check(harness, precise(harness.backend), name, label, order=1, most=most)

    def test_second_order(self, harness: Harness, rule: str) -> None:
        """The rule itself is differentiable: gradients of gradients, on the first plain sample."""
        self._check(harness, precise(harness.backend), rule, "plain", order=2, most=1)

    def test_complex_gradient(self, harness: Harness, complex_gradient: str) -> None:
        """First order, of complex numbers."""
        self._need_complex(harness)
        name, label = complex_gradient.split("-", 1)
        self._check(harness, complex_of(precise(harness.backend)), name, label, order=1)

    def test_complex_second_order(self, harness: Harness, complex_rule: str) -> None:
        """Gradients of gradients, of complex numbers."""
        self._need_complex(harness)
        dtype = complex_of(precise(harness.backend))
        self._check(harness, dtype, complex_rule, "plain", order=2, most=1)

    def _need_complex(self, harness: Harness) -> None:
        if complex_of(precise(harness.backend)) not in harness.backend.dtypes:
            pytest.skip("the backend has no complex numbers")

    def _check(
        self,
        harness: Harness,
        dtype: DType,
        name: str,
        label: str,
        order: int,
        most: int | None = None,
    ) -> None:
        self.need_values(harness)
        case = CASES[name]
        self.need(harness, case)
        problems = []
        samples = [s for s in case.draw(dtype, label) if harness.supports(s)]
        for sample in [s for s in samples if _differentiable(s)][:most]:
            operation = getattr(tape_for(harness.backend), name)
            function, values = as_function(harness, operation, sample)
            try:
                check_grads(function, values, order)
            except GradCheckError as error:
                problems.append(f"{wording.call(name, sample)}: {error}")
        assert not problems, "\n".join(problems)


def _differentiable(sample: Sample) -> bool:
    return any(x.dtype.kind in "fc" and x.values.size for x in sample.operands())


def _real_rules() -> list[str]:
    return [name for name in RULES if "f" in CASES[name].kinds]


def as_function(
    harness: Harness, operation: Callable[..., Any], sample: Sample
) -> tuple[Callable[..., Any], list[Tensor]]:
    """The sample's call of ``operation``, a method of the tape, as a function of its array
    operands; and their values."""
    placed = harness.placed(sample)
    values: list[Tensor] = []

    def take(value: Any) -> Any:
        if isinstance(value, TensorAdapter):
            values.append(Tensor(value, harness.backend))
            return _Place(len(values) - 1)
        if isinstance(value, (list, tuple)) and any(isinstance(v, TensorAdapter) for v in value):
            return [take(v) for v in value]
        return value

    args = [take(a) for a in placed.args]
    kwargs = {key: take(v) for key, v in placed.kwargs.items()}

    def function(*variables: Variable) -> Any:
        def put(value: Any) -> Any:
            if isinstance(value, _Place):
                return variables[value.number]
            if isinstance(value, list):
                return [put(v) for v in value]
            return value

        return operation(*map(put, args), **{key: put(v) for key, v in kwargs.items()})

    return function, values


class _Place:
    def __init__(self, number: int) -> None:
        self.number = number
