"""The types of kernels: numbers, 1-d arrays of numbers, records of both; and their annotations."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fl_tensor import dtypes
from fl_tensor.dtypes import DType
from fl_tensor.errors import DTypeError

__all__ = [
    "BOOL", "DTYPES", "FLOAT", "INT", "Array", "ArrayType", "RecordType", "Scalar", "Type",
    "annotated",
]  # fmt: skip

D = TypeVar("D", covariant=True)
#: The dtypes that arrays of kernels may have.
DTYPES = tuple(
    dtypes.ALL[name]
    for name in "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
)


@dataclass(frozen=True)
class Scalar:
    """A number."""

    #: "int64", "float64" or "bool".
    name: str

    def __str__(self) -> str:
        return _PYTHON_NAMES[self.name]


INT, FLOAT, BOOL = Scalar("int64"), Scalar("float64"), Scalar("bool")
_PYTHON_NAMES = {"int64": "int", "float64": "float", "bool": "bool"}
_SCALARS: dict[type, Scalar] = {int: INT, float: FLOAT, builtins.bool: BOOL}


@dataclass(frozen=True)
class ArrayType:
    """A contiguous array of numbers, with one index."""

    #: The dtype of its elements in memory.
    dtype: DType

    @property
    def element(self) -> Scalar:
        """What reading an element gives: all integers are int64, all floats float64."""
        return FLOAT if self.dtype.is_floating else INT

    def __str__(self) -> str:
        return f"Array[{self.dtype}]"


@dataclass(frozen=True)
class RecordType:
    """A NamedTuple of numbers and arrays."""

    #: The name of its class.
    name: str
    #: Its fields in order, each with its type.
    fields: tuple[tuple[str, Scalar | ArrayType], ...]

    def field(self, name: str) -> Scalar | ArrayType | None:
        """The type of a field, None if there is none of this name."""
        return dict(self.fields).get(name)

    def __str__(self) -> str:
        return self.name


Type = Scalar | ArrayType | RecordType


class _Array:
    """The annotation of an array: ``Array[ft.float32]``. The argument may be anything with a
    contiguous buffer of this dtype, or a Tensor on the host if the kernel does not write to it."""

    #: The type that the class stands for.
    type: ArrayType

    def __class_getitem__(cls, dtype: Any) -> Any:
        """A class for each dtype. DTypeError for one that arrays of kernels cannot have."""
        found = dtypes.dtype(dtype)
        if found not in DTYPES:
            raise DTypeError(
                f"[kernel] Array[{found}]: expected one of {', '.join(map(str, DTYPES))}"
            )
        return _CLASSES[found]


_CLASSES = {
    dtype: type(f"Array[{dtype}]", (_Array,), {"__module__": __name__, "type": ArrayType(dtype)})
    for dtype in DTYPES
}
if TYPE_CHECKING:
    # To type checkers a dtype is no type: modules with kernels disable `valid-type`.
    class Array(Protocol[D]):
        def __getitem__(self, index: Any, /) -> Any: ...
        def __setitem__(self, index: Any, value: Any, /) -> None: ...
        def __len__(self) -> int: ...

else:
    Array = _Array


def annotated(annotation: Any) -> Scalar | ArrayType | None:
    """The type of a number or an array that an annotation stands for, None if for neither."""
    if isinstance(annotation, type) and issubclass(annotation, _Array):
        return getattr(annotation, "type", None)
    return _SCALARS.get(annotation) if isinstance(annotation, type) else None
