"""``null``: shape and dtype inference without data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn

from fl_tensor import capability_rules, dtypes, rules
from fl_tensor.backend import TensorAdapter, TensorBackend
from fl_tensor.capabilities import CAPABILITIES
from fl_tensor.device import CPU, Device
from fl_tensor.dispatch import registry
from fl_tensor.dtypes import DType
from fl_tensor.errors import NoDataError


class NullAdapter(TensorAdapter):
    """A shape, a dtype and a device."""

    __slots__ = ("spec",)

    def __init__(self, spec: rules.Spec) -> None:
        self.spec = spec

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> DType:
        return self.spec.dtype

    @property
    def device(self) -> Device:
        return self.spec.device


def _ruled(rule: Callable[..., rules.Spec]) -> Any:
    def operation(self: NullBackend, *arguments: Any, **options: Any) -> NullAdapter:
        return NullAdapter(rule(*arguments, **options))

    return operation


def _several(rule: Callable[..., tuple[rules.Spec, ...]]) -> Any:
    def operation(self: NullBackend, *arguments: Any, **options: Any) -> tuple[NullAdapter, ...]:
        return tuple(NullAdapter(spec) for spec in rule(*arguments, **options))

    return operation


def _of_types(types: Iterable[tuple[tuple[int, ...], DType]]) -> tuple[NullAdapter, ...]:
    return tuple([NullAdapter(rules.Spec(shape, dtype, CPU)) for shape, dtype in types])


def _elementwise(rule: Callable[..., rules.Spec], op: str) -> Any:
    def operation(self: NullBackend, *operands: Any) -> NullAdapter:
        return NullAdapter(rule(op, *operands))

    return operation


def _elsewhere() -> str:
    others = [name for name in registry.available_backends() if name != "null"]
    return f"such as ft.use({others[0]!r})" if others else "and install one"


def _selection(op: str) -> Any:
    def operation(self: NullBackend, x: Any, axis: Any, keepdims: bool = False) -> NullAdapter:
        axes = axis if isinstance(axis, tuple) else (axis,)
        dtype = dtypes.int64 if op == "argmax" else x.dtype
        return NullAdapter(rules.selection(op, x, axes, keepdims, dtype))

    return operation


class NullBackend(TensorBackend):
    """Every primitive is its rule."""

    CONTRACT = (1, 1)
    name = "null"
    dtypes: ClassVar[frozenset[DType]] = frozenset(dtypes.ALL.values())
    capabilities = frozenset(CAPABILITIES) - {"memory"}
    checks_shapes = True
    has_values = False

    def devices(self) -> list[Device]:
        return [CPU]

    def synchronize(self, device: Device) -> None:
        """Nothing is ever queued."""

    def like(self, arguments: Any) -> Any:
        """``arguments`` with every value of another backend replaced by its shape and dtype."""
        if isinstance(arguments, (tuple, list)):
            return type(arguments)(self.like(a) for a in arguments)
        if not hasattr(arguments, "shape") or not hasattr(arguments, "dtype"):
            return arguments
        if isinstance(arguments, memoryview):
            return arguments
        return NullAdapter(rules.Spec(tuple(arguments.shape), arguments.dtype, arguments.device))

    def to_host(self, x: Any, blocking: bool = True) -> NoReturn:
        raise NoDataError(
            f"backend 'null' has no data, only the shape {x.shape} of {x.dtype}: choose a backend "
            f"that computes, {_elsewhere()}. A program that is captured cannot decide by data in "
            f"Python: use ft.cond, ft.while_loop or ft.where"
        )

    def nonzero(self, x: Any) -> NoReturn:
        raise NoDataError(
            f"backend 'null' cannot tell how many elements are not zero: choose a backend that "
            f"computes, {_elsewhere()}"
        )

    def cond(self, predicate: Any, xs: Any, then: Any, other: Any) -> tuple[NullAdapter, ...]:
        """The types of both branches."""
        from fl_tensor.graph import control

        control.check_cond(predicate, xs, then, other)
        return _of_types((v.shape, v.dtype) for v in then.outputs)

    def while_loop(
        self, xs: Any, test: Any, body: Any, carries: int, most: int, keep: bool = False
    ) -> tuple[NullAdapter, ...]:
        """The types of the carry."""
        from fl_tensor.graph import control

        control.check_while(xs, test, body, carries, most)
        types = [(v.shape, v.dtype) for v in body.outputs]
        if keep:
            types += [((), dtypes.int64), *(((most, *shape), dtype) for shape, dtype in types)]
        return _of_types(types)

    def scan(
        self,
        xs: Any,
        count: Any,
        body: Any,
        carries: int,
        scanned: int,
        steps: int,
        reverse: bool = False,
    ) -> tuple[NullAdapter, ...]:
        """The types of the carry, and of all steps together."""
        from fl_tensor.graph import control

        control.check_scan(xs, count, body, carries, scanned, steps)
        types = [(v.shape, v.dtype) for v in body.outputs]
        steps_of = [((steps, *shape), dtype) for shape, dtype in types[carries:]]
        return _of_types([*types[:carries], *steps_of])

    full = _ruled(rules.full)
    arange = _ruled(rules.arange)
    from_host = _ruled(rules.from_host)
    random_bits = _ruled(rules.random_bits)
    reshape = _ruled(rules.reshape)
    permute = _ruled(rules.permute)
    broadcast_to = _ruled(rules.broadcast_to)
    concatenate = _ruled(rules.concatenate)
    pad = _ruled(rules.pad)
    slice = _ruled(rules.slice)
    gather = _ruled(rules.gather)
    scatter = _ruled(rules.scatter)
    sort = _ruled(rules.sort)
    argsort = _ruled(rules.argsort)
    cumulative_sum = _ruled(rules.cumulative_sum)
    where = _ruled(rules.where)
    cast = _ruled(rules.cast)
    sum = _ruled(rules.accumulation)
    prod = _ruled(rules.accumulation)
    max = _selection("max")
    min = _selection("min")
    argmax = _selection("argmax")
    matmul = _ruled(rules.matmul)
    conv = _ruled(rules.conv)
    negative = _elementwise(rules.unary, "negative")
    absolute = _elementwise(rules.magnitude, "absolute")
    sign = _elementwise(rules.unary, "sign")
    exp = _elementwise(rules.unary, "exp")
    expm1 = _elementwise(rules.unary, "expm1")
    log = _elementwise(rules.unary, "log")
    log1p = _elementwise(rules.unary, "log1p")
    sqrt = _elementwise(rules.unary, "sqrt")
    sin = _elementwise(rules.unary, "sin")
    cos = _elementwise(rules.unary, "cos")
    tanh = _elementwise(rules.unary, "tanh")
    erf = _elementwise(rules.unary, "erf")
    floor = _elementwise(rules.unary, "floor")
    ceil = _elementwise(rules.unary, "ceil")
    round = _elementwise(rules.unary, "round")
    bitwise_invert = _elementwise(rules.unary, "bitwise_invert")
    add = _elementwise(rules.binary, "add")
    subtract = _elementwise(rules.binary, "subtract")
    multiply = _elementwise(rules.binary, "multiply")
    divide = _elementwise(rules.binary, "divide")
    floor_divide = _elementwise(rules.binary, "floor_divide")
    remainder = _elementwise(rules.binary, "remainder")
    power = _elementwise(rules.binary, "power")
    atan2 = _elementwise(rules.binary, "atan2")
    maximum = _elementwise(rules.binary, "maximum")
    minimum = _elementwise(rules.binary, "minimum")
    bitwise_and = _elementwise(rules.binary, "bitwise_and")
    bitwise_or = _elementwise(rules.binary, "bitwise_or")
    bitwise_xor = _elementwise(rules.binary, "bitwise_xor")
    bitwise_left_shift = _elementwise(rules.binary, "bitwise_left_shift")
    bitwise_right_shift = _elementwise(rules.binary, "bitwise_right_shift")
    real = _elementwise(rules.part, "real")
    imag = _elementwise(rules.part, "imag")
    conj = _elementwise(rules.conjugate, "conj")
    equal = _elementwise(rules.comparison, "equal")
    less = _elementwise(rules.comparison, "less")
    # optional
    cholesky = _ruled(capability_rules.cholesky)
    qr = _several(capability_rules.qr)
    svd = _several(capability_rules.svd)
    eigh = _several(capability_rules.eigh)
    eig = _several(capability_rules.eig)
    solve = _ruled(capability_rules.solve)
    slogdet = _several(capability_rules.slogdet)
    fft = _ruled(capability_rules.fft)
    ifft = _ruled(capability_rules.ifft)
    rfft = _ruled(capability_rules.rfft)
    irfft = _ruled(capability_rules.irfft)
