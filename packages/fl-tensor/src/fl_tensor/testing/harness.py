"""The harness between the operation table and a backend.

It transfers operands through ``from_host`` and results through ``to_host``, and checks each call
against the contract.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from fl_memory.testing.kit import hide
from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.dispatch import calls, preconditions
from fl_tensor.dtypes import DType
from fl_tensor.errors import BackendError
from fl_tensor.testing import compare
from fl_tensor.testing.expectations import differences, reference, result_dtype
from fl_tensor.testing.hostdata import HostArray, decode, encode
from fl_tensor.testing.opcase import DEVICE, OpCase, Operand, Sample

__all__ = ["Harness"]

__tracebackhide__ = hide


class Harness:
    """One backend under test, on its first device."""

    def __init__(
        self, backend: TensorBackend, debugging: bool = False, quick: bool = False
    ) -> None:
        self.backend = backend
        #: Whether one sample of each kind is enough.
        self.quick = quick
        #: Whether errors of the backend go through to pytest, so that a debugger stops there.
        self.debugging = debugging
        self.device = backend.devices()[0]

    # ---- data in and out ---------------------------------------------------------------------

    def put(self, x: Operand) -> Any:
        """The operand as an adapter, laid out as it asks."""
        if x.layout == "contiguous":
            return self._upload(x.values, x.dtype)
        rank = len(x.shape)
        if x.layout == "permuted":
            swapped = self._upload(np.transpose(x.values), x.dtype)
            return self.backend.permute(swapped, tuple(reversed(range(rank))))
        if x.layout == "reversed":
            flipped = self._upload(np.flip(x.values), x.dtype)
            starts = tuple(max(n - 1, 0) for n in x.shape)
            return self.backend.slice(flipped, starts, x.shape, (-1,) * rank)
        # stepped: every second element of a larger array whose other elements are something else
        large = np.ones([2 * n + 1 for n in x.shape], x.values.dtype)
        large[(slice(1, None, 2),) * rank] = x.values
        wide = self._upload(large, x.dtype)
        return self.backend.slice(wide, (1,) * rank, x.shape, (2,) * rank)

    def _upload(self, values: HostArray, dtype: DType) -> Any:
        data = memoryview(encode(values, dtype))
        return self.backend.from_host(data, tuple(values.shape), dtype, self.device)

    def get(self, x: Any) -> HostArray:
        """The values of an adapter."""
        return decode(self.backend.to_host(x), tuple(x.shape), x.dtype)

    def supports(self, sample: Sample) -> bool:
        """Whether the backend's contract specifies the sample, and every operand has a dtype that
        the backend claims."""
        if tuple(type(self.backend).CONTRACT) < sample.since:
            return False
        return all(x.dtype in self.backend.dtypes for x in sample.operands())

    def draw(self, case: OpCase, dtype: DType, label: str | None = None) -> list[Sample]:
        """The samples of ``case`` that the backend can take, of which a quick run tries one."""
        found = list(filter(self.supports, case.draw(dtype, label)))
        return found[:1] if self.quick else found

    # ---- one call ----------------------------------------------------------------------------

    def run(self, name: str, sample: Sample) -> tuple[Sample, Any]:
        """The sample with adapters in it, and what the operation makes of it. A RuntimeWarning is
        raised: NaN and infinities are specified results, not news for users."""
        placed = self.placed(sample)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            return placed, getattr(self.backend, name)(*placed.args, **placed.kwargs)

    def placed(self, sample: Sample) -> Sample:
        laid = sample.map(self.put)
        args = tuple(self.device if a is DEVICE else a for a in laid.args)
        return Sample(sample.label, args, laid.kwargs)

    def check(self, case: OpCase, sample: Sample, dtype: DType) -> list[str]:
        """Everything that is wrong with ``case.name`` on ``sample``, in words."""
        placed, result = self.run(case.name, sample)
        wanted = _list(reference(case, sample))
        if isinstance(result, memoryview):
            return self._check_bytes(result, sample.operands()[0], case)
        results = _list(result)
        if len(results) != len(wanted):
            return [f"gives {len(results)} results, expected {len(wanted)}"]
        found = self._check_rule(case, placed, results)
        misfits = []
        for i, (got, want) in enumerate(zip(results, wanted, strict=True)):
            which = f"result {i}: " if len(results) > 1 else ""
            expects = result_dtype(case, dtype, i)
            misfits += [which + p for p in self._check_form(got, want, expects)]
        found += misfits
        if self.backend.has_values:
            if not misfits:
                values = [self.get(r) for r in results]
                found += differences(case, sample, dtype, values, wanted, case.tolerance)
            found += self._check_operands(sample, placed)
        return found

    def _check_form(self, got: Any, want: Any, dtype: DType) -> list[str]:
        if not isinstance(got, TensorAdapter):
            return [f"is a {type(got).__name__}, expected a TensorAdapter"]
        shape, found = tuple(np.shape(want)), []
        if not isinstance(got.shape, tuple) or got.shape != shape:
            found.append(f"shape is {got.shape}, expected {shape}")
        if got.dtype is not dtype:
            found.append(f"dtype is {got.dtype}, expected {dtype}")
        if got.device != self.device:
            found.append(f"device is {got.device}, expected {self.device}")
        return found

    def _check_bytes(self, data: memoryview, x: Operand, case: OpCase) -> list[str]:
        if data.format != "B" or data.ndim != 1 or not data.readonly or not data.c_contiguous:
            return [
                f"gives a memoryview with format {data.format!r}, {data.ndim} axes, readonly "
                f"{data.readonly}; expected format 'B', one axis, read-only"
            ]
        try:
            got = decode(data, x.shape, x.dtype)
        except ValueError as error:
            return [str(error)]
        message = compare.difference(got, x.values, x.dtype, case.tolerance)
        return [message] if message else []

    def _check_rule(self, case: OpCase, placed: Sample, results: Sequence[Any]) -> list[str]:
        """The shape and dtype rule (the shapes-only backend) must say the same."""
        try:
            ruled = _list(preconditions.rule(case.name, placed.args, placed.kwargs))
        except BackendError:
            return []  # the shape depends on data
        shapes = [(tuple(r.shape), str(r.dtype)) for r in ruled]
        got = [(tuple(r.shape), str(r.dtype)) for r in results if hasattr(r, "shape")]
        return [] if got == shapes else [f"gives {got}, the shape rule says {shapes}"]

    def _check_operands(self, sample: Sample, placed: Sample) -> list[str]:
        found = []
        given = calls.adapters([*placed.args, *placed.kwargs.values()])
        for before, after in zip(sample.operands(), given, strict=True):
            if bytes(self.backend.to_host(after)) != encode(before.values, before.dtype):
                found.append(f"operand {before.dtype}{before.shape} was changed by the call")
        return found


def _list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]
