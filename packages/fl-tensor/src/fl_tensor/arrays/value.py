"""``ArrayValue``: attributes of an array, and export of its values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from fl_tensor.arrays.foreign_methods import ForeignMethods
from fl_tensor.device import Device
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError

if TYPE_CHECKING:
    from typing_extensions import Self

    from fl_tensor.arrays.array import Array
    from fl_tensor.arrays.tensor import Tensor
    from fl_tensor.backend import TensorBackend


class ArrayValue(ForeignMethods):
    """Shape, dtype, device, and the values as Python, NumPy and other libraries take them."""

    __slots__ = ()
    #: Of operands of several classes the highest decides; the others are lifted to it.
    _priority: ClassVar[int] = 0
    #: The class to which operands are lifted beside an array of this class: itself, or the class
    #: that it is derived from without another kind of value.
    _operand_class: ClassVar[type[Array]]
    #: Whether it is an adapter (``_adapter``) and its backend, and nothing else: then ``_ops`` and
    #: ``_wrap`` need not be asked while no layer is active.
    _is_handle: ClassVar[bool] = False
    # ---- what a subclass gives ---------------------------------------------------------------

    if TYPE_CHECKING:
        _adapter: Any
        _backend: TensorBackend

        @property
        def _raw(self) -> Any: ...

        def to(self, target: Any) -> Any: ...

    def _ops(self) -> Any:
        raise TypeError(f"{type(self).__name__} does not define _ops")

    def _wrap(self, raw: Any) -> Self:
        raise TypeError(f"{type(self).__name__} does not define _wrap")

    def _lift(self, other: Array) -> Self:
        raise TypeError(f"{type(self).__name__} does not define _lift")

    def _promoted(self, op: str, dtype: DType) -> DType:
        """The dtype in which operands of ``op`` meet, ``dtype`` by the rules of promotion. A class
        that casts by itself says so here, and spares a cast there and back."""
        return dtype

    def _tensor(self) -> Tensor:
        """The value as a Tensor."""
        raise TypeError(f"{type(self).__name__} does not define _tensor")

    def _constant(self, value: Any, dtype: DType) -> Self:
        return self._lift(self._tensor()._constant(value, dtype))

    # ---- what it is --------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self._raw.shape

    @property
    def dtype(self) -> DType:
        return self._raw.dtype

    @property
    def device(self) -> Device:
        return self._raw.device

    @property
    def backend(self) -> TensorBackend:
        """The backend that owns the value."""
        return self._backend

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        if not self.shape:
            raise DTypeError("len() of an array without axes")
        return self.shape[0]

    # ---- leaving the library -----------------------------------------------------------------

    def item(self) -> Any:
        """The single element as a Python scalar. Raises ArgumentError for any other size."""
        if self.shape and self.size != 1:
            raise ArgumentError(f"[item] x {self.shape}: expected exactly one element")
        return self._tensor()._values()[0]

    def tolist(self) -> Any:
        """Nested lists of Python scalars; a 0-d array gives a scalar."""
        flat: list[Any] = self._tensor()._values()
        for size in reversed(self.shape[1:]):
            count = len(flat) // size if size else math.prod(self.shape[:-1])
            flat = [flat[i * size : (i + 1) * size] for i in range(count)]
        if 0 in self.shape:
            return _empty(self.shape)
        return flat if self.shape else flat[0]

    def numpy(self) -> Any:
        """A read-only NumPy view of the value (a copy where the backend is not in host memory)."""
        return self._tensor().numpy()

    def tobytes(self) -> memoryview:
        """The elements' bytes in C order, read-only."""
        tensor = self._tensor()
        return tensor._ops().to_host(tensor._raw)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        found = self.numpy()
        if dtype is not None and found.dtype != dtype:
            if copy is False:
                raise ArgumentError(f"[array] {self.dtype} cannot become {dtype} without a copy")
            return found.astype(dtype)
        return found.copy() if copy else found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's ufuncs are our functions of that name, with gradients: ``np.exp(x)`` is
        ``ft.exp(x)``, ``np.ones(3) + x`` is ``ft.add(np.ones(3), x)``. Raises DTypeError for a
        ufunc without such a function, ArgumentError for options that only NumPy has."""
        from fl_tensor import ufuncs

        return ufuncs.apply(ufunc, method, inputs, options)

    def __buffer__(self, flags: int, /) -> memoryview:
        """``memoryview(x)``, read-only (Python 3.12 and later)."""
        if flags & 1:  # inspect.BufferFlags.WRITABLE
            raise BufferError("a tensor is a value: its memory is read-only")
        return memoryview(self.numpy())

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ArgumentError(
                f"[bool] x {self.shape}: several elements have no one truth; use any() or all()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self._real_item("int"))

    def __float__(self) -> float:
        return float(self._real_item("float"))

    def __complex__(self) -> complex:
        return complex(self.item())

    def _real_item(self, kind: str) -> Any:
        if self.dtype.kind == "c":
            raise DTypeError(f"[{kind}] x is {self.dtype}: take ft.real(x) or abs(x)")
        return self.item()

    def __repr__(self) -> str:
        from fl_tensor.arrays import display

        return display.described(self._tensor(), type(self).__name__, self._more_to_show())

    def __str__(self) -> str:
        """The values alone, by NumPy's rules and ``ft.set_printoptions``."""
        from fl_tensor.arrays import display

        return display.plain(self._tensor())

    def _repr_html_(self) -> str:
        from fl_tensor.arrays import display

        return display.html(self._tensor(), type(self).__name__, self._more_to_show())

    def _more_to_show(self) -> str:
        """What a subclass has to say in the printed forms beside its values."""
        return ""

    def __format__(self, spec: str) -> str:
        """``f"{loss:.3f}"``: the number of an array without axes in that format."""
        if not spec:
            return str(self)
        if self.shape:
            raise DTypeError(f"[format] x {self.shape}: only an array without axes has a format")
        return format(self.item(), spec)

    def __index__(self) -> int:
        if not self.dtype.is_integer or self.shape:
            raise DTypeError(f"x {self.shape} of {self.dtype} is not an integer index")
        return int(self.item())

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The functions of the Python array API standard, ``ft.array_api``. Raises ArgumentError
        for a revision that is none, or newer."""
        from fl_tensor import array_api

        if api_version is not None and api_version not in array_api.REVISIONS:
            known = ", ".join(array_api.REVISIONS)
            raise ArgumentError(f"[array_api] revision {api_version!r}: expected one of {known}")
        return array_api


def _empty(shape: tuple[int, ...]) -> list[Any]:
    if shape[0] == 0:
        return []
    return [_empty(shape[1:]) for _ in range(shape[0])]
