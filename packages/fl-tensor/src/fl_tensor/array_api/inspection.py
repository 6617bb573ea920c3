"""``__array_namespace_info__``: what the current backend can do."""

from __future__ import annotations

import fl_tensor as ft
from fl_tensor import dtypes
from fl_tensor.array_api.data_types import isdtype
from fl_tensor.device import Device
from fl_tensor.dtypes import DType

# Others, such as float16, exist, but the standard does not name them.
_STANDARD = [d for d in dtypes.ALL.values() if d not in (dtypes.float16, dtypes.bfloat16)]


class Info:
    """Answers for the backend that creates tensors in this context."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """Whether shapes may depend on data, and the largest number of axes."""
        eager = ft.current_backend().has_values
        return {
            "boolean indexing": eager,
            "data-dependent shapes": eager,
            "max dimensions": ft.current_backend().max_ndim,
        }

    def default_device(self) -> Device:
        """Where tensors are made."""
        return ft.current_backend().devices()[0]

    def devices(self) -> tuple[Device, ...]:
        """All devices of the backend."""
        return tuple(ft.current_backend().devices())

    def default_dtypes(self, *, device: Device | None = None) -> dict[str, DType]:
        """Dtypes of Python floats, complex numbers and ints, and of indices."""
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.of_number(complex),
            "integral": dtypes.DEFAULT_INT,
            "indexing": dtypes.DEFAULT_INT,
        }

    def dtypes(
        self, *, device: Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes that the backend has, of a kind or of several."""
        have = ft.current_backend().dtypes
        return {d.name: d for d in _STANDARD if d in have and (kind is None or isdtype(d, kind))}


def __array_namespace_info__() -> Info:
    """What the current backend can do."""
    return Info()
