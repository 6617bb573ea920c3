"""`BoxTable`: the boxes of a whole data set in a few arrays."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

import fl_tensor as ft


class BoxTable:
    """Boxes of images, which may be added in any order; 80 bytes for each.

    `row` is the number of the image. A box is left, top, right, bottom in pixels. `start` and
    `stop` are where a source has the object: bytes of a file, or a line.
    """

    def __init__(self) -> None:
        self._rows, self._labels = array("q"), array("q")
        self._boxes, self._areas = array("d"), array("d")
        self._flags = bytearray()
        self._places = array("q")
        self._order: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self,
        row: int,
        box: tuple[float, float, float, float],
        label: int,
        area: float,
        flag: bool = False,
        place: tuple[int, int] = (0, 0),
    ) -> None:
        self._rows.append(row)
        self._boxes.extend(box)
        self._labels.append(label)
        self._areas.append(area)
        self._flags.append(flag)
        self._places.extend(place)
        self._order = None

    def of(self, row: int) -> NDArray[np.intp]:
        """The numbers of the boxes of image `row`, in the order in which they were added."""
        if self._order is None:
            rows = np.frombuffer(self._rows, np.int64)
            order = np.argsort(rows, kind="stable")
            self._order = (order, np.cumsum(np.bincount(rows)) if len(rows) else order)
        order, ends = self._order
        if row >= len(ends):
            return order[:0]
        return order[ends[row - 1] if row else 0 : ends[row]]

    def boxes(self, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """(n, 4)."""
        return np.frombuffer(self._boxes, np.float64).reshape(-1, 4)[numbers]

    def areas(self, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        return np.frombuffer(self._areas, np.float64)[numbers]

    def labels(self, numbers: NDArray[np.intp] | None = None) -> NDArray[np.int64]:
        labels = np.frombuffer(self._labels, np.int64)
        return labels if numbers is None else labels[numbers]

    def flags(self, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether a box is a crowd, or in VOC a difficult object."""
        return np.frombuffer(self._flags, np.bool_)[numbers]

    def places(self, numbers: NDArray[np.intp]) -> list[tuple[int, int]]:
        found = np.frombuffer(self._places, np.int64).reshape(-1, 2)[numbers]
        return [(start, stop) for start, stop in found.tolist()]


def tensor_of(values: NDArray[np.generic], dtype: ft.DType) -> ft.Tensor:
    """Numbers of a table as a tensor of the default backend."""
    content = np.ascontiguousarray(values, dtype.name)
    return ft.frombytes(content.tobytes(), content.shape, dtype)
