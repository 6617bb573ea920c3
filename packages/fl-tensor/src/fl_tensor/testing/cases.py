"""The operation table: one row per public operation, from the files of ``families``."""

from __future__ import annotations

from fl_tensor import contract
from fl_tensor.errors import ArgumentError
from fl_tensor.testing.families import (
    binary,
    complex_parts,
    contractions,
    creation,
    derived_elementwise,
    derived_shape,
    extremes,
    fft,
    floats,
    indexing,
    linalg,
    nan,
    normalization,
    pooling,
    products,
    reductions,
    sampling,
    scan,
    search,
    sequence,
    shape,
    special,
    statistics,
    unary,
)
from fl_tensor.testing.opcase import OpCase

__all__ = ["CASES"]

FAMILIES = (
    creation,
    sampling,
    shape,
    derived_shape,
    indexing,
    unary,
    binary,
    complex_parts,
    derived_elementwise,
    special,
    reductions,
    scan,
    nan,
    statistics,
    contractions,
    normalization,
    pooling,
    products,
    sequence,
    search,
    extremes,
    floats,
    linalg,
    fft,
)


def _joined() -> dict[str, OpCase]:
    table: dict[str, OpCase] = {}
    for family in FAMILIES:
        for case in family.CASES:
            if case.name in table:
                raise ArgumentError(f"operation {case.name!r} has two rows in the operation table")
            table[case.name] = case
    return table


CASES: dict[str, OpCase] = _joined()


def problems() -> list[str]:
    """What keeps the table from being one row per public operation; empty when it is."""
    public = {op.name for op in contract.OPERATIONS}
    return [
        *(
            f"operation {name!r} has no row in the operation table"
            for name in sorted(public - CASES.keys())
        ),
        *(f"row {name!r} is no operation" for name in sorted(CASES.keys() - public)),
    ]
