"""The dtypes, by their array API names, and the promotion rules."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Sequence
from typing import Any

from fl_tensor.errors import DTypeError
from fl_tensor.settings import ContextSetting

__all__ = [
    "ALL", "DEFAULT_FLOAT", "DEFAULT_INT", "DEFAULT_SETTING", "DType", "HALF", "REQUIRED",
    "accumulator", "bfloat16", "bool", "complex128", "complex64", "complex_of", "default_float",
    "dtype", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "of_number",
    "promote", "promote_all", "real_of", "result_for_scalar", "sum_dtype", "uint16", "uint32",
    "uint64", "uint8",
]  # fmt: skip


class DType:
    """An element type. Singletons: compare with ``is`` or ``==``.

    name      array API name, ``"float32"``; also ``str(dtype)`` and its serialised form
    kind      ``"b"`` bool, ``"i"`` signed, ``"u"`` unsigned, ``"f"`` floating, ``"c"`` complex
    itemsize  bytes per element

    It equals its name and, as NumPy's do, the classes and dtypes of NumPy and Python that mean the
    same: ``x.dtype == "float64"``, ``x.dtype == np.float64``, ``x.dtype == float``. Their hashes
    differ, as NumPy's do: sets and dictionaries do not find one by another, ``ft.dtype(y)`` does.
    """

    __slots__ = ("is_floating", "is_integer", "itemsize", "kind", "name")

    def __init__(self, name: str, kind: str, itemsize: int) -> None:
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.is_floating = kind == "f"
        self.is_integer = kind in "iu"

    #: Of the object, not of the name: dtypes are looked up on every call.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> builtins.bool:
        if other.__class__ is DType:
            return other is self
        if isinstance(other, str):
            return other == self.name
        if isinstance(other, type):
            return _of_class(other) is self
        return NotImplemented  # a dtype of NumPy's compares itself with ``dtype``

    @property
    def dtype(self) -> Any:
        """NumPy's dtype, by which ``np.dtype(x.dtype)`` and ``np.zeros(3, x.dtype)`` read this one.
        AttributeError for bfloat16 where ``ml_dtypes`` is missing."""
        from fl_tensor.exchange.dtypes import TO_NUMPY

        if self not in TO_NUMPY:
            raise AttributeError(f"NumPy has no {self.name} of its own: it takes ml_dtypes")
        return TO_NUMPY[self]

    #: The name under which NumPy looks for it from 2.4 on.
    __numpy_dtype__ = dtype

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"fl_tensor.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype, (self.name,)


bool = DType("bool", "b", 1)
int8 = DType("int8", "i", 1)
int16 = DType("int16", "i", 2)
int32 = DType("int32", "i", 4)
int64 = DType("int64", "i", 8)
uint8 = DType("uint8", "u", 1)
uint16 = DType("uint16", "u", 2)
uint32 = DType("uint32", "u", 4)
uint64 = DType("uint64", "u", 8)
float16 = DType("float16", "f", 2)
float32 = DType("float32", "f", 4)
float64 = DType("float64", "f", 8)
bfloat16 = DType("bfloat16", "f", 2)
complex64 = DType("complex64", "c", 8)
complex128 = DType("complex128", "c", 16)

ALL: dict[str, DType] = {
    d.name: d
    for d in (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64)
    + (float16, bfloat16, float32, float64, complex64, complex128)
}
#: Half precision: accumulated in float32, rounded once at the end.
HALF: frozenset[DType] = frozenset({float16, bfloat16})
REQUIRED: frozenset[DType] = frozenset({bool, int32, int64, uint8, float32})
#: Of operations in the contract; users' functions ask ``default_float``.
DEFAULT_FLOAT = float32
DEFAULT_INT = int64
#: What ``ft.set_default_dtype`` and ``ft.default_dtype`` set.
DEFAULT_SETTING = ContextSetting("fl_tensor_default_dtype", DEFAULT_FLOAT)
default_float = DEFAULT_SETTING.get

#: Python's classes as dtypes, as NumPy reads them.
_PYTHON = {builtins.bool: bool, int: int64, float: float64, complex: complex128}


def dtype(name: object) -> DType:
    """The DType of that name (``"float32"``), of a Python scalar type (``float`` is float64,
    ``complex`` complex128), or of an object whose ``str`` or ``name`` is a dtype name. Raises
    DTypeError for anything else."""
    if isinstance(name, DType):
        return name
    if isinstance(name, type):
        found = _of_class(name)
    else:
        found = ALL.get(getattr(name, "name", None) or str(name))
    if found is None:
        raise DTypeError(f"unknown dtype {name!r}; dtypes are {', '.join(ALL)}")
    return found


def of_number(kind: type) -> DType:
    """The dtype that a number of a Python class has where none is asked for: of a float the default
    one, of a complex number the complex one beside it. Numbers of another library's classes keep
    theirs. Raises DTypeError for other classes."""
    if kind is float:
        return default_float()
    return complex_of(default_float()) if kind is complex else dtype(kind)


def _of_class(kind: type) -> DType | None:
    # Python's numbers, and classes of scalars that are called as their dtype (NumPy's).
    return _PYTHON.get(kind) or ALL.get(kind.__name__)


def promote(x: DType, y: DType, op: str = "promote") -> DType:
    """The common dtype of two operands: array API rules, and where those leave the choice open
    bool gives way to numbers and integers take the floating operand's dtype."""
    if x is y:
        return x
    x, y = dtype(x), dtype(y)
    if x.kind == y.kind:
        if {x, y} == {float16, bfloat16}:
            return float32
        return x if x.itemsize >= y.itemsize else y
    low, high = (x, y) if "biufc".index(x.kind) < "biufc".index(y.kind) else (y, x)
    if low.kind == "b" or (low.is_integer and high.kind in "fc"):
        return high
    if low.kind == "i":  # with an unsigned one: the smallest signed dtype that holds both
        if high is uint64:
            raise DTypeError(
                f"[{op}] {x} with {y}: no integer dtype holds both; cast one with astype first"
            )
        size = max(low.itemsize, 2 * high.itemsize)
        return ALL[f"int{8 * size}"]
    return complex128 if float64 in (low, high) or high is complex128 else complex64


