"""``jit``: the NumPy backend, deferred.

Elementwise operations, reductions, changes of shape, contractions and random bits on arrays that
are large enough are put off; everything else runs at once, as it does in NumPy. Shapes and dtypes
are known, and wrong ones refused, when an operation is called.
"""

from __future__ import annotations

import functools
import math
import os
import threading
from collections.abc import Sequence
from typing import Any, TypeAlias

from fl_tensor import dtypes, rules
from fl_tensor.backends.jit.lazy import Lazy, Stream, Trace
from fl_tensor.backends.jit.operations import Operation, Parameters
from fl_tensor.backends.jit.plans import Plans
from fl_tensor.backends.jit.worth import Worth
from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy.adapter import Number, NumpyAdapter, is_sole_owner
from fl_tensor.backends.numpy.kept import held
from fl_tensor.backends.numpy.ufuncs import unless_small
from fl_tensor.derived import pooling, pooling_gradient, sequence
from fl_tensor.device import CPU, Device
from fl_tensor.dtypes import DType
from fl_tensor.roles import Scalar, Shape

Value = NumpyAdapter
Padding: TypeAlias = tuple[tuple[int, int], ...]
#: Adapters whose array is no further away than a look.
_PLAIN = frozenset((NumpyAdapter, Lazy))


_broadcast = functools.lru_cache(maxsize=4096)(rules.broadcast)


def _unary(name: str) -> Any:
    eager = getattr(NumpyBackend, name)

    def operation(self: JitBackend, x: Value) -> Value:
        if not self._waits(x):
            return eager(self, x)
        dtype = dtypes.real_of(x.dtype) if name == "absolute" else x.dtype
        return self.pending.record(name, (x,), (), x.shape, dtype)

    return unless_small(eager, operation)


def _rounding(name: str) -> Any:
    lazily = _unary(name)

    def operation(self: JitBackend, x: Value) -> Value:
        return x if x.dtype.is_integer else lazily(self, x)

    return operation


def _binary(name: str, result: DType | None = None) -> Any:
    eager = getattr(NumpyBackend, name)

    def operation(self: JitBackend, x: Value, y: Value) -> Value:
        if not self._waits(x, y):
            return eager(self, x, y)
        left, right = x.shape, y.shape
        shape = left if left == right or not right else _broadcast(name, left, right)
        return self.pending.record(name, (x, y), (), shape, result or x.dtype)

    return unless_small(eager, operation)


def _reduction(name: str, accumulate: bool) -> Any:
    eager = getattr(NumpyBackend, name)

    def operation(
        self: JitBackend, x: Value, axis: tuple[int, ...], keepdims: bool = False
    ) -> Value:
        if not self._waits(x):
            return eager(self, x, axis, keepdims)
        if accumulate:
            spec = rules.accumulation(x, axis, keepdims)
        else:
            spec = rules.selection(name, x, axis, keepdims, x.dtype)
        parameters = (tuple(axis), bool(keepdims))
        return self.pending.record(name, (x,), parameters, spec.shape, spec.dtype)

    return operation


def _pairs(padding: Padding) -> Padding:
    return tuple([(low, high) for low, high in padding])


