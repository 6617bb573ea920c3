"""Comparison of results with the reference in float64, within the tolerance of the case.

This module also knows the dtypes that results must have.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fl_tensor import dtypes
from fl_tensor.dispatch import calls
from fl_tensor.dtypes import DType
from fl_tensor.testing import compare
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import OpCase, Operand, Sample, Tolerance

#: Kinds of parameters that say where: an operation with one moves or combines elements.
_PLACES = ("Axis", "Axes", "NewAxis", "Shape")


def reference(case: OpCase, sample: Sample) -> Any:
    """The reference's result, in float64 or exact integers."""
    wide = sample.map(_widened)
    with np.errstate(all="ignore"):
        return case.reference(*wide.args, **wide.kwargs)


def differences(
    case: OpCase,
    sample: Sample,
    dtype: DType,
    got: Sequence[HostArray],
    want: Sequence[Any],
    tolerance: Tolerance,
) -> list[str]:
    """Where the values of all results differ from those wanted, in words."""
    kinds = [result_dtype(case, dtype, i) for i in range(len(got))]
    if case.canonical is not None:
        wide = sample.map(_widened)
        with np.errstate(all="ignore"):
            got, want = (
                [np.asarray(v) for v in case.canonical(_wide(r), *wide.args, **wide.kwargs)]
                for r in (got, want)
            )
        kinds = [(dtypes.complex_of if v.dtype.kind == "c" else dtypes.real_of)(dtype) for v in got]
    found = []
    for i, (mine, wanted, kind) in enumerate(zip(got, want, kinds, strict=True)):
        if message := compare.difference(mine, wanted, kind, tolerance):
            if sources := _sources(case, sample, dtype):
                message = compare.difference(mine, wanted, kind, tolerance, sources)
            found.append(f"result {i}: {message}" if len(got) > 1 else message)
    return found


def result_dtype(case: OpCase, dtype: DType, position: int) -> DType:
    """The dtype that result ``position`` must have for operands of ``dtype``."""
    text = case.result if isinstance(case.result, str) else case.result[position]
    if text == "same":
        return dtype
    if text == "sum":
        narrow = dtype.kind in "biu" and dtype is not dtypes.uint64
        return dtypes.int64 if narrow else dtype
    if text == "count":
        return dtype if dtype.is_floating else dtypes.int64
    if text == "real":
        return dtypes.real_of(dtype)
    if text == "complex":
        return dtypes.complex_of(dtype)
    return dtypes.ALL[text]


def _sources(case: OpCase, sample: Sample, dtype: DType) -> dict[str, HostArray]:
    """The operands of an elementwise operation by name, none of any other."""
    if case.canonical is not None or not _elementwise(case.name, dtype):
        return {}
    return {name: x.values for name, x in _named(case, sample).items()}


@functools.cache
def _elementwise(name: str, dtype: DType) -> bool:
    """Whether, in all samples, the result has the operands' common shape: a matmul of square
    matrices alone would look like it."""
    from fl_tensor.testing.cases import CASES

    case = CASES[name]
    if any(p.kind in _PLACES for p in calls.parameters(name)) or isinstance(case.result, tuple):
        return False
    for sample in case.draw(dtype):
        shapes = [x.shape for x in _named(case, sample).values()]
        try:
            if np.broadcast_shapes(*shapes) != np.shape(reference(case, sample)):
                return False
        except ValueError:
            return False
    return True


def _named(case: OpCase, sample: Sample) -> dict[str, Operand]:
    named = calls.given(case.name, sample.args, sample.kwargs)
    return {k: v for k, v in named.items() if isinstance(v, Operand)}


def _widened(x: Operand) -> HostArray:
    wide = {"f": np.float64, "c": np.complex128}.get(x.dtype.kind)
    return x.values if wide is None else x.values.astype(wide)


def _wide(results: Sequence[Any]) -> list[HostArray]:
    # In the precision of the reference, so that making them comparable adds no error.
    arrays = [np.asarray(r) for r in results]
    return [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays]
