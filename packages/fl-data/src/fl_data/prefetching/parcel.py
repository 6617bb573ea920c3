"""Serialisation for worker processes: a pickle, with tensor elements stored separately.

Between processes the pickle goes through a pipe, the elements through shared memory: no array is
serialised.
"""

from __future__ import annotations

import io
import pickle
from contextlib import suppress
from typing import Any, NamedTuple

import fl_tensor as ft
from fl_tensor.arrays.elements import FORMATS

_ALIGNMENT = 64
_SMALL = 1 << 14
"""Bytes below which a tensor is copied rather than borrowed: it would hold on to a whole slot."""

_CASTS = frozenset("?bhiqBHIQfd")
"""Formats that a memoryview can be cast to: no 16-bit floating point, no complex numbers."""


class Place(NamedTuple):
    """Where the elements of one tensor are, and what they are."""

    offset: int
    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    backend: str
    device: str


class Parcel(NamedTuple):
    """`pickled` stands for an object whose tensors have their elements at `places`."""

    pickled: bytes
    places: list[Place]
    nbytes: int


def pack(obj: object) -> tuple[Parcel, list[memoryview]]:
    """The parcel of `obj`, and the elements that belong at its places (see `write`).

    Raises what pickle raises for what it cannot carry.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, pickle.HIGHEST_PROTOCOL)
    pickler.dump(obj)
    places, elements, end = [], [], 0
    for x in pickler.tensors:
        data = x.tobytes()
        backend, device = x.backend.name, str(x.device)
        places.append(Place(end, data.nbytes, x.shape, x.dtype.name, backend, device))
        elements.append(data)
        end += -(-data.nbytes // _ALIGNMENT) * _ALIGNMENT
    return Parcel(file.getvalue(), places, end), elements


def write(parcel: Parcel, elements: list[memoryview], memory: memoryview) -> None:
    for place, data in zip(parcel.places, elements, strict=True):
        memory[place.offset : place.offset + place.nbytes] = data


def unpack(parcel: Parcel, memory: memoryview, borrow: bool) -> Any:
    """The object of `parcel`. With `borrow`, its larger tensors show `memory` instead of a copy,
    where the backend can: nobody may write there as long as they live."""
    unpickler = _Unpickler(io.BytesIO(parcel.pickled))
    unpickler.tensors = [_tensor(place, memory, borrow) for place in parcel.places]
    return unpickler.load()


def _tensor(place: Place, memory: memoryview, borrow: bool) -> ft.Tensor:
    data = memory[place.offset : place.offset + place.nbytes]
    backend = ft.get_backend(place.backend)
    code = FORMATS.get(place.dtype, "")
    if borrow and place.nbytes >= _SMALL and code in _CASTS:
        shown = data.cast(code, place.shape)  # type: ignore[call-overload]
        with suppress(ft.ArgumentError):  # this backend keeps its elements elsewhere
            return ft.asarray(shown, None, place.device, backend, copy=False)
    return ft.frombytes(data, place.shape, place.dtype, place.device, backend)


class _Pickler(pickle.Pickler):
    def __init__(self, *settings: Any) -> None:
        super().__init__(*settings)
        self.tensors: list[ft.Tensor] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if type(obj) is not ft.Tensor:
            return None
        number = self._numbers.setdefault(id(obj), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(obj)
        return number


class _Unpickler(pickle.Unpickler):
    tensors: list[ft.Tensor]

    def persistent_load(self, number: int) -> ft.Tensor:
        return self.tensors[number]
