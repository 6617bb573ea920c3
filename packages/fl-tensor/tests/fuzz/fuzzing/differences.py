"""Where we differ from NumPy on purpose. Whatever else differs is a fault of ours.

An entry says what is expected instead of NumPy's outcome, as exactly as it can: most run NumPy
again on operands of the dtypes that we promise.
"""

from __future__ import annotations

import re
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
    #: A program whose last step differs so.
    example: list[Step]


TYPE_ERROR = Outcome(error=TypeError())
INDEX_ERROR = Outcome(error=IndexError())
VALUE_ERROR = Outcome(error=ValueError())


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
    for kind, default, holds in (
        (int, np.int64, "iufc"),
        (float, np.float32, "fc"),
        (complex, np.complex128 if common == np.float64 else np.complex64, "c"),
    ):
        if common.kind not in holds and any(type(s) is kind for s in scalars):
            common = np.dtype(default)
    return np.dtype(np.float32) if step.role == "F" and common.kind not in "fc" else common


def _again(step: Step, values: Values, common: Any) -> Outcome:
    cast = {o: values[o].astype(common) for o in step.operands if isinstance(o, str)}
    return steps.theirs(step.theirs, {**values, **cast})


def _place(step: Step, values: Values) -> Outcome | None:
    """What is read where the step assigns; None if it does not."""
    found = re.match(r"(v\d+\[.*\]) = ", step.theirs)
    return steps.theirs(found[1], values) if found else None


