"""``Array``: operators, indexing and methods, once for everything that is an array to its user.

A subclass says what its values are: ``_raw`` (what its namespace of operations computes with),
``_ops()`` (that namespace), ``_wrap(raw)`` (an array of the class) and ``_lift(other)`` (an array
of a lower class as one of this). ``Tensor`` wraps adapters; other packages add classes of their
own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import fl_tensor.functions as functions
import fl_tensor.indexing as indexing
from fl_tensor import arguments, frontend
from fl_tensor.device import Device
from fl_tensor.dtypes import DType
from fl_tensor.errors import ArgumentError, DTypeError
from fl_tensor.functions import special

if TYPE_CHECKING:
    from typing_extensions import Self

    from fl_tensor.backend import TensorBackend
    from fl_tensor.tensor import Tensor

Axes = int | Sequence[int] | None


class Array:
    """An n-dimensional array of one dtype on one device."""

    __slots__ = ()
    #: Of operands of several classes the highest decides; the others are lifted to it.
    _priority: ClassVar[int] = 0
    #: NumPy arrays leave mixed expressions to us.
    __array_ufunc__ = None

    # ---- what a subclass gives ---------------------------------------------------------------

    if TYPE_CHECKING:
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

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    # Equality is elementwise, so arrays are no dictionary keys.
    __hash__ = None  # type: ignore[assignment]

    # ---- leaving the library -----------------------------------------------------------------

    def item(self) -> Any:
        """The single element as a Python scalar. Raises ArgumentError for any other size."""
        if self.size != 1:
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

    # ---- operators ---------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return functions.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return functions.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return functions.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return functions.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return functions.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return functions.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return functions.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return functions.divide(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return functions.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return functions.floor_divide(other, self)

    def __mod__(self, other: Any) -> Any:
        return functions.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return functions.remainder(other, self)

    def __pow__(self, other: Any) -> Any:
        return functions.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return functions.power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return special.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return special.matmul(other, self)

    def __and__(self, other: Any) -> Any:
        return functions.bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return functions.bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return functions.bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return functions.bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return functions.bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return functions.bitwise_xor(other, self)

    def __lshift__(self, other: Any) -> Any:
        return functions.bitwise_left_shift(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return functions.bitwise_left_shift(other, self)

    def __rshift__(self, other: Any) -> Any:
        return functions.bitwise_right_shift(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return functions.bitwise_right_shift(other, self)

    def __neg__(self) -> Any:
        return functions.negative(self)

    def __pos__(self) -> Any:
        (same,) = frontend.operands_of("positive", "N", self)
        return frontend.same_value(same)

    def __abs__(self) -> Any:
        return functions.absolute(self)

    def __invert__(self) -> Any:
        return functions.bitwise_invert(self)

    # An array is not equal to what is no array (None, a string, ...): Python then answers False.

    def __eq__(self, other: object) -> Any:
        other = self._comparable(other)
        return other if other is NotImplemented else functions.equal(self, other)

    def __ne__(self, other: object) -> Any:
        other = self._comparable(other)
        return other if other is NotImplemented else functions.not_equal(self, other)

    def _comparable(self, other: object) -> Any:
        if isinstance(other, (Array, *arguments.SCALARS)):
            return other
        from fl_tensor.functions.creation import asarray

        try:
            return asarray(other, device=self.device, backend=self._backend)
        except DTypeError:
            return NotImplemented

    def __lt__(self, other: Any) -> Any:
        return functions.less(self, other)

    def __le__(self, other: Any) -> Any:
        return functions.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return functions.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return functions.greater_equal(self, other)

    def __getitem__(self, index: Any) -> Any:
        return indexing.getitem(self, index)

    def to_device(self, device: Device | str, /, *, stream: Any = None) -> Any:
        """The same values on another device of the backend."""
        if stream is not None:
            raise ArgumentError(f"[to_device] stream {stream!r}: moves are not queued on streams")
        place = Device.parse(device)
        return frontend.same_value(self) if place == self.device else self.to(place)

    # ---- methods: the functions of the same name ----------------------------------------------

    def copy(self) -> Any:
        """Another handle on the value; values are immutable, so no data is copied."""
        return frontend.same_value(self)

    def astype(self, dtype: DType | str) -> Any:
        return special.cast(self, dtype)

    def reshape(self, *shape: Any) -> Any:
        given = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return special.reshape(self, given)

    def flatten(self) -> Any:
        return special.reshape(self, (-1,))

    def permute(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return special.permute(self, given)

    def transpose(self, *axes: Any) -> Any:
        """Axes in the given order; reversed without arguments."""
        return self.permute(*axes) if axes else special.permute(self, range(self.ndim)[::-1])

    @property
    def T(self) -> Any:
        """The transpose of a matrix; ArgumentError for another number of axes."""
        if self.ndim != 2:
            raise ArgumentError(f"[T] x {self.shape}: expected two axes; use mT or permute")
        return special.permute(self, (1, 0))

    @property
    def mT(self) -> Any:
        """The last two axes exchanged."""
        return functions.swapaxes(self, -2, -1)

    def squeeze(self, axis: Axes = None) -> Any:
        return special.squeeze(self, axis)

    def expand_dims(self, axis: int) -> Any:
        return special.expand_dims(self, axis)

    def sum(
        self, axis: Axes = None, keepdims: bool = False, dtype: DType | str | None = None
    ) -> Any:
        from fl_tensor.functions import reducing

        return reducing.sum(self, axis, keepdims, dtype)

    def prod(
        self, axis: Axes = None, keepdims: bool = False, dtype: DType | str | None = None
    ) -> Any:
        from fl_tensor.functions import reducing

        return reducing.prod(self, axis, keepdims, dtype)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.mean(self, axis, keepdims)

    def var(self, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Any:
        return functions.var(self, axis, keepdims, correction)

    def std(self, axis: Axes = None, keepdims: bool = False, correction: float = 0.0) -> Any:
        return functions.std(self, axis, keepdims, correction)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.max(self, axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.min(self, axis, keepdims)

    def any(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.any(self, axis, keepdims)

    def all(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return functions.all(self, axis, keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Any:
        from fl_tensor.functions import searching

        return searching.argmax(self, axis, keepdims)

    def argmin(self, axis: int | None = None, keepdims: bool = False) -> Any:
        from fl_tensor.functions import searching

        return searching.argmin(self, axis, keepdims)

    def exp(self) -> Any:
        return functions.exp(self)

    def log(self) -> Any:
        return functions.log(self)

    def sqrt(self) -> Any:
        return functions.sqrt(self)

    def tanh(self) -> Any:
        return functions.tanh(self)

    def sigmoid(self) -> Any:
        return functions.sigmoid(self)

    def relu(self) -> Any:
        return functions.relu(self)

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return functions.clip(self, low, high)

    def round(self) -> Any:
        return functions.round(self)

    def argsort(self, axis: int = -1, descending: bool = False) -> Any:
        return functions.argsort(self, axis, descending)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return functions.diagonal(self, offset, axis1, axis2)

    def nonzero(self) -> Any:
        return special.nonzero(self)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return functions.swapaxes(self, axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Any:
        from fl_tensor.functions import shaping

        return shaping.repeat(self, repeats, axis)

    def take(self, indices: Any, axis: int | None = None) -> Any:
        from fl_tensor.functions import searching

        return searching.take(self, indices, axis)


def _empty(shape: tuple[int, ...]) -> list[Any]:
    if shape[0] == 0:
        return []
    return [_empty(shape[1:]) for _ in range(shape[0])]
