"""Elementwise arithmetic, comparisons, casts."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from counterparts.calls import Function

SAME_NAME = """
acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor ceil conj copysign cos cosh deg2rad digamma erf erfinv exp exp2
expm1 floor lgamma xlogy
floor_divide fmax fmin hypot imag isfinite isinf isnan isneginf isposinf log log10 log1p log2
logaddexp logical_and logical_not logical_or logical_xor maximum minimum nextafter positive rad2deg
real reciprocal remainder rsqrt sigmoid sign signbit sin sinh sqrt square tan tanh trunc
""".split()

OTHER_NAME = {
    "abs": "absolute", "angle": "angle", "bitwise_not": "bitwise_invert", "eq": "equal",
    "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less", "ne": "not_equal",
    "mul": "multiply", "neg": "negative", "pow": "power", "max.binary": "maximum",
    "min.binary": "minimum", "conj_physical": "conj", "resolve_conj": "positive",
    "resolve_neg": "positive", "clone": "positive", "alias_copy": "positive",
    "contiguous": "positive", "fmod": "fmod", "true_divide": "divide",
}  # fmt: skip


def _named(name: str) -> Function:
    def call(*args: Any, **options: Any) -> Any:
        if name == "remainder" and not hasattr(args[0], "shape"):
            args = (ft.asarray(args[0], dtype=args[1].dtype), *args[1:])
        if "other" in options:
            args = (*args, options.pop("other"))
        return getattr(ft, name)(*args, **options)

    return call


def _scaled(function: Function) -> Function:
    """``add`` and its like take ``alpha``, a factor of the second operand."""
    return lambda x, y, alpha=1: function(x, y if alpha == 1 else ft.multiply(y, alpha))


def _reflected(function: Function) -> Function:
    """``__radd__`` and its like exchange their operands."""
    return lambda x, y: function(y, x)


def _divide(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return ft.floor_divide(x, y)
    quotient = ft.divide(x, y)
    return ft.trunc(quotient) if rounding_mode == "trunc" else quotient


def _clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return ft.clip(x, min, max)


def _lerp(x: Any, y: Any, weight: Any) -> Any:
    return x + weight * (y - x)


def _frac(x: Any) -> Any:
    return x - ft.trunc(x)


def _sinc(x: Any) -> Any:
    zero = ft.equal(x, 0)
    angle = ft.where(zero, 1.0, x) * math.pi
    return ft.where(zero, 1.0, ft.sin(angle) / angle)


def _polygamma(x: Any, n: int) -> Any:
    return ft.polygamma(n, x)


def _heaviside(x: Any, values: Any) -> Any:
    step = ft.greater(x, 0).astype(x.dtype)
    return ft.where(ft.equal(x, 0), values, ft.where(ft.isnan(x), x, step))


def _cast(name: str) -> Function:
    return lambda x, **_: x.astype(name)


def _masked_fill(x: Any, mask: Any, value: Any) -> Any:
    return ft.where(mask, ft.asarray(value).astype(x.dtype) if _is_array(value) else value, x)


def _is_array(value: Any) -> bool:
    return hasattr(value, "astype")


def _addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + value * a * b


def _addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + value * (a / b)


def _isclose(
    x: Any, y: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    return ft.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)


def _nan_to_num(x: Any, nan: float | None = None, posinf: Any = None, neginf: Any = None) -> Any:
    return ft.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


def _logit(x: Any, eps: float | None = None) -> Any:
    return ft.logit(x if eps is None else ft.clip(x, eps, 1 - eps))


def _ldexp(x: Any, exponent: Any) -> Any:
    return x * ft.exp2(exponent.astype(x.dtype) if exponent.dtype.is_integer else exponent)


def _sgn(x: Any) -> Any:
    return ft.sign(x)


def _where(x: Any, condition: Any, y: Any) -> Any:
    return ft.where(condition, x, y)


TABLE: dict[str, Function] = {name: _named(name) for name in SAME_NAME}
TABLE |= {theirs: _named(ours) for theirs, ours in OTHER_NAME.items() if hasattr(ft, ours)}
TABLE |= {
    "add": _scaled(ft.add),
    "sub": _scaled(ft.subtract),
    "rsub": lambda x, y, alpha=1: ft.subtract(y, x if alpha == 1 else ft.multiply(x, alpha)),
    "__radd__": _reflected(ft.add),
    "__rsub__": _reflected(ft.subtract),
    "__rmul__": _reflected(ft.multiply),
    "__rdiv__": _reflected(ft.divide),
    "__rpow__": _reflected(ft.power),
    "__rmod__": lambda x, y: ft.remainder(ft.full_like(x, y) if not _is_array(y) else y, x),
    "__rand__": _reflected(ft.bitwise_and),
    "__ror__": _reflected(ft.bitwise_or),
    "__rxor__": _reflected(ft.bitwise_xor),
    "div.no_rounding_mode": _divide,
    "div.floor_rounding": _divide,
    "div.trunc_rounding": _divide,
    "float_power": lambda x, y: ft.power(_double(x), _double(y)),
    "clamp": _clamp,
    "clamp_max": lambda x, high: ft.clip(x, None, high),
    "clamp_min": lambda x, low: ft.clip(x, low, None),
    "lerp": _lerp,
    "frac": _frac,
    "sinc": _sinc,
    **{f"polygamma.polygamma_n_{n}": _polygamma for n in range(5)},
    "special.polygamma.special_polygamma_n_0": _polygamma,
    "special.xlog1py": lambda x, y: ft.where(
        ft.equal(x, 0) & ~ft.isnan(y), 0.0 * x, x * ft.log1p(y)
    ),
    "special.entr": lambda x: ft.where(
        ft.equal(x, 0), 0.0 * x, ft.where(ft.less(x, 0), -math.inf, -x * ft.log(x))
    ),
    "special.ndtr": lambda x: _normal_cdf(x),
    "erfc": lambda x: 1.0 - ft.erf(x),
    "heaviside": _heaviside,
    "logaddexp2": lambda x, y: ft.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2),
    "masked_fill": _masked_fill,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "isclose": _isclose,
    "isreal": lambda x: ft.equal(ft.imag(x), 0) if x.dtype.kind == "c" else ft.equal(x, x) | True,
    "nan_to_num": _nan_to_num,
    "logit": _logit,
    "ldexp": _ldexp,
    "sgn": _sgn,
    "where": _where,
    "complex": lambda re, im: re + 1j * im,
    "polar": lambda r, angle: r * (ft.cos(angle) + 1j * ft.sin(angle)),
    "fill": lambda x, value: ft.full_like(x, value),
    "zero_": lambda x: ft.zeros_like(x),
    "round": lambda x, decimals=0: ft.round(x, decimals=decimals) if decimals else ft.round(x),
    "round.decimals_0": lambda x, decimals: ft.round(x, decimals=decimals),
    "round.decimals_3": lambda x, decimals: ft.round(x, decimals=decimals),
    "round.decimals_neg_3": lambda x, decimals: ft.round(x, decimals=decimals),
    "bool": _cast("bool"),
    "byte": _cast("uint8"),
    "char": _cast("int8"),
    "short": _cast("int16"),
    "int": _cast("int32"),
    "long": _cast("int64"),
    "half": _cast("float16"),
    "bfloat16": _cast("bfloat16"),
    "float": _cast("float32"),
    "double": _cast("float64"),
    "cfloat": _cast("complex64"),
    "cdouble": _cast("complex128"),
}


def _double(x: Any) -> Any:
    if not _is_array(x):
        return ft.asarray(x, dtype="complex128" if isinstance(x, complex) else "float64")
    return x.astype("complex128" if x.dtype.kind == "c" else "float64")


def _normal_cdf(x: Any) -> Any:
    return 0.5 * (1.0 + ft.erf(x / math.sqrt(2.0)))