class JitBackend(NumpyBackend):
    """NumPy's arithmetic, put off until somebody looks."""

    CONTRACT = (1, 1)
    name = "jit"
    #: Operations on at least so many elements are put off.
    smallest: int = 8192

    def __init__(self) -> None:
        # Of the instance, where the interpreter finds it sooner.
        self.smallest = int(os.environ.get("FL_JIT_SMALLEST") or type(self).smallest)
        self.eager = NumpyBackend()
        self.worth = Worth()
        self.plans = Plans(self.eager, worth=self.worth)
        self._threads = threading.local()

    def synchronize(self, device: Device) -> None:
        """Run what this thread has put off."""
        self.pending.run()

    def evaluate(self, values: Sequence[Value]) -> None:
        """Run what this thread has put off, and whatever else these values need."""
        self.pending.run()
        for x in values:
            x.array  # noqa: B018 - of another thread: now it is there

    @property
    def pending(self) -> Trace:
        """What this thread has put off."""
        try:
            return self._threads.trace
        except AttributeError:
            self._threads.trace = Trace(self._execute)
            return self._threads.trace

    def _execute(self, trace: Trace, seen: list[bool]) -> None:
        self.plans.execute(trace, seen)

    def _waits(self, *operands: Any) -> bool:
        # Whether an operation is to be put off: an operand is not there yet, or it is large.
        largest = 0
        for x in operands:
            kind = x.__class__
            if kind is Lazy and x.trace is not None:
                return True
            if kind is Number:
                continue
            size = (x.array if kind in _PLAIN else held(x)).size
            if size > largest:
                largest = size
        return largest >= self.smallest and self.worth.records(largest)

    def _makes(self, shape: Shape) -> bool:
        # Whether to put off what has no operands.
        size = math.prod(shape)
        return bool(shape) and size >= self.smallest and self.worth.records(size)

    def keep_whole(
        self, operation: Operation, operands: Sequence[Value], parameters: Parameters
    ) -> Value | None:
        """Put an operation from outside off as one call; None where its composition is to run."""
        if not self._waits(*operands):
            return None
        found = operation.result(operands, parameters)
        if found is None:
            return None
        return self.pending.record(operation.name, tuple(operands), parameters, *found)

    # creation

    def full(self, shape: tuple[int, ...], value: Scalar, dtype: DType, device: Device) -> Value:
        if not self._makes(shape):
            return super().full(shape, value, dtype, device)
        one = super().full((), value, dtype, device)
        return self.pending.record("full", (one,), (), tuple(shape), dtype)

    def random_bits(self, seed: int, offset: int, shape: tuple[int, ...], device: Device) -> Value:
        if not self._makes(shape):
            return super().random_bits(seed, offset, shape, device)
        stream = Stream(seed, offset)
        return self.pending.record("random_bits", (stream,), (), tuple(shape), dtypes.int32)

    # shape

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        if x.__class__ is NumpyAdapter and x.array.size < self.smallest or not self._waits(x):
            return NumpyBackend.reshape(self, x, shape)
        rules.reshape(x, shape)
        return self.pending.record("reshape", (x,), (tuple(shape),), tuple(shape), x.dtype)

    def permute(self, x: Value, axes: tuple[int, ...]) -> Value:
        if not self._waits(x):
            return super().permute(x, axes)
        shape = rules.permute(x, axes).shape
        return self.pending.record("permute", (x,), (tuple(axes),), shape, x.dtype)

    def broadcast_to(self, x: Value, shape: tuple[int, ...]) -> Value:
        if not self._waits(x):
            return super().broadcast_to(x, shape)
        rules.broadcast_to(x, shape)
        return self.pending.record("broadcast_to", (x,), (tuple(shape),), tuple(shape), x.dtype)

    def concatenate(self, xs: Sequence[Value], axis: int = 0) -> Value:
        if not self._waits(*xs):
            return super().concatenate(xs, axis)
        spec = rules.concatenate(xs, axis)
        return self.pending.record("concatenate", tuple(xs), (axis,), spec.shape, spec.dtype)

    def pad(
        self,
        x: Value,
        low: tuple[int, ...],
        high: tuple[int, ...],
        interior: tuple[int, ...],
        value: Scalar = 0,
    ) -> Value:
        if not self._waits(x):
            return super().pad(x, low, high, interior, value)
        shape = rules.pad(x, low, high, interior, value).shape
        parameters = (tuple(low), tuple(high), tuple(interior), value)
        return self.pending.record("pad", (x,), parameters, shape, x.dtype)

    def slice(
        self, x: Value, starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]
    ) -> Value:
        if x.__class__ is NumpyAdapter or not self._waits(
            x
        ):  # of what is there a view costs nothing
            return NumpyBackend.slice(self, x, starts, sizes, steps)
        shape = rules.slice(x, starts, sizes, steps).shape
        parameters = (tuple(starts), tuple(sizes), tuple(steps))
        return self.pending.record("slice", (x,), parameters, shape, x.dtype)

    def gather(self, x: Value, indices: Value, axis: int = 0) -> Value:
        if not self._waits(x):
            return super().gather(x, indices, axis)
        shape = rules.gather(x, indices, axis).shape
        self._check_indices("gather", x, indices, axis)
        return self.pending.record("gather", (x, indices), (axis,), shape, x.dtype)

    def scatter(
        self,
        x: Value,
        indices: Value,
        updates: Value,
        axis: int = 0,
        mode: str = "set",
        donate: bool = False,
    ) -> Value:
        rules.scatter(x, indices, updates, axis, mode)
        there = x.__class__ is not Lazy or x.trace is None
        given = donate and there and x.array.size >= self.smallest  # a small table is soon copied
        if given or not self._waits(x, updates):
            if donate:
                self._finish_with(x)
            in_place = donate and is_sole_owner(x)
            return self._scatter(x, indices, updates, axis, mode, in_place)
        self._check_indices("scatter", x, indices, axis)
        parameters = (axis, mode)
        return self.pending.record("scatter", (x, indices, updates), parameters, x.shape, x.dtype)

    def slice_update(
        self,
        x: Value,
        starts: tuple[int, ...],
        steps: tuple[int, ...],
        updates: Value,
        donate: bool = False,
    ) -> Value:
        rules.slice(x, starts, updates.shape, steps)
        there = x.__class__ is not Lazy or x.trace is None
        if not there or (not donate and self._waits(updates)):
            # Where it begins is data: a loop over places is one computation.
            begin = [super(JitBackend, self).full((), s, dtypes.int64, CPU) for s in starts]
            record, operands = self.pending.record, (x, updates, *begin)
            return record("slice_update", operands, (tuple(steps),), x.shape, x.dtype)
        if donate:
            self._finish_with(x)
        in_place = donate and is_sole_owner(x)
        return self._slice_update(x, starts, steps, updates, in_place)

    def _finish_with(self, x: Value) -> None:
        # What reads a large array runs before the array is written to: the array is not copied.
        if x.array.size >= self.smallest and self.pending.reads(x):
            self.pending.run()

    def _check_indices(self, op: str, x: Value, indices: Value, axis: int) -> None:
        # What depends on data is checked before the call is put off: the user's line is then at
        # fault, and not the one that looks at the result.
        found = indices.array
        if found.size and (found.min() < 0 or found.max() >= x.shape[axis]):
            raise IndexError(f"[{op}] x {x.shape}: an index is out of range for axis {axis}")

    # elementwise

    negative = _unary("negative")
    absolute = _unary("absolute")
    sign = _unary("sign")
    exp = _unary("exp")
    expm1 = _unary("expm1")
    log = _unary("log")
    log1p = _unary("log1p")
    sqrt = _unary("sqrt")
    sin = _unary("sin")
    cos = _unary("cos")
    tanh = _unary("tanh")
    erf = _unary("erf")
    floor = _rounding("floor")
    ceil = _rounding("ceil")
    round = _rounding("round")
    bitwise_invert = _unary("bitwise_invert")

    add = _binary("add")
    subtract = _binary("subtract")
    multiply = _binary("multiply")
    divide = _binary("divide")
    floor_divide = _binary("floor_divide")
    remainder = _binary("remainder")
    _floating_power = _binary("power")
    atan2 = _binary("atan2")
    maximum = _binary("maximum")
    minimum = _binary("minimum")
    bitwise_and = _binary("bitwise_and")
    bitwise_or = _binary("bitwise_or")
    bitwise_xor = _binary("bitwise_xor")
    bitwise_left_shift = _binary("bitwise_left_shift")
    bitwise_right_shift = _binary("bitwise_right_shift")
    equal = _binary("equal", dtypes.bool)
    less = _binary("less", dtypes.bool)

    def power(self, x: Value, y: Value) -> Value:
        # Integer powers at once: a negative exponent is an error.
        return super().power(x, y) if x.dtype.is_integer else self._floating_power(x, y)

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        if not self._waits(condition, x, y):
            return super().where(condition, x, y)
        shape = rules.where(condition, x, y).shape
        return self.pending.record("where", (condition, x, y), (), shape, x.dtype)

    def cast(self, x: Value, dtype: DType) -> Value:
        if not self._waits(x):
            return super().cast(x, dtype)
        return self.pending.record("cast", (x,), (dtype,), x.shape, dtype)

    # reductions

    sum = _reduction("sum", accumulate=True)
    prod = _reduction("prod", accumulate=True)
    max = _reduction("max", accumulate=False)
    min = _reduction("min", accumulate=False)

    # what NumPy has functions of its own for

    acos, acosh = _unary("acos"), _unary("acosh")
    asin, asinh = _unary("asin"), _unary("asinh")
    atan, atanh = _unary("atan"), _unary("atanh")
    cosh, sinh, tan = _unary("cosh"), _unary("sinh"), _unary("tan")
    log2, log10 = _unary("log2"), _unary("log10")

    # contractions, recurrence and windows

    def recurrent(
        self,
        x: Value,
        state: Value,
        weight: Value,
        bias: Value | None = None,
        cell: str = "tanh",
        lengths: Shape | None = None,
        reverse: bool = False,
    ) -> Value:
        if x.dtype in dtypes.HALF or not self._waits(x, state, weight):
            return super().recurrent(x, state, weight, bias, cell, lengths, reverse)
        _, kept = sequence.fitting(x, state, weight, bias, cell, lengths)
        operands = (x, state, weight) if bias is None else (x, state, weight, bias)
        rest = cell, None if lengths is None else tuple(lengths), bool(reverse)
        shape = (kept, *x.shape[:2], state.shape[2])
        return self.pending.record("recurrent", operands, rest, shape, x.dtype)

    def max_pool(self, x: Value, window: Shape, stride: Shape, padding: Padding) -> Value:
        if not self._waits(x):
            return super().max_pool(x, window, stride, padding)
        return self._pool("max_pool", x, (tuple(window), tuple(stride), _pairs(padding)))

    def avg_pool(
        self,
        x: Value,
        window: Shape,
        stride: Shape,
        padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:
        if not self._waits(x):
            return super().avg_pool(x, window, stride, padding, count_include_pad)
        rest = tuple(window), tuple(stride), _pairs(padding), count_include_pad
        return self._pool("avg_pool", x, rest)

    def _pool(self, op: str, x: Value, rest: tuple[Any, ...]) -> Value:
        shape = (*x.shape[:2], *pooling.output(op, x.shape, *rest[:3]))
        return self.pending.record(op, (x,), rest, shape, x.dtype)

    def max_pool_gradient(
        self,
        gradient: Value,
        x: Value,
        window: Shape,
        stride: Shape,
        padding: Padding,
    ) -> Value:
        rest = tuple(window), tuple(stride), _pairs(padding)
        if not self._waits(gradient, x):
            return super().max_pool_gradient(gradient, x, *rest)
        pooling_gradient.fitting("max_pool_gradient", gradient, x.shape, *rest)
        return self.pending.record("max_pool_gradient", (gradient, x), rest, x.shape, x.dtype)

    def avg_pool_gradient(
        self,
        gradient: Value,
        shape: Shape,
        window: Shape,
        stride: Shape,
        padding: Padding,
        count_include_pad: bool = True,
    ) -> Value:
        rest = tuple(shape), tuple(window), tuple(stride), _pairs(padding)
        if not self._waits(gradient):
            return super().avg_pool_gradient(gradient, *rest, count_include_pad)
        pooling_gradient.fitting("avg_pool_gradient", gradient, *rest)
        parameters = (*rest, count_include_pad)
        record = self.pending.record
        return record("avg_pool_gradient", (gradient,), parameters, rest[0], gradient.dtype)

    def matmul(self, x: Value, y: Value) -> Value:
        if not self._waits(x, y):
            return super().matmul(x, y)
        shape = rules.matmul(x, y).shape
        return self.pending.record("matmul", (x, y), (), shape, x.dtype)

    def conv(
        self,
        x: Value,
        w: Value,
        stride: tuple[int, ...],
        padding: tuple[tuple[int, int], ...],
        input_dilation: tuple[int, ...],
        kernel_dilation: tuple[int, ...],
        groups: int = 1,
    ) -> Value:
        rest: Any = tuple(stride), _pairs(padding), tuple(input_dilation)
        rest += tuple(kernel_dilation), groups
        if not self._waits(x, w):
            return super().conv(x, w, *rest)
        shape = rules.conv(x, w, *rest).shape
        return self.pending.record("conv", (x, w), rest, shape, x.dtype)
