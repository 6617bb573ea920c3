"""The first samples of a dataset as a table, for notebooks."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

import fl_tensor as ft
from fl_data.samples import Sample
from fl_tensor.html import table

__all__ = ["FIRST", "sample_table"]

#: How many samples are shown.
FIRST = 3


def sample_table(name: str, length: int, samples: Sequence[Sample]) -> str:
    """HTML: the class and length of a dataset, its fields, and the first samples. Of an array the
    dtype and shape are shown; the value where it has no axes."""
    plural = "" if length == 1 else "s"
    caption = f"{name}: {length:,} sample{plural}"
    fields = [_fields(sample) for sample in samples]
    names = list(dict.fromkeys(field for each in fields for field in each))
    rows = [
        [str(i), *(_text(each[field]) if field in each else "" for field in names)]
        for i, each in enumerate(fields)
    ]
    return table(caption, ["", *map(str, names)] if rows else (), rows)


def _fields(sample: Any) -> dict[Any, Any]:
    return sample if isinstance(sample, dict) else dict(enumerate(sample))


def _text(value: Any) -> str:
    if not isinstance(value, ft.Array):
        return reprlib.repr(value)
    return str(value) if value.ndim == 0 else f"{value.dtype} {value.shape}"
