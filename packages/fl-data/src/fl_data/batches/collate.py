"""Collation: stacking samples along a new first axis, with or without padding."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import fl_tensor as ft
from fl_data.errors import DataError, SampleTypeError
from fl_data.samples import Sample, as_sample, as_tensor
from fl_memory.tags import BATCH, tagged
from fl_tensor.annotations import checked, explained

_NUMBERS = {bool, int, float}

Collate: TypeAlias = Callable[[Sequence[Sample]], Sample]


@explained
def collate(samples: Sequence[Sample]) -> Sample:
    """Stack every field of `samples` along a new first axis: `n` times `(3, 8)` gives `(n, 3, 8)`.

    All samples have the same fields, and a field has one shape and one dtype in all of them;
    Python numbers count as 0-d tensors, lists of numbers and arrays of NumPy as tensors. A field of
    numbers, lists or arrays becomes a tensor in one pass, and none for each sample. Gives a tuple
    for tuples and a dict for dicts.
    Raises `DataError` naming the field and the two samples that disagree.
    """
    return _by_field(samples, _stack)


@checked
def pad_collate(fill: float | Mapping[Any, float] = 0.0, lengths: bool = False) -> Collate:
    """A collate function for samples of unequal size: pads at the end of each axis, then stacks.

    A field is padded to its largest extent in the batch, with `fill` (one number, or one per field:
    `{0: 0.0, 1: -100}`; fields not named get 0). With `lengths`, every padded field `f` is followed
    by how long each sample was along its first axis: int64 `(n,)`, after all fields of a tuple in
    their order, or under `f"{f}_lengths"` in a dict; 0-d fields have no length.

    For `fl_nn.Trainer` the last field is the target. Of samples (x, y) with lengths of x alone,
    `Transform(batches, lambda batch: (batch[0], batch[2], batch[1]))` gives (x, lengths, y).
    """

    return _PadAndStack(fill, lengths)


@checked
def field_collate(functions: Mapping[Any, Callable[[list[Any]], Any]]) -> Collate:
    """A collate function with a function for each field: `{0: join, "words": list}`.

    A function takes the values of its field, one for each sample, and gives that field of the
    batch. Fields that are not named are stacked as by `collate`. Raises `DataError` for a function
    of a field that samples do not have.
    """
    for name, function in functions.items():
        if not callable(function):
            raise SampleTypeError(f"[field_collate] {function!r} of field {name!r} is not callable")
    return _ByField(dict(functions))


@dataclass(frozen=True)
class _ByField:
    """What `field_collate` returns."""

    functions: Mapping[Any, Callable[[list[Any]], Any]]

    def __call__(self, samples: Sequence[Sample]) -> Sample:
        if samples and (unknown := [f for f in self.functions if f not in _fields(samples[0])]):
            raise DataError(
                f"[field_collate] there are functions for the fields {unknown}, and samples have "
                f"{_fields(samples[0])}"
            )
        return _by_field(samples, self._field)

    def _field(self, field: int | str, values: list[Any]) -> Any:
        function = self.functions.get(field)
        return _stack(field, values) if function is None else function(values)


@dataclass(frozen=True)
class _PadAndStack:
    """What `pad_collate` returns: not a closure, as a worker process gets it pickled."""

    fill: float | Mapping[Any, float]
    lengths: bool

    def __call__(self, samples: Sequence[Sample]) -> Sample:
        batch = _by_field(samples, self._field)
        if not self.lengths:
            return batch
        sizes = _by_field(samples, _first_extents)
        if isinstance(batch, dict):
            assert isinstance(sizes, dict)
            named = {f"{name}_lengths": n for name, n in sizes.items() if n is not None}
            return {**batch, **named}
        return batch + tuple(n for n in sizes if n is not None)

    def _field(self, field: int | str, values: list[Any]) -> Any:
        values = [_tensor(field, value) for value in values]
        ranks = {value.ndim for value in values}
        if len(ranks) != 1:
            raise DataError(
                f"[pad_collate] field {field!r} has samples with {sorted(ranks)} axes: "
                "padding needs the same number of axes in each"
            )
        fill = self.fill.get(field, 0.0) if isinstance(self.fill, Mapping) else self.fill
        return _stack(field, _padded(values, fill))


@explained
def join(tensors: Sequence[Any], fill: float = 0.0, axis: int = 0) -> Any:
    """`tensors` of one rank and dtype, padded with `fill` at the end of each axis to the largest,
    stacked along a new `axis`: `(2, 3)` and `(4, 1)` give `(2, 4, 3)`. None give `(0,)`, float32.

    Raises `DataError` where ranks or dtypes differ.
    """
    if not tensors:
        return ft.zeros((0,))
    kinds = sorted({f"{x.ndim} axes of {x.dtype}" for x in tensors})
    if len(kinds) > 1:
        raise DataError(f"[join] {', '.join(kinds)}: padding needs as many axes, and one dtype")
    with tagged(BATCH):
        return ft.stack(_padded(tensors, fill), axis=axis)


def _padded(tensors: Sequence[Any], fill: float) -> list[Any]:
    target = tuple(max(extents) for extents in zip(*(x.shape for x in tensors), strict=True))
    return [pad_to(x, target, fill) for x in tensors]


@explained
def pad_to(x: ft.Array, shape: Sequence[int], fill: float = 0.0) -> Any:
    """`x` with `fill` appended along each axis until its shape is `shape` (never cuts)."""
    if tuple(shape) == x.shape:
        return x
    if len(shape) != x.ndim or any(want < has for want, has in zip(shape, x.shape, strict=True)):
        raise DataError(f"[pad_to] {x.shape} cannot be padded to {tuple(shape)}")
    widths = [(0, want - has) for want, has in zip(shape, x.shape, strict=True)]
    return ft.pad(x, widths, value=fill)


def empty_batch(batch: Sample) -> Sample:
    """A batch of no samples, with the fields, dtypes and trailing shapes of `batch`."""
    if isinstance(batch, dict):
        return {name: value[:0] for name, value in batch.items()}
    return tuple(value[:0] for value in batch)


def _by_field(samples: Sequence[Sample], stack: Callable[[int | str, list[Any]], Any]) -> Sample:
    """Apply `stack(field, values)` to each field; checks that all samples have the same fields."""
    if len(samples) == 0:
        raise DataError("[collate] no samples: a batch needs at least one")
    first, kinds = samples[0], set(map(type, samples))
    if kinds == {dict}:
        if all(x.keys() == first.keys() for x in samples):  # type: ignore[union-attr]
            rows: Sequence[Any] = samples
            return {name: stack(name, [row[name] for row in rows]) for name in rows[0]}
    elif kinds == {tuple} and len(set(map(len, samples))) == 1:
        return tuple(stack(field, list(values)) for field, values in enumerate(zip(*samples)))
    return _by_field(_alike(samples), stack)


def _alike(samples: Sequence[Sample]) -> Sequence[Sample]:
    # Tuples or dicts with the same fields, which may be of subclasses.
    first = as_sample(samples[0], "collate")
    for number, sample in enumerate(samples):
        as_sample(sample, "collate")
        if _fields(sample) != _fields(first) or isinstance(sample, dict) != isinstance(first, dict):
            raise DataError(
                f"[collate] sample 0 of the batch has the fields {_fields(first)} and sample "
                f"{number} has {_fields(sample)}: all samples need the same fields"
            )
    plain = dict if isinstance(first, dict) else tuple
    return [plain(sample) for sample in samples]


def _fields(sample: Sample) -> list[Any]:
    return sorted(sample) if isinstance(sample, dict) else list(range(len(sample)))


def _tensor(field: int | str, value: Any) -> Any:
    value = as_tensor(value, field, "collate")
    if isinstance(value, ft.Array):
        return value
    if isinstance(value, bool | int | float | list | array):
        with suppress(ft.FlError):
            return ft.asarray(value)
    raise SampleTypeError(
        f"[collate] field {field!r} holds a {type(value).__name__}: fields are tensors, arrays or "
        "numbers; convert it with ft.asarray, or pass your own collate function"
    )


def _stack(field: int | str, values: list[Any]) -> Any:
    kinds = set(map(type, values))
    with tagged(BATCH):
        if len(kinds) == 1 and (kinds <= _NUMBERS or _same_dtype(values)):
            with suppress(ft.FlError):  # it does not tell the field and the sample
                is_array = isinstance(values[0], ft.Array)
                return ft.stack(values) if is_array else ft.asarray(values)
        values = [_tensor(field, value) for value in values]
        first = values[0]
        for number, value in enumerate(values):
            if value.shape != first.shape or value.dtype != first.dtype:
                raise DataError(
                    f"[collate] field {field!r}: sample 0 of the batch is {first.shape} "
                    f"{first.dtype} and sample {number} is {value.shape} {value.dtype}: make them "
                    "equal with Transform, or use Batch(..., collate=pad_collate())"
                )
        return ft.stack(values, axis=0)


def _same_dtype(values: list[Any]) -> bool:
    # Of arrays; what is no array states none.
    return len({getattr(value, "dtype", None) for value in values}) == 1


def _first_extents(field: int | str, values: list[Any]) -> Any:
    tensors = [_tensor(field, value) for value in values]
    if tensors[0].ndim == 0:
        return None
    return ft.asarray([x.shape[0] for x in tensors], dtype=ft.int64)
