"""The tensor-backend contract: required operations, and inherited ones.

A backend supplies two classes. ``TensorAdapter`` is one value: an immutable array with a shape, a
dtype and a device. ``TensorBackend`` is the arithmetic on such values. Users never meet either:
they hold a ``Tensor``, a small handle around an adapter.

Guarantees of the front end, which a backend need not check:

* axes are in range and non-negative, shapes are tuples of non-negative ints;
* operands that must agree in dtype do; Python scalars arrive as 0-d adapters of that dtype;
* only dtypes that the backend lists in ``dtypes`` occur;
* all adapters are the backend's own.

Guarantees of a backend: no operation changes an operand (``donate`` aside), the result has the
shape and dtype of the rule in ``fl_tensor.rules``, and calls on distinct values may run
concurrently. A backend chooses the place of its bytes, unless it declares the capability "memory".

Half precision (float16 and bfloat16) is accurate to one rounding of what float32 gives: elementwise
functions are computed in float32, and what is accumulated is accumulated in float32
(``fl_tensor.dtypes.accumulator``) and rounded once. A backend that lists a complex dtype declares
the capability "complex".

Subnormal numbers, those nearer to zero than ``ft.finfo(dtype).smallest_normal``, may be taken for
zeros of their sign, as operands and as results: many accelerators do so. Also unspecified are
integer division by zero, NaN to integer, and shifts by the width or more.

Arguments are passed by position, in the order of the signature; ``donate`` alone by its name. The
letters in the signatures (``fl_tensor.roles``) are for the front end: which operands are
promoted together, which become floating.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from fl_tensor.capabilities import OptionalOps
from fl_tensor.derived_ops import DerivedOps
from fl_tensor.device import Device
from fl_tensor.dtypes import REQUIRED, DType
from fl_tensor.roles import A, Axes, Axis, F, I, N, P, Q, R, S, Scalar, Shape, Z

__all__ = ["TensorAdapter", "TensorBackend"]


class TensorAdapter(ABC):
    """One immutable value of a backend. Subclasses add whatever holds the data."""

    __slots__ = ()

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The sizes of the axes, a tuple of ints; () for a single number."""

    @property
    @abstractmethod
    def dtype(self) -> DType:
        """The type of the elements, one of the backend's ``dtypes``."""

    @property
    @abstractmethod
    def device(self) -> Device:
        """Where the data is, one of the backend's ``devices()``."""


