"""Where we differ from NumPy on purpose. Whatever else differs is a fault of ours.

An entry says what is expected instead of NumPy's outcome, as exactly as it can: most run NumPy again
on operands of the dtypes that we promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzing import step as steps
from fuzzing.step import Outcome, Step

Values = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """``expect(step, values, wanted)`` gives the outcome that we promise where NumPy's is
    ``wanted``, or None if the entry has nothing to say about the step."""

    name: str
    reason: str
    expect: Callable[[Step, Values, Outcome], Outcome | None]


TYPE_ERROR = Outcome(error=TypeError())
INDEX_ERROR = Outcome(error=IndexError())


def _promoted(step: Step, values: Values) -> np.dtype[Any] | None:
    """The dtype that we promise for operands; None where no integer holds both."""
    found = [a.dtype for a in step.arrays(values)]
    scalars = step.scalars()
    floats = [d for d in found if d.kind in "fc"]
    integers = [d for d in found if d.kind in "iu"]
    if floats:
        common = np.result_type(*floats)
    elif integers:
        common = np.result_type(*integers)
        if common.kind == "f":
            return None
    else:
        common = np.dtype(bool)
    for kind, default in ((int, np.int64), (float, np.float32)):
        holds = "iufc" if kind is int else "fc"
        if common.kind not in holds and any(type(s) is kind for s in scalars):
            common = np.dtype(default)
    return np.dtype(np.float32) if step.role == "F" and common.kind not in "fc" else common


def _again(step: Step, values: Values, common: Any) -> Outcome:
    cast = {o: values[o].astype(common) for o in step.operands if isinstance(o, str)}
    return steps.theirs(step.theirs, {**values, **cast})


def _promotion(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    common = _promoted(step, values) if step.role else None
    return None if common is None else _again(step, values, common)


def _integers_give_way(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    kinds = {a.dtype.kind for a in step.arrays(values)}
    return _promotion(step, values, wanted) if "f" in kinds and kinds & set("iu") else None


def _default_float(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if any(a.dtype.kind in "fc" for a in step.arrays(values)):
        return None
    return _promotion(step, values, wanted)


def _no_common_integer(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    return TYPE_ERROR if step.role and _promoted(step, values) is None else None


def _no_bool_arithmetic(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if step.role != "N" or _promoted(step, values) != np.dtype(bool):
        return None
    return TYPE_ERROR


def _integer_does_not_fit(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    common = _promoted(step, values) if step.role else None
    if common is None or common.kind not in "iu":
        return None
    info = np.iinfo(common)
    fits = all(info.min <= s <= info.max for s in step.scalars() if isinstance(s, int))
    return None if fits else TYPE_ERROR


def _integer_sums(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if not isinstance(wanted.value, np.ndarray) or wanted.value.dtype != np.uint64:
        return None
    unsigned = [a.dtype for a in step.arrays(values)] != [np.dtype(np.uint64)]
    summed = any(n in step.line for n in ("sum(", "prod("))
    return Outcome(wanted.value.astype(np.int64)) if unsigned and summed else None


TABLE = [
    Difference(
        "an integer beside a float takes the float's dtype",
        "int32 + float32 is float32: NumPy's float64 would be a surprise in a model",
        _integers_give_way,
    ),
    Difference(
        "the default float is float32",
        "for Python floats beside integers, and for functions of floats on integers",
        _default_float,
    ),
    Difference(
        "uint64 beside a signed integer is an error",
        "no integer dtype holds both, and a float loses digits",
        _no_common_integer,
    ),
    Difference(
        "bools are no numbers",
        "arithmetic on bools alone is refused: a logical operation or astype says what is meant",
        _no_bool_arithmetic,
    ),
    Difference(
        "a Python integer that does not fit is a TypeError",
        "NumPy raises OverflowError, but compares with it as a number",
        _integer_does_not_fit,
    ),
    Difference(
        "integer sums are int64",
        "of unsigned integers, too, except uint64",
        _integer_sums,
    ),
]
