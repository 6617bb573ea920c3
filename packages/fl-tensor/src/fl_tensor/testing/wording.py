"""Failure messages of the kit: the call, its result, and the place of an exception."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

import fl_tensor
from fl_tensor.dispatch import calls
from fl_tensor.dtypes import DType
from fl_tensor.testing.hostdata import HostArray
from fl_tensor.testing.opcase import DEVICE, Operand, Sample

__all__ = ["call", "fail", "raised", "summary"]

#: Operands of more elements are shown without them.
MOST_ELEMENTS = 12
#: Of the samples that fail in one test, this many are shown.
MOST_CALLS = 2
#: Of the way of an error through the backend, this many lines.
MOST_FRAMES = 3

_HERE = Path(fl_tensor.__file__).parent


def call(name: str, sample: Sample) -> str:
    """``sum(float32(2, 3), axis=(1,), keepdims=True)``: what is no array, by its name."""
    parts = []
    for label, value in calls.given(name, sample.args, sample.kwargs).items():
        shown = _show(value)
        parts.append(shown if _arrays(value) else f"{label}={shown}")
    return f"{name}({', '.join(parts)})"


def raised(error: Exception) -> str:
    """The error in a line, and below it the way that it took through the backend's own code."""
    text = str(error).strip().splitlines()
    lines = [f"raises {type(error).__name__}" + (f": {text[0]}" if text else "")]
    frames = traceback.extract_tb(error.__traceback__)
    outside = [f for f in frames if _HERE not in Path(f.filename).parents]
    folder = Path((outside or frames[-1:])[0].filename).parent
    own = [f for f in frames if folder in Path(f.filename).parents]
    shown = own if len(own) <= MOST_FRAMES else [*own[: MOST_FRAMES - 1], own[-1]]
    lines += [f"  {_path(f.filename)}:{f.lineno} in {f.name}: {f.line}" for f in shown]
    return "\n    ".join(lines)


def fail(text: str) -> NoReturn:
    """End the test with ``text`` alone. (This frame is in sight, or pytest would remark that the
    kit hides its own.)"""
    pytest.fail(text, pytrace=False)


def summary(problems: Mapping[str, Sequence[str]]) -> str:
    """The calls that went wrong, each with what is wrong below it."""
    lines = []
    for text, found in list(problems.items())[:MOST_CALLS]:
        lines += [text, *(f"    {line}" for line in found)]
    if (more := len(problems) - MOST_CALLS) > 0:
        lines.append(f"and {more} more {'calls' if more > 1 else 'call'}")
    return "\n".join(lines)


def _arrays(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and any(isinstance(v, Operand) for v in value)
    return several or isinstance(value, Operand)


def _show(value: Any) -> str:
    if isinstance(value, Operand):
        layout = "" if value.layout == "contiguous" else f" {value.layout}"
        values = f" {_nested(value.values)}" if value.values.size <= MOST_ELEMENTS else ""
        return f"{value.dtype}{value.shape}{layout}{values}"
    if _arrays(value):
        return "[" + ", ".join(map(_show, value)) + "]"
    if value is DEVICE:
        return "the first"
    return str(value) if isinstance(value, DType) else repr(value)


def _nested(values: HostArray) -> str:
    # Each number as short as its dtype allows; tolist() would show float32 as float64.
    if values.ndim == 0:
        return str(values[()])
    return "[" + ", ".join(map(_nested, values)) + "]"


def _path(name: str) -> str:
    path, here = Path(name), Path.cwd()
    return str(path.relative_to(here) if here in path.parents else path)
