"""The type of a sample, and checks of samples, indices and counts."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, cast

import fl_tensor as ft
from fl_data.errors import DataError, SampleIndexError, SampleTypeError
from fl_tensor.annotations import explained

Sample: TypeAlias = "tuple[Any, ...] | dict[str, Any]"
"""One sample: a tuple or a dict of tensors (a Python number counts as a 0-d tensor)."""


def as_sample(value: object, where: str) -> Sample:
    """`value` if it is a sample (tuple or dict); raises `SampleTypeError` otherwise."""
    if not isinstance(value, tuple | dict):
        raise SampleTypeError(
            f"[{where}] a sample is a tuple or a dict of tensors, got {type(value).__name__}: "
            "return (x,) for a single tensor"
        )
    return value


def as_tensor(value: Any, field: int | str, where: str) -> Any:
    """An array of another library (NumPy's and its scalars, a column of pandas, PyTorch's) as a
    tensor, copied; anything else as it is. Raises `SampleTypeError` for one without numbers."""
    if isinstance(value, (ft.Array, bool, int, float, str, bytes)):
        return value  # some scalars of NumPy are numbers and texts of Python, too
    if not hasattr(value, "__array__"):
        return value
    try:
        return ft.asarray(value)
    except ft.DTypeError as error:
        raise SampleTypeError(f"[{where}] field {field!r}: {error}") from error


def check_index(index: int, length: int, where: str) -> int:
    """`index` as a number in `0 .. length - 1`; negative numbers count from the end.

    Raises `SampleIndexError` when it is outside, `SampleTypeError` when it is no integer.
    """
    if type(index) is int and 0 <= index < length:  # nearly always, in every dataset of a chain
        return index
    try:
        number = operator.index(index)
    except TypeError:
        raise SampleTypeError(
            f"[{where}] a sample index is an integer, got {type(index).__name__}: "
            "use Subset or Span to take several samples"
        ) from None
    if not -length <= number < length:
        extent = f"{-length} .. {length - 1}" if length else "none, the dataset is empty"
        raise SampleIndexError(
            f"[{where}] index {number} is out of range for {length} samples: valid are {extent}"
        )
    return number + length if number < 0 else number


@explained
def check_indices(indices: Iterable[int], length: int, where: str) -> Sequence[int]:
    """`indices`, each one checked by `check_index`; a `range` inside the bounds stays a range, and
    an `array` of integers an array."""
    if isinstance(indices, array) and indices.typecode == "q":
        if not indices or (min(indices) >= 0 and max(indices) < length):
            return indices
    if isinstance(indices, range):
        ends = (*indices[:1], *indices[-1:])
        if all(0 <= end < length for end in ends):
            return indices
    numbers = list(indices)
    # The usual case is plain and valid; datasets over datasets would check one by one many times.
    if set(map(type, numbers)) == {int} and min(numbers) >= 0 and max(numbers) < length:
        return numbers
    return [check_index(number, length, where) for number in numbers]


def check_count(value: object, name: str, where: str, least: int = 0) -> int:
    """`value` as an integer of at least `least`; raises `SampleTypeError` or `DataError`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise SampleTypeError(f"[{where}] {name} is an integer, got {value!r}")
    number = operator.index(cast(int, value))
    if number < least:
        raise DataError(f"[{where}] {name} must be at least {least}, got {number}")
    return number