def _promotion(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    common = _promoted(step, values) if step.role else None
    if common is None:
        return None
    with np.errstate(all="ignore"):
        return _again(step, values, common)


def _integers_give_way(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    kinds = {a.dtype.kind for a in step.arrays(values)}
    return _promotion(step, values, wanted) if kinds & set("fc") and kinds & set("iu") else None


def _default_float(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if any(a.dtype.kind in "fc" for a in step.arrays(values)):
        return None
    return _promotion(step, values, wanted)


def _default_of_creation(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if (
        not _CREATION.match(step.line)
        or "dtype=" in step.line
        or not isinstance(wanted.value, np.ndarray)
    ):
        return None
    default = {"float64": np.float32, "complex128": np.complex64}.get(wanted.value.dtype.name)
    if wanted.value.dtype == object:  # an integer beyond all dtypes, beside a float
        kinds = {type(x) for x in wanted.value.ravel().tolist()}
        default = np.float32 if float in kinds and kinds <= {bool, int, float} else None
    with np.errstate(all="ignore"):
        return Outcome(wanted.value.astype(default)) if default else None


_CREATION = re.compile(r"ft\.(asarray|arange|linspace|full|zeros|ones|eye)\(")


def _nothing_or_text(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    found = _CREATION.match(step.line) and re.search(r"None|'a'", step.line)
    return TYPE_ERROR if found else None


def _no_operand(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    odd = re.search(r"None|'a'|\{\}|object\(\)", step.line)
    return TYPE_ERROR if odd and isinstance(wanted.error, ValueError) else None


def _unfit_number(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    made = _CREATION.match(step.line)
    if not made:
        return None
    dtype = re.search(r"dtype='(\w+)'", step.line)
    if dtype and np.dtype(dtype[1]).kind not in "iu":
        return None
    info = np.iinfo(dtype[1] if dtype else "int64")
    numbers = re.findall(r"-?\d[\d.]*(?:e\+\d+)?", step.line[made.end() :])
    unfit = "np.nan" in step.line or any(not info.min <= float(n) <= info.max for n in numbers)
    return TYPE_ERROR if unfit else None


def _no_number(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    dtype = getattr(wanted.value, "dtype", np.dtype(bool))
    return TYPE_ERROR if dtype.kind not in "biufc" or dtype.char in "gG" else None


def _no_common_integer(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    return TYPE_ERROR if step.role and _promoted(step, values) is None else None


def _no_bool_arithmetic(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if step.role not in "NZ" or not step.role or _promoted(step, values) != np.dtype(bool):
        return None
    return TYPE_ERROR


def _integer_does_not_fit(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if isinstance(wanted.error, OverflowError):
        return TYPE_ERROR
    common = _promoted(step, values) if step.role else None
    if common is None or common.kind not in "iu":
        return None
    info = np.iinfo(common)
    fits = all(info.min <= s <= info.max for s in step.scalars() if isinstance(s, int))
    return None if fits else TYPE_ERROR


def _index_before_value(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    place = _place(step, values) if wanted.error else None
    return place if place and place.error else None


def _conjugate_of_bool(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    found = re.match(r"ft\.conj\((v\d+)\)", step.line)
    return Outcome(values[found[1]]) if found and values[found[1]].dtype == bool else None


def _integer_sums(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    if not isinstance(wanted.value, np.ndarray) or wanted.value.dtype != np.uint64:
        return None
    unsigned = [a.dtype for a in step.arrays(values)] != [np.dtype(np.uint64)]
    summed = any(n in step.line for n in ("sum(", "prod("))
    return Outcome(wanted.value.astype(np.int64)) if unsigned and summed else None


def _no_axis(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    named = re.findall(r"v\d+", step.line)
    takes_axis = re.search(r"axis=|squeeze\(|axes\(|moveaxis|diagonal", step.line)
    return VALUE_ERROR if takes_axis and any(not values[v].ndim for v in named) else None


def _no_matrix(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    found = re.match(r"ft\.tri[lu]\((v\d+)", step.line)
    return VALUE_ERROR if found and values[found[1]].ndim < 2 else None


_ORDERED = re.compile(
    r"[<>]|max|min|sort|clip|isin|less|greater|floor|ceil|trunc|remainder|%|//|nan_to_num|mod|atan2"
    r"|hypot|copysign|signbit|nextafter|cbrt|logaddexp|deg2rad|rad2deg|isneginf|isposinf"
)


def _no_order(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    named = [values[v].dtype.kind for v in re.findall(r"v\d+", step.line)]
    complex_ = "c" in named or any(isinstance(s, complex) for s in step.scalars())
    return TYPE_ERROR if complex_ and _ORDERED.search(step.line) else None


def _no_real_part(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    found = re.match(r"(v\d+)\.astype\('(\w+)'\)", step.line)
    if found:
        lost = values[found[1]].dtype.kind == "c" and np.dtype(found[2]).kind not in "cb"
        return TYPE_ERROR if lost else None
    if _CREATION.match(step.line):
        dtype = re.search(r"dtype='(\w+)'", step.line)
        lost = "j" in step.line and dtype and np.dtype(dtype[1]).kind not in "cb"
        return TYPE_ERROR if lost else None
    if not step.target:
        return None
    value = steps.theirs(step.theirs.partition("] = ")[2], values).value
    lost = np.iscomplexobj(value) and not np.iscomplexobj(values[step.target])
    return TYPE_ERROR if lost else None


def _condition(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    found = re.match(r"ft\.where\((v\d+)", step.line)
    return TYPE_ERROR if found and values[found[1]].dtype != np.dtype(bool) else None


def _mask_assignment(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    found = re.match(r"(v\d+)\[(.*)\] = (.*)", step.theirs)
    if not found or "boolean array indexing assignment" not in str(wanted.error):
        return None
    again = Step(f"{found[1]}[np.nonzero({found[2]})] = {found[3]}")
    wanted = steps.theirs(again.line, values)
    return _empty_assignment(again, values, wanted) or wanted


def _empty_assignment(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    place = _place(step, values)
    if place is None or place.error or place.value.size:
        return None
    value = steps.theirs(step.theirs.partition("] = ")[2], values).value
    if value is None:
        return None
    value = np.asarray(value)
    while value.ndim > place.value.ndim and value.shape[0] == 1:
        value = value[0]  # extra axes in front pass, in NumPy, too
    try:
        np.broadcast_to(value, place.value.shape)
    except ValueError:
        return VALUE_ERROR
    return None


def _index_of_nothing(step: Step, values: Values, wanted: Outcome) -> Outcome | None:
    place = _place(step, values) or wanted
    empty = isinstance(place.value, np.ndarray) and not place.value.size
    return INDEX_ERROR if "[" in step.line and empty else None


def _shown(line: str, *arrays: str, role: str = "", scalars: tuple[Any, ...] = ()) -> list[Step]:
    """A program that shows a difference: ``arrays``, dtype and elements, are v0, v1, ..."""
    made = []
    for array in arrays:
        dtype, _, elements = array.partition(" ")
        made.append(Step(f"ft.asarray(np.array({elements}, '{dtype}'))"))
    operands = tuple(f"v{i}" for i in range(len(arrays)))
    return [*made, Step(line, role=role, operands=(*operands, *scalars))]


TABLE = [
    Difference(
        "an integer beside a float takes the float's dtype",
        "int32 + float32 is float32: NumPy's float64 would be a surprise in a model",
        _integers_give_way,
        _shown("v0 + v1", "int32 [1]", "float32 [0.5]", role="N"),
    ),
    Difference(
        "the default float is float32",
        "for Python floats beside integers, and for functions of floats on integers",
        _default_float,
        _shown("ft.exp(v0)", "int32 [1]", role="F"),
    ),
    Difference(
        "new arrays of floats are float32",
        "of Python's floats and without a dtype; complex64 of its complex numbers",
        _default_of_creation,
        _shown("ft.asarray([0.5])"),
    ),
    Difference(
        "None and text are no numbers",
        "NumPy reads None as NaN, and looks for numbers in text",
        _nothing_or_text,
        _shown("ft.asarray([None], dtype='float32')"),
    ),
    Difference(
        "an operand that is no array is a TypeError",
        "NumPy makes an array of objects, and then finds that its shape does not fit",
        _no_operand,
        _shown("v0 @ None", "int32 [1]"),
    ),
    Difference(
        "new arrays of integers hold what fits",
        "int64 unless a dtype is given; NaN and floats out of range are refused like integers",
        _unfit_number,
        _shown("ft.asarray([9223372036854775808])"),
    ),
    Difference(
        "arrays hold numbers",
        "no strings, objects or dates, and no long doubles",
        _no_number,
        _shown("ft.asarray(np.array(['b']))"),
    ),
    Difference(
        "uint64 beside a signed integer is an error",
        "no integer dtype holds both, and a float loses digits",
        _no_common_integer,
        _shown("v0 + v1", "uint64 [1]", "int8 [1]", role="N"),
    ),
    Difference(
        "bools are no numbers",
        "arithmetic and shifts of bools alone are refused: a logical operation or astype says what "
        "is meant",
        _no_bool_arithmetic,
        _shown("v0 + v0", "bool [True]", role="N"),
    ),
    Difference(
        "a Python integer that does not fit is a TypeError",
        "NumPy raises OverflowError, but compares with it as a number",
        _integer_does_not_fit,
        _shown("v0 < 300", "uint8 [1]", role="P", scalars=(300,)),
    ),
    Difference(
        "of two mistakes in an assignment the index is told first",
        "NumPy tells of a Python integer that does not fit before index arrays",
        _index_before_value,
        _shown("v0[[7]] = 300", "uint8 [1]"),
    ),
    Difference(
        "the conjugate of a bool is that bool",
        "NumPy makes it int8",
        _conjugate_of_bool,
        _shown("ft.conj(v0)", "bool [True]"),
    ),
    Difference(
        "integer sums are int64",
        "of unsigned integers, too, except uint64",
        _integer_sums,
        _shown("v0.sum()", "uint8 [1, 2]"),
    ),
    Difference(
        "an array without axes has no axis 0",
        "NumPy lets axis 0 and -1 pass in some functions",
        _no_axis,
        _shown("v0.sum(axis=0)", "float32 1"),
    ),
    Difference(
        "a triangle is that of a matrix",
        "NumPy makes a matrix of a vector first",
        _no_matrix,
        _shown("ft.tril(v0)", "float32 [1, 2]"),
    ),
    Difference(
        "complex numbers have no order",
        "NumPy compares real parts, then imaginary ones; ours raise a TypeError for that and for "
        "functions of real numbers",
        _no_order,
        _shown("v0 < v0", "complex64 [1j]", role="P"),
    ),
    Difference(
        "a complex number does not become a real one in passing",
        "NumPy warns and drops the imaginary part; real(x) says so",
        _no_real_part,
        _shown("v0.astype('float32')", "complex64 [1j]"),
    ),
    Difference(
        "a condition is bool",
        "where(x != 0, ...) says what where(x, ...) would mean",
        _condition,
        _shown("ft.where(v0, v1, v1)", "int32 [1, 0]", "float32 [1, 2]"),
    ),
    Difference(
        "a mask takes values as any index does",
        "NumPy refuses values of two axes and more, even those that broadcast to the places",
        _mask_assignment,
        _shown("v0[v0 > 0] = v1", "int32 [1, 0]", "int32 [[5]]"),
    ),
    Difference(
        "a value must fit, even where nothing is written",
        "NumPy lets any empty value pass where index arrays choose nothing",
        _empty_assignment,
        _shown("v0[[]] = v1", "int32 [1, 0]", "int32 [[], []]"),
    ),
    Difference(
        "an index must be in range, even where nothing is read",
        "NumPy looks at no index array beside one that chooses nothing",
        _index_of_nothing,
        _shown("v0[[], [7]]", "int32 [[1]]"),
    ),
]
