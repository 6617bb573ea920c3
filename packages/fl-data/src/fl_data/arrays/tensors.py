"""A dataset over tensors that hold all samples along their first axis."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_data.dataset import Dataset
from fl_data.errors import DataError, SampleTypeError
from fl_data.samples import Sample, as_tensor, check_index, check_indices
from fl_tensor.extend import apply_operation


class TensorDataset(Dataset):
    """Sample `i` is row `i` of every tensor: `TensorDataset(images, labels)[i]` is a pair.

    `tensors` have shape `(n, ...)` with one `n`; named tensors (`TensorDataset(x=..., y=...)`) give
    dicts. Arrays of NumPy and columns of pandas are copied. A batch is one gather (one slice where
    its samples are neighbours), never a stack.
    Raises `DataError` when the tensors disagree about `n` or are 0-d.
    """

    def __init__(self, *tensors: Any, **named: Any) -> None:
        if bool(tensors) == bool(named):
            raise DataError(
                "[TensorDataset] give tensors or named tensors, at least one and not both kinds"
            )
        self._names = tuple(named) if named else None
        fields = self._names or range(len(tensors))
        given = tuple(named.values()) or tensors
        self._tensors = tuple(map(as_tensor, given, fields, ["TensorDataset"] * len(given)))
        for field, value in zip(fields, self._tensors, strict=True):
            if not isinstance(value, ft.Array):
                way = "convert it with ft.asarray"
                if isinstance(value, (list, tuple)) and any(hasattr(x, "shape") for x in value):
                    way = "tensors are given one by one, TensorDataset(x, y) or TensorDataset(*xs)"
                raise SampleTypeError(
                    f"[TensorDataset] field {field!r} is a {type(value).__name__}, not a tensor: "
                    + way
                )
            if value.ndim == 0:
                raise DataError(f"[TensorDataset] field {field!r} is 0-d: it has no samples")
        lengths = [value.shape[0] for value in self._tensors]
        if len(set(lengths)) != 1:
            shapes = ", ".join(str(value.shape) for value in self._tensors)
            raise DataError(
                f"[TensorDataset] tensors {shapes} hold {lengths} samples along their first axis: "
                "the numbers must be equal"
            )
        self._length: int = lengths[0]

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The tensors, each `(n, ...)`."""
        return self._tensors

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Sample:
        number = check_index(index, self._length, "TensorDataset")
        return self._sample([value[number] for value in self._tensors])

    def __getitems__(self, indices: Sequence[int]) -> Sample:
        rows = check_indices(indices, self._length, "TensorDataset")
        if isinstance(rows, range) and rows.step == 1:
            return self._sample([value[rows.start : rows.stop] for value in self._tensors])
        numbers = array("q", rows)  # a buffer: a list would be read element by element
        index: dict[Any, Any] = {}  # tensors that live together share one
        for value in self._tensors:
            place = (value.backend, value.device)
            if place not in index:
                index[place] = index_for(numbers, value)
        return self._sample(
            [_rows(value, index[value.backend, value.device]) for value in self._tensors]
        )

    def _sample(self, values: list[Any]) -> Sample:
        if self._names is not None:
            return dict(zip(self._names, values, strict=True))
        return tuple(values)

    def __repr__(self) -> str:
        fields = [f"{value.shape} {value.dtype}" for value in self._tensors]
        if self._names is not None:
            fields = [f"{name}={text}" for name, text in zip(self._names, fields, strict=True)]
        return f"TensorDataset({', '.join(fields)})"


def _rows(value: Any, index: Any) -> Any:
    # ``ft.gather`` looks for indices that are out of range: here none is, however many columns.
    return apply_operation("gather", "AA", lambda ops, x, i: ops.gather(x, i, 0), value, index)


def index_for(numbers: array[int], value: Any) -> Any:
    """`numbers` as an int64 tensor on the backend and device of `value`."""
    return ft.asarray(numbers, ft.int64, value.device, value.backend)
