"""Parsing the argument of ``asarray``: nested sequences of numbers, and buffers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from fl_tensor import arguments, dtypes
from fl_tensor.arrays.elements import FORMATS
from fl_tensor.backend import TensorAdapter
from fl_tensor.dtypes import ALL, DType
from fl_tensor.errors import DTypeError, ShapeError

#: As many axes as an array of NumPy may have.
MAX_DEPTH = 64
#: The classes of Python's numbers.
NUMBERS = frozenset(arguments.SCALARS)
_CODES = {code: name for name, code in FORMATS.items()} | {"l": "int64", "L": "uint64"}
_NESTED = (list, tuple, range)
_WIDTH = (bool, int, float, complex)
# A C long has the size of the platform; NumPy uses it for one of the two 64- or 32-bit integers.
_LONG = {"l": "i", "L": "u"}


def buffer_of(obj: Any) -> memoryview | None:
    """The buffer of an object, None where it has none that is an array."""
    try:
        view = memoryview(obj)
    except (TypeError, ValueError, BufferError):
        return None
    # NumPy's dates show their bytes as an array of their own.
    return view if getattr(obj, "shape", view.shape) == view.shape else None


def is_shown(obj: Any) -> bool:
    """Whether an object shows its values to NumPy, as a column of pandas or an image does."""
    shown = hasattr(obj, "__array__") or hasattr(obj, "__array_interface__")
    return shown and not isinstance(obj, TensorAdapter)


def unreadable(obj: Any) -> DTypeError:
    """The error for what is no array, and the way from it to one."""
    kind = type(obj).__name__
    if isinstance(obj, TensorAdapter):
        return DTypeError(
            f"[asarray] a {kind} is a backend's value: inside an operation write ops.exp(x), not "
            f"ft.exp(x); elsewhere take ft.Tensor(x, backend)"
        )
    if hasattr(obj, "toarray"):
        return DTypeError(f"[asarray] a {kind} is sparse: take its dense array, x.toarray()")
    return DTypeError(
        f"[asarray] cannot read a {kind}: expected numbers, nested lists, or an object with a "
        f"buffer, DLPack or __array__"
    )


def format_of(view: memoryview) -> tuple[DType, bool]:
    """The dtype of a buffer, and whether its byte order is foreign. DTypeError for elements that
    are no numbers."""
    code = view.format.lstrip("@=")
    foreign = False
    if code[:1] in "<>!" and view.itemsize > 1:
        foreign = code[0] != ("<" if sys.byteorder == "little" else ">")
        code = code[1:]
    name = _CODES.get(code)
    if code in _LONG:
        name = f"{'u' if _LONG[code] == 'u' else ''}int{8 * view.itemsize}"
    if name is None:
        raise DTypeError(f"[asarray] the buffer's element format {view.format!r} is not supported")
    return dtypes.ALL[name], foreign


def nested(obj: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested sequences, and what they hold, in C order. Raises ShapeError where they
    are ragged, or nested more than ``MAX_DEPTH`` deep."""
    shape = tuple(_nested_shape(obj))
    return shape, list(_flatten(obj, shape))


def require_shallow(obj: Sequence[Any]) -> None:
    """Raises ShapeError where sequences are nested more than ``MAX_DEPTH`` deep anywhere in it."""
    level = [obj]
    for _ in range(MAX_DEPTH):
        parts = {id(part): part for each in level for part in each if isinstance(part, _NESTED)}
        level = list(parts.values())
        if not level:
            return
    raise _too_deep()


def _too_deep() -> ShapeError:
    return ShapeError(
        f"[asarray] the sequences are nested more than {MAX_DEPTH} deep, or one contains itself"
    )


def numbers(obj: Sequence[Any]) -> tuple[tuple[int, ...], list[Any], DType]:
    """As ``nested``, of numbers, and their common dtype: that of scalars of other libraries, beside
    which Python's are weak, else the widest of Python's; the default floating one if there are
    none. Raises DTypeError, too, for what is no number."""
    kinds = set(map(type, obj))
    if kinds <= NUMBERS:  # as they usually are
        shape: tuple[int, ...] = (len(obj),)
        return shape, list(obj), _common(kinds, [])
    shape, flat = nested(obj)
    theirs = {getattr(v, "dtype", None) for v in flat if type(v) not in NUMBERS}
    stated = [found for d in theirs if (found := _stated(d)) is not None]
    flat = [v if type(v) in NUMBERS else _number(v) for v in flat]
    return shape, flat, _common(set(map(type, flat)), stated)


def _common(kinds: set[type], stated: list[DType]) -> DType:
    # The dtype of numbers of Python's ``kinds``, some of which came with a dtype.
    widest = max(kinds, key=_WIDTH.index, default=float)
    if not stated:
        return dtypes.of_number(widest)
    return dtypes.result_for_scalar(dtypes.promote_all(stated, "asarray"), widest(), "asarray")


def _stated(dtype: Any) -> DType | None:
    # Another library's dtype, by its name: "float64", or "torch.float64".
    return ALL.get(getattr(dtype, "name", None) or str(dtype).rpartition(".")[2])


def _number(value: Any) -> Any:
    # The Python scalar of another array library's.
    try:
        number = value.item()
    except (AttributeError, TypeError, ValueError):
        number = None
    if type(number) not in arguments.SCALARS:
        raise DTypeError(f"[asarray] found a {type(value).__name__}: expected numbers")
    return number


def _nested_shape(obj: Any) -> Iterator[int]:
    depth = 0
    while isinstance(obj, _NESTED):
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        yield len(obj)
        if not len(obj):
            return
        obj = obj[0]


def _flatten(obj: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    if not shape:
        yield obj
        return
    if not isinstance(obj, _NESTED) or len(obj) != shape[0]:
        raise ShapeError(f"[asarray] the sequences are ragged: expected {shape[0]} elements")
    if len(shape) > 1:
        for part in obj:
            yield from _flatten(part, shape[1:])
    elif NUMBERS.issuperset(map(type, obj)) or not any(isinstance(v, _NESTED) for v in obj):
        yield from obj
    else:
        raise ShapeError("[asarray] the sequences are nested unevenly")