class TensorBackend(DerivedOps, OptionalOps, ABC):
    """Operations on adapters. Subclass, state ``CONTRACT`` in your class, write the first block."""

    #: The version of the contract that a class was written for; each class states its own.
    CONTRACT: ClassVar[tuple[int, int]] = (1, 1)
    #: What messages call the backend, and users in ``ft.use``.
    name: ClassVar[str]
    #: The dtypes the backend computes in; at least ``fl_tensor.dtypes.REQUIRED``.
    dtypes: ClassVar[frozenset[DType]] = REQUIRED
    #: How to get a dtype that the backend could have but has not here: for the error message.
    dtype_hints: ClassVar[Mapping[DType, str]] = {}
    #: The optional parts (``fl_tensor.capabilities``) that the backend implements.
    capabilities: ClassVar[frozenset[str]] = frozenset()
    #: True when the backend itself refuses shapes that do not fit, with whatever exception: the
    #: front end checks no more before a call, and raises what the rule says after one that failed.
    #: A library that lets some pass is no obstacle: call ``fl_tensor.rules`` there.
    checks_shapes: ClassVar[bool] = False
    #: False for a backend that computes shapes and dtypes alone.
    has_values: ClassVar[bool] = True
    #: The largest number of axes, None without a limit.
    max_ndim: ClassVar[int | None] = None

    _scalars: dict[Any, A]

    # ---- you must write these ----------------------------------------------------------------

    # devices

    @abstractmethod
    def devices(self) -> list[Device]:
        """The devices that can be used now; the first is the default."""

    @abstractmethod
    def synchronize(self, device: Device) -> None:
        """Return when all work that was queued on ``device`` has finished."""

    # creation and transfer

    @abstractmethod
    def full(self, shape: Shape, value: Scalar, dtype: DType, device: Device) -> A:
        """All elements equal to ``value``."""

    @abstractmethod
    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType, device: Device) -> A:
        """``start + i * step`` for i in 0 .. ceil((stop - start) / step) - 1, 1-d: computed in
        float64 unless start and step are ints, then converted as by ``cast``."""

    @abstractmethod
    def from_host(
        self,
        data: memoryview,
        shape: Shape,
        dtype: DType,
        device: Device,
        blocking: bool = True,
    ) -> A:
        """A copy of bytes in C order, native endianness; bool is one byte, 0 or 1. ``data`` is
        one-dimensional with format ``"B"``, of the right size, at any alignment, maybe read-only.
        Without ``blocking`` the copy may still be under way on return: the caller leaves ``data``
        alone until ``synchronize``."""

    @abstractmethod
    def to_host(self, x: A, blocking: bool = True) -> memoryview:
        """The bytes in C order: one-dimensional, format ``"B"``, read-only. May share memory.
        Without ``blocking`` they need not be there before ``synchronize``."""

    @abstractmethod
    def random_bits(self, seed: int, offset: int, shape: Shape, device: Device) -> A:
        """Words ``offset, offset + 1, ...`` of the Philox 4x32-10 stream of a 64-bit ``seed``, as
        the bit patterns of int32, in C order.

        Word w is output w % 4 of the block with counter (c0, c1, 0, 0), c = w // 4 in 64 bits, c0
        its low 32, and key (seed low 32, seed high 32). Salmon et al., "Parallel random numbers:
        as easy as 1, 2, 3", SC 2011.
        """

    # shape

    @abstractmethod
    def reshape(self, x: A, shape: Shape) -> A:
        """The same elements in C order in another shape."""

    @abstractmethod
    def permute(self, x: A, axes: Axes) -> A:
        """Axis i of the result is axis ``axes[i]`` of ``x``."""

    @abstractmethod
    def broadcast_to(self, x: A, shape: Shape) -> A:
        """Repeat along new leading axes and axes of size 1."""

    @abstractmethod
    def concatenate(self, xs: Sequence[P], axis: Axis = 0) -> A:
        """Join at least one array along ``axis``; other sizes agree."""

    @abstractmethod
    def pad(self, x: A, low: Shape, high: Shape, interior: Shape, value: Scalar = 0) -> A:
        """Per axis: ``low`` elements before, ``high`` after, ``interior`` between neighbours."""

    @abstractmethod
    def slice(self, x: A, starts: Shape, sizes: Shape, steps: tuple[int, ...]) -> A:
        """Element i along an axis is ``x[start + i * step]``; steps are positive or negative."""

    @abstractmethod
    def gather(self, x: A, indices: A, axis: Axis = 0) -> A:
        """``x`` at int64 or int32 ``indices`` (0 <= index < size) along ``axis``, which the shape
        of ``indices`` replaces: shape ``x.shape[:axis] + indices.shape + x.shape[axis + 1:]``."""

    @abstractmethod
    def scatter(
        self, x: A, indices: A, updates: A, axis: Axis = 0, mode: str = "set", donate: bool = False
    ) -> A:
        """``x`` with ``updates`` (shape and dtype of ``gather(x, indices, axis)``) written or added
        where gather would read. Mode ``"set"``: of duplicates the last in C order stays; ``"add"``:
        they accumulate (float16 and bfloat16 in float32). ``donate=True``: the caller gives ``x``
        up, its storage may be reused if nothing else can see it."""

    @abstractmethod
    def sort(self, x: Q, axis: Axis = -1, descending: bool = False) -> A:
        """Sorted values; NaN sorts as the largest value."""

    @abstractmethod
    def argsort(self, x: Q, axis: Axis = -1, descending: bool = False) -> A:
        """Positions that sort ``x``, int64, stable in both directions (equal elements keep
        order)."""

    @abstractmethod
    def nonzero(self, x: A) -> tuple[A, ...]:
        """Indices of the elements that are not zero: one 1-d int64 array per axis, C order."""

    @abstractmethod
    def cumulative_sum(self, x: N, axis: Axis = -1) -> A:
        """Inclusive running sum; dtype and accumulation as ``sum``."""

    # unary

    @abstractmethod
    def negative(self, x: N) -> A:
        """``-x``."""

    @abstractmethod
    def absolute(self, x: N) -> A:
        """``|x|``; of complex numbers real, without overflow of the squares."""

    @abstractmethod
    def sign(self, x: N) -> A:
        """-1, 0 or 1; NaN stays NaN. Of complex numbers ``x / |x|``, and 0 at 0."""

    @abstractmethod
    def exp(self, x: F) -> A:
        """e to the power ``x``."""

    @abstractmethod
    def expm1(self, x: F) -> A:
        """``exp(x) - 1`` without cancellation near 0."""

    @abstractmethod
    def log(self, x: F) -> A:
        """Natural logarithm; NaN below 0, -inf at 0."""

    @abstractmethod
    def log1p(self, x: F) -> A:
        """``log(1 + x)`` without cancellation near 0."""

    @abstractmethod
    def sqrt(self, x: F) -> A:
        """Square root; NaN below 0."""

    @abstractmethod
    def sin(self, x: F) -> A:
        """Sine of radians."""

    @abstractmethod
    def cos(self, x: F) -> A:
        """Cosine of radians."""

    @abstractmethod
    def tanh(self, x: F) -> A:
        """Hyperbolic tangent."""

    @abstractmethod
    def erf(self, x: S) -> A:
        """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to ``x``."""

    @abstractmethod
    def floor(self, x: R) -> A:
        """The largest integer not above ``x``; integers are returned as they are."""

    @abstractmethod
    def ceil(self, x: R) -> A:
        """The smallest integer not below ``x``; integers are returned as they are."""

    @abstractmethod
    def round(self, x: N) -> A:
        """The nearest integer, halves to even, of complex numbers in both parts; integers are
        returned as they are."""

    @abstractmethod
    def bitwise_invert(self, x: I) -> A:
        """Every bit flipped; on bool, logical not."""

    # binary: operands of one dtype, broadcast like NumPy

    @abstractmethod
    def add(self, x: N, y: N) -> A:
        """``x + y``; integers wrap."""

    @abstractmethod
    def subtract(self, x: N, y: N) -> A:
        """``x - y``; integers wrap."""

    @abstractmethod
    def multiply(self, x: N, y: N) -> A:
        """``x * y``; integers wrap."""

    @abstractmethod
    def divide(self, x: F, y: F) -> A:
        """``x / y``, floating."""

    @abstractmethod
    def floor_divide(self, x: R, y: R) -> A:
        """``floor(x / y)`` in the operands' dtype, such that ``x = y * floor_divide + remainder``:
        of an infinite ``x`` NaN, of a finite one by an infinity 0 or, where the signs differ, -1
        (as Python and NumPy)."""

    @abstractmethod
    def remainder(self, x: R, y: R) -> A:
        """``x - y * floor(x / y)``: the sign of ``y``. Of an infinite ``x`` NaN."""

    @abstractmethod
    def power(self, x: N, y: N) -> A:
        """``x`` to the power ``y``; integer powers are exact modulo 2^bits, for ``y >= 0``."""

    @abstractmethod
    def atan2(self, x: S, y: S) -> A:
        """The angle of the point (``y``, ``x``) in radians, in [-pi, pi]."""

    @abstractmethod
    def maximum(self, x: Q, y: Q) -> A:
        """The larger; NaN if either is."""

    @abstractmethod
    def minimum(self, x: Q, y: Q) -> A:
        """The smaller; NaN if either is."""

    @abstractmethod
    def equal(self, x: P, y: P) -> A:
        """``x == y`` as bool."""

    @abstractmethod
    def less(self, x: Q, y: Q) -> A:
        """``x < y`` as bool."""

    @abstractmethod
    def bitwise_and(self, x: I, y: I) -> A:
        """Bitwise and; logical on bool."""

    @abstractmethod
    def bitwise_or(self, x: I, y: I) -> A:
        """Bitwise or; logical on bool."""

    @abstractmethod
    def bitwise_xor(self, x: I, y: I) -> A:
        """Bitwise exclusive or; logical on bool."""

    @abstractmethod
    def bitwise_left_shift(self, x: Z, y: Z) -> A:
        """``x << y`` for 0 <= y < bits."""

    @abstractmethod
    def bitwise_right_shift(self, x: Z, y: Z) -> A:
        """``x >> y`` for 0 <= y < bits; the sign is kept."""

    # choice and conversion

    @abstractmethod
    def where(self, condition: A, x: P, y: P) -> A:
        """``x`` where the bool ``condition`` holds, else ``y``; all three broadcast."""

    @abstractmethod
    def cast(self, x: A, dtype: DType) -> A:
        """Another dtype: floats truncate towards zero, integers wrap, bool is ``x != 0``."""

    # reductions: over no axes at all, each element is by itself

    @abstractmethod
    def sum(self, x: A, axis: Axes, keepdims: bool = False) -> A:
        """Sum over axes; bool and integers give int64 (uint64 stays), floats and complex their own
        dtype. Accumulated in the dtype of the result, float16 and bfloat16 in float32, and along
        any axis at least as accurately as pairwise summation."""

    @abstractmethod
    def prod(self, x: A, axis: Axes, keepdims: bool = False) -> A:
        """Product over axes; dtype and accumulation as ``sum``."""

    @abstractmethod
    def max(self, x: Q, axis: Axes, keepdims: bool = False) -> A:
        """Largest element over axes of non-zero size; NaN if there is one."""

    @abstractmethod
    def min(self, x: Q, axis: Axes, keepdims: bool = False) -> A:
        """Smallest element over axes of non-zero size; NaN if there is one."""

    @abstractmethod
    def argmax(self, x: Q, axis: Axis, keepdims: bool = False) -> A:
        """Position of the first maximum along an axis, int64; a NaN counts as the maximum."""

    # contractions

    @abstractmethod
    def matmul(self, x: N, y: N) -> A:
        """(..., m, k) times (..., k, n); leading axes broadcast. Integers wrap; float16 and
        bfloat16 are accumulated in float32."""

    @abstractmethod
    def conv(
        self,
        x: N,
        w: N,
        stride: Shape,
        padding: tuple[tuple[int, int], ...],
        input_dilation: Shape,
        kernel_dilation: Shape,
        groups: int = 1,
    ) -> A:
        """Cross-correlation of ``x`` (batch, channels, *spatial) with ``w`` (features, channels /
        groups, *kernel) over one or more axes: first ``input_dilation - 1`` zeros go between the
        elements of ``x``, then ``padding`` (low, high) per axis is added, or cropped where
        negative. The result is (batch, features, *out): of n > 0 elements and a kernel of k,
        ``((n - 1) * input_dilation + low + high - (k - 1) * kernel_dilation) // stride + 1``.
        Accumulation as ``matmul``."""

    # ---- you get these for free, and every derived operation (class DerivedOps) ----------------
    # Override one where the backend does better; results must stay the same.

    def to_dlpack(
        self,
        x: A,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule of ``x``, flagged read-only where the version allows: arguments as of
        ``__dlpack__``. As inherited, over host memory: what the adapter's ``__array__`` gives,
        NumPy's protocol, if it has one, else ``to_host``."""
        from fl_tensor.exchange import dlpack  # which loads NumPy

        return dlpack.to_dlpack(x, self, stream, max_version, dl_device, copy)

    def dlpack_device(self, x: A) -> tuple[int, int]:
        """What ``__dlpack_device__`` gives for ``x``: DLPack's device type and number. As
        inherited, the host."""
        return (1, 0)

    def from_dlpack(self, source: Any, device: Device) -> A | None:
        """A value over the memory of the DLPack producer ``source``, which nobody will write to; or
        None where that takes a copy, as inherited: the front end then makes one."""
        return None

    def stream(self, device: Device) -> Any:
        """The queue that work on ``device`` goes to here, as the backend's own library has it; None
        where there is none, as inherited."""
        return None

    def evaluate(self, values: Sequence[A]) -> None:
        """Compute these values, if their operations were deferred; as inherited, there is nothing
        to do. A deferred backend also computes a value when its data is asked for."""
        return None

    def is_ready(self, x: A) -> bool:
        """Whether the data of ``x`` can be read without computing or waiting; as inherited, always.
        A check that is left out rather than paid for asks this first."""
        return True

    def call_composition(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """``function(self, *arguments)`` for a composition that is decorated with
        ``fl_tensor.composition.cached_composition``: a derived operation or a gradient rule. The
        operations that it calls depend on shapes, dtypes and plain values alone, so a deferred
        backend may record at once what it called for such arguments before; the result is the same.
        Only the method of a backend's own class is called: a derived class, which may compute
        something differently, defines it again. As inherited, the function runs."""
        return function(self, *arguments)

    def prepare(self, graph: Any, names: Sequence[str]) -> Callable[..., tuple[A, ...]] | None:
        """A function that computes a captured ``fl_tensor.graph.Graph``, or None: ``ft.compile``
        then calls this backend's operations one by one.

        It takes a list with an adapter for each of ``graph.inputs``, and a sequence with a number
        for each of ``names``, and returns an adapter for each of ``graph.outputs``. A parameter of
        a node that changes from call to call is a ``graph.HostExpression`` of these names.
        Operands stay as they are. A function whose attribute ``donates`` is true may write over
        those that nothing but the list refers to: ``ft.compile`` then takes the state that the
        graph replaces out of its places for the call. The function may add to the list and replace
        its elements. After an error these go back to where they were.
        Only the method of a backend's own class is called, as with ``call_composition``.
        """
        return None

    def cond(self, predicate: A, xs: Sequence[A], then: Any, other: Any) -> tuple[A, ...]:
        """The results of one of two ``fl_tensor.graph.Graph``s of ``xs``: of ``then`` where the
        bool ``predicate``, of shape (), is true. Both graphs have outputs of the same types. As
        inherited, the graph that is chosen runs on this backend."""
        from fl_tensor.graph import control

        return control.cond(self, predicate, xs, then, other)

    def while_loop(
        self,
        xs: Sequence[A],
        test: Any,
        body: Any,
        carries: int,
        most: int,
        keep: bool = False,
    ) -> tuple[A, ...]:
        """``xs`` are the first carry, so many as ``carries``, and values that stay. While the graph
        ``test`` of all of them is true, the graph ``body`` of them gives the next carry. Returns
        the last one. With ``keep`` also the number of trips, int64 of shape (), and each carry
        before each trip: (most, ...), zeros from the last trip on. ArgumentError after ``most``
        trips. As inherited, the graphs run on this backend."""
        from fl_tensor.graph import control

        return control.while_loop(self, xs, test, body, carries, most, keep)

    def scan(
        self,
        xs: Sequence[A],
        count: A | None,
        body: Any,
        carries: int,
        scanned: int,
        steps: int,
        reverse: bool = False,
    ) -> tuple[A, ...]:
        """``xs`` are the first carry, so many as ``carries``, values that stay, and at the end so
        many as ``scanned`` of which each step gets one row: (steps, ...). The graph ``body`` of
        carry, values and rows gives the next carry, and values of the step. Returns the last carry
        and the values of all steps: (steps, ...). ``reverse``: the last row comes first, values
        stay in the order of the rows. ``count``, an integer of shape (): so many rows from the
        first one are used, and the values of the others are zeros. As inherited, the graph runs on
        this backend."""
        from fl_tensor.graph import control

        return control.scan(self, xs, count, body, carries, scanned, steps, reverse)

    def constant(self, value: Scalar, like: A) -> A:
        """A 0-d value with the dtype and device of ``like``."""
        return self.scalar(value, like.dtype, like.device)

    def scalar(self, value: Scalar, dtype: DType, device: Device) -> A:
        """A 0-d value; made once and kept."""
        # 0.0 and -0.0 are equal keys; repr tells them apart.
        key = (value or repr(value), type(value), dtype, device)
        try:
            return self._scalars[key]
        except (AttributeError, KeyError):
            cache: dict[Any, A] = self.__dict__.setdefault("_scalars", {})
            if len(cache) > 4096:
                cache.clear()
            cache[key] = self.full((), value, dtype, device)
            return cache[key]