def promote_all(found: Sequence[DType], op: str = "promote") -> DType:
    """The common dtype of several operands, whatever their order: floating ones decide before
    integers of which no integer dtype holds both."""
    return functools.reduce(
        lambda x, y: promote(x, y, op), sorted(found, key=lambda d: "cfiub".index(d.kind))
    )


def result_for_scalar(like: DType, value: object, op: str = "promote") -> DType:
    """The dtype that a Python scalar takes beside an operand of dtype ``like`` (scalars are
    weak)."""
    if isinstance(value, builtins.bool):
        return like
    if isinstance(value, int):
        if like.kind == "b":
            return DEFAULT_INT
        if like.is_integer and not _fits(value, like):
            raise DTypeError(f"[{op}] the Python integer {value} does not fit {like}; use astype")
        return like
    if isinstance(value, float):
        return like if like.kind in "fc" else default_float()
    if isinstance(value, complex):
        return complex_of(like if like.kind in "fc" else default_float())
    raise DTypeError(f"[{op}] {type(value).__name__} is not a Python scalar")


def _fits(value: int, integer: DType) -> builtins.bool:
    bits = 8 * integer.itemsize
    if integer.kind == "u":
        return 0 <= value < 1 << bits
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def sum_dtype(x: DType) -> DType:
    """The dtype of sums and products of ``x``: int64 for bools and integers (uint64 stays), else
    ``x``."""
    return int64 if x.kind in "biu" and x is not uint64 else x


def accumulator(x: DType) -> DType:
    """What sums, products and contractions of ``x`` are accumulated in: float16 and bfloat16 in
    float32, rounded once at the end; all others in the dtype of the result."""
    return float32 if x in HALF else sum_dtype(x)


def real_of(x: DType) -> DType:
    """The dtype of the parts of a complex dtype; any other is its own."""
    return {complex64: float32, complex128: float64}.get(x, x)


def complex_of(x: DType) -> DType:
    """The complex dtype that holds ``x``: of float64 complex128, of narrower ones complex64."""
    return x if x.kind == "c" else complex128 if x is float64 else complex64
