"""``OpCase``: one row of the operation table, with all test data of an operation.

The row feeds the backend suite, the gradient suite, the documentation table and the
micro-benchmarks. ``fl_tensor.testing.cases.CASES`` holds one row per public operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fl_tensor.dtypes import HALF, DType
from fl_tensor.testing.hostdata import HostArray, round_to

__all__ = ["LABELS", "OpCase", "Operand", "Sample", "Tolerance", "operand"]

#: What a sample exercises; a test case is an operation, a dtype and one of these.
PLAIN, ZERO_D, EMPTY, BROADCAST, NON_CONTIGUOUS, EDGE, LONG, MANY = LABELS = (
    "plain",
    "0-d",
    "empty",
    "broadcast",
    "non-contiguous",
    "edge",
    "long",  # more elements than vector registers and unrolled loops hold, and not a multiple
    "many",  # sums of thousands of elements, means of nearly equal ones: at least pairwise
)
#: The contract that a label came with, if not the first.
LABELS_SINCE = {MANY: (1, 1)}


class _Sentinel:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


#: Stands for "the device under test" among the arguments of a sample.
DEVICE = _Sentinel("DEVICE")


@dataclass(frozen=True)
class Operand:
    """A tensor argument: its values, its dtype, and how it is to lie in the backend's memory.

    ``layout`` is ``"contiguous"``, ``"permuted"``, ``"stepped"`` or ``"reversed"``; the last three
    are built from a larger or reordered value through ``permute`` and ``slice``.
    """

    values: HostArray
    dtype: DType
    layout: str = "contiguous"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)


def operand(values: Any, dtype: DType, layout: str = "contiguous") -> Operand:
    """An Operand of ``values`` (anything NumPy reads) rounded to ``dtype``."""
    # Python ints go in directly: as an array of no stated dtype, 2**64 - 1 would become a float.
    exact = dtype.is_integer and not isinstance(values, np.ndarray)
    found = np.array(values, dtype.name) if exact else round_to(np.asarray(values), dtype)
    return Operand(found, dtype, layout)


@dataclass(frozen=True)
class Sample:
    """One call: ``op(*args, **kwargs)``. Operands may stand alone or in a list or tuple. ``since``
    is the contract version that specified its result."""

    label: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    since: tuple[int, int] = (1, 0)

    def operands(self) -> list[Operand]:
        """The tensor arguments in order, lists and tuples opened."""
        found: list[Operand] = []
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, Operand):
                found.append(value)
            elif isinstance(value, (list, tuple)):
                found.extend(v for v in value if isinstance(v, Operand))
        return found

    def map(self, change: Callable[[Operand], Any]) -> Sample:
        """The same call with every Operand replaced by ``change(operand)``."""

        def visit(value: Any) -> Any:
            if isinstance(value, Operand):
                return change(value)
            if isinstance(value, (list, tuple)) and any(isinstance(v, Operand) for v in value):
                return type(value)(visit(v) for v in value)
            return value

        return Sample(
            self.label,
            tuple(visit(a) for a in self.args),
            {k: visit(v) for k, v in self.kwargs.items()},
            self.since,
        )


class Tolerance(NamedTuple):
    """``|got - want| <= eps * epsilon(dtype) * max(|want|, scale)``.

    eps        in units of the dtype's epsilon; 0 means equal (NaN equals NaN, -0 equals 0);
               at most 1 for float16 and bfloat16, which are computed in float32
    scale      size below which the error is absolute: sums whose terms cancel need it
    signed     zeros must agree in sign too: operations that only move values
    overrides  ``eps`` for some dtypes, by name
    """

    eps: float = 0.0
    scale: float = 0.0
    signed: bool = False
    overrides: Mapping[str, float] = {}

    def eps_for(self, dtype: DType) -> float:
        if dtype in HALF:  # computed in float32 and rounded once, whatever the operation
            return min(self.eps, 1.0)
        return self.overrides.get(dtype.name, self.eps)


MOVED = Tolerance(0, signed=True)
EXACT = Tolerance(0)

Samples = Callable[[DType, np.random.Generator], Sequence[Sample]]
Reference = Callable[..., Any]


@dataclass(frozen=True)
class OpCase:
    """One operation.

    name        as in the contract
    samples     ``(dtype, rng) -> samples``; together they show every label that makes sense
    reference   the same call on NumPy arrays: floats arrive as float64 (complex as complex128),
                integers and bool in their own dtype; gives an array or a tuple of arrays
    kinds       dtype kinds of the operands that vary: letters of ``"biufc"``
    result      dtype of the result: ``"same"`` as ``dtype``, a dtype name, ``"sum"`` (integers in
                64 bits), ``"real"`` or ``"complex"`` (the counterpart of ``dtype``), or one of
                these per result, in a tuple
    tolerance   see Tolerance
    since       contract version that introduced it
    capability  name of the capability that it needs, or None for all backends
    grad        labels of the samples on which gradients are checked (all floating operands);
                empty: not differentiable, or piecewise constant
    only        dtype names, where the kinds say too much
    data_dependent  the shape of the result depends on values, so that shapes alone do not give it
    canonical   where several results are right: ``(results, *args, **kwargs) -> arrays`` that are
                the same for all of them (a product that gives ``x`` again, ordered values); those
                of the backend's results and of the reference's are compared
    """

    name: str
    samples: Samples
    reference: Reference
    kinds: str = "f"
    result: str | tuple[str, ...] = "same"
    tolerance: Tolerance = EXACT
    since: tuple[int, int] = (1, 0)
    capability: str | None = None
    grad: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    data_dependent: bool = False
    canonical: Callable[..., Sequence[Any]] | None = None
    _drawn: dict[tuple[DType, int], list[Sample]] = field(default_factory=dict, repr=False)

    def accepts(self, dtype: DType) -> bool:
        """Whether the row has samples of ``dtype``."""
        return dtype.kind in self.kinds and (self.only is None or dtype.name in self.only)

    def draw(self, dtype: DType, label: str | None = None, seed: int = 0) -> list[Sample]:
        """The samples of ``dtype`` (with ``label``), the same ones on every call with one seed."""
        key = (dtype, seed)
        if key not in self._drawn:
            rng = np.random.default_rng([seed, *self.name.encode(), *dtype.name.encode()])
            self._drawn[key] = list(self.samples(dtype, rng))
        return [s for s in self._drawn[key] if label in (None, s.label)]
