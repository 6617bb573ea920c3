"""The elements of an array as text, by NumPy's own formatter."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

#: NumPy's options that ours do not name.
_OTHERS = {"legacy": False}


def text(array: np.ndarray[Any, Any], options: Mapping[str, Any]) -> str:
    """As ``print`` shows an array: ``[1. 2.]``."""
    with np.printoptions(**options, **_OTHERS):
        return np.array_str(array)


def literal(array: np.ndarray[Any, Any], options: Mapping[str, Any], prefix: str) -> str:
    """As ``repr`` shows an array that stands after ``prefix``: ``[1., 2.]``."""
    with np.printoptions(**options, **_OTHERS):
        return np.array2string(array, separator=", ", prefix=prefix)


def cells(array: np.ndarray[Any, Any], options: Mapping[str, Any]) -> list[list[str]]:
    """The rows of an array with one or two axes, element by element, in a common format; ``...``
    for what a summary leaves out."""
    with np.printoptions(**{**options, **_OTHERS, "linewidth": sys.maxsize}):
        lines = np.array2string(array, separator="\t").splitlines()
    return [[cell.strip() for cell in line.strip("[] \t").split("\t")] for line in lines]
