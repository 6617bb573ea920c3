"""Random calls of NumPy's functions that are operations of the contract, or public functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy_draw import Calls, Draw, special, unary, vectors


def numbers(d: Draw) -> tuple[Any, ...]:
    return (d.numbers(),)


def pair(d: Draw) -> tuple[Any, ...]:
    return d.pair(d.floats)


def whole_pair(d: Draw) -> tuple[Any, ...]:
    return d.pair(lambda *shape: d.ints(*shape, low=0))


def special_pair(d: Draw) -> tuple[Any, ...]:
    return d.pair(d.special)


def reduced(kind: str) -> Any:
    def draw(d: Draw) -> tuple[Any, ...]:
        x = getattr(d, kind)(*d.shape(1))
        axes = d.axis(x, None, tuple(range(x.ndim)))
        return x, {"axis": axes, "keepdims": d.one(False, True)}

    return draw


def searched(kind: str) -> Any:
    def draw(d: Draw) -> tuple[Any, ...]:
        x = getattr(d, kind)(*d.shape(1))
        return x, {"axis": d.axis(x)}

    return draw


def quantiles(scale: float, kind: str) -> Any:
    def draw(d: Draw) -> tuple[Any, ...]:
        x = getattr(d, kind)(*d.shape(1))
        q = d.one(0.25, 0.0, 1.0, np.array([0.1, 0.7]))
        method = d.one("linear", "lower", "higher", "midpoint", "nearest")
        return x, q * scale, {"axis": d.axis(x, None), "method": method}

    return draw


def histogram(d: Draw) -> tuple[Any, ...]:
    x = d.floats(d.number(1, 20))
    bins = d.one(5, np.array([-3.0, -1.0, 0.5, 4.0]))
    weights = d.one(None, d.positive(x.size))
    return x, bins, {"range": (-5.0, 5.0), "weights": weights, "density": d.one(False, True)}


def squeezed(d: Draw) -> tuple[Any, ...]:
    return d.floats(1, 3, 1), d.one(None, 0, (0, 2))


def products(d: Draw) -> tuple[Any, ...]:
    return d.one((d.floats(2, 3), d.floats(3, 4)), (d.floats(3), d.floats(2, 3, 1)))


def dotted(d: Draw) -> tuple[Any, ...]:
    return "ij,jk->ik", d.floats(2, 3), d.floats(3, 4)


def found(d: Draw) -> tuple[Any, ...]:
    places = np.sort(d.ints(6, low=0, high=8))
    return places, d.ints(*d.shape(), low=0, high=8), d.one("left", "right")


def along(d: Draw) -> tuple[Any, ...]:
    x = d.floats(3, 4)
    return x, d.ints(3, 4, low=0, high=2), d.one(0, 1)


def shifted(d: Draw) -> tuple[Any, ...]:
    x = d.numbers()
    return x, d.number(-9, 9), d.axis(x, None)


def padded(d: Draw) -> tuple[Any, ...]:
    mode = d.one("constant", "edge", "reflect", "symmetric", "wrap")
    return d.floats(2, 3), d.one(1, ((1, 2), (0, 3))), mode


_UNARY = """absolute asinh atan cbrt ceil conj cos cosh deg2rad exp exp2 expm1 floor imag isfinite
    isinf isnan isneginf isposinf negative positive rad2deg real sign sin sinh square tan tanh
    trunc"""
_BINARY = """add atan2 copysign divide equal fmax fmin greater greater_equal hypot isclose less
    less_equal logaddexp maximum minimum multiply not_equal subtract"""
_BITS = "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor"
_LOGIC = "logical_and logical_or logical_xor"

CALLS: Calls = {
    **dict.fromkeys(_UNARY.split(), special),
    **dict.fromkeys(("log", "log10", "log1p", "log2", "sqrt"), lambda d: (d.positive(),)),
    **dict.fromkeys(("acos", "asin", "atanh"), lambda d: (np.asarray(np.tanh(d.floats())),)),
    "acosh": lambda d: (1.0 + d.positive(),),
    "angle": lambda d: (d.complex(),),
    "reciprocal": lambda d: (d.positive(),),
    "round": lambda d: (d.numbers(), d.number(-1, 2)),
    "bitwise_invert": lambda d: (d.ints(),),
    "logical_not": numbers,
    "signbit": unary,
    "nan_to_num": special,
    **dict.fromkeys(_BINARY.split(), special_pair),
    **dict.fromkeys(_BITS.split(), whole_pair),
    **dict.fromkeys(_LOGIC.split(), pair),
    **dict.fromkeys(("remainder", "floor_divide"), lambda d: d.pair(d.signed)),
    "power": lambda d: d.pair(d.positive),
    "nextafter": pair,
    "allclose": lambda d: d.one((x := d.floats(), x + 1e-9), d.pair(d.floats)),
    "array_equal": lambda d: d.one((x := d.ints(), x), d.pair(d.floats)),
    "clip": lambda d: (d.special(), d.one(-1.0, None), d.floats(1)),
    "where": lambda d: d.one((d.bools(3), *d.floats(2, 3)), (d.bools(3, 1), d.floats(3), 2.0)),
    # reductions
    **dict.fromkeys(("all", "any", "count_nonzero"), reduced("bools")),
    **dict.fromkeys(("max", "min", "sum", "prod"), reduced("numbers")),
    **dict.fromkeys(("mean", "median", "std", "var"), reduced("floats")),
    **dict.fromkeys(
        "nanmax nanmean nanmin nanstd nanvar nansum nanprod nanmedian".split(), reduced("holes")
    ),
    **dict.fromkeys(("argmax", "argmin", "argsort", "sort"), searched("floats")),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), searched("numbers")),
    **dict.fromkeys(("nanargmax", "nanargmin"), searched("floats")),
    "average": lambda d: (x := d.floats(*d.shape(1)), None, d.one(None, d.positive(*x.shape))),
    "quantile": quantiles(1.0, "floats"),
    "nanquantile": quantiles(1.0, "holes"),
    "percentile": quantiles(100.0, "floats"),
    "diff": lambda d: (d.floats(3, 4), d.number(0, 2), d.one(0, 1)),
    "bincount": lambda d: (d.ints(9, low=0), d.one(None, d.floats(9)), d.one(0, 12)),
    "histogram": histogram,
    "searchsorted": found,
    # products
    "matmul": products,
    "einsum": dotted,
    "cross": lambda d: (d.floats(2, 3), d.one(d.floats(3), d.floats(2, 3))),
    "dot": lambda d: d.one((d.floats(3), d.floats(3)), (d.floats(2, 3), d.floats(3))),
    "inner": lambda d: (d.floats(2, 3), d.floats(4, 3)),
    "kron": lambda d: (d.numbers(*d.shape(1)), d.numbers(*d.shape(1))),
    "outer": vectors,
    "tensordot": lambda d: (d.floats(2, 3, 4), d.floats(3, 4, 2), d.one(2, ((2, 0), (1, 2)))),
    "vecdot": lambda d: (d.complex(2, 3), d.complex(3)),
    # shapes and places
    "broadcast_arrays": pair,
    "broadcast_shapes": lambda d: tuple(x.shape for x in d.pair(d.floats)),
    "broadcast_to": lambda d: (d.floats(3, 1), d.one((3, 2), (2, 3, 4))),
    "reshape": lambda d: (d.floats(2, 6), d.one((3, 4), (-1, 2), -1)),
    "squeeze": squeezed,
    "expand_dims": lambda d: (d.floats(2, 3), d.one(0, -1, (0, 2))),
    "moveaxis": lambda d: (d.floats(2, 3, 4), *d.one((0, -1), ((0, 1), (2, 0)))),
    "swapaxes": lambda d: (x := d.floats(2, 3, 4), d.axis(x), d.axis(x)),
    "flip": lambda d: (x := d.floats(*d.shape(1)), d.axis(x, None)),
    "roll": shifted,
    "repeat": lambda d: (x := d.numbers(), d.number(0, 3), d.axis(x, None)),
    "tile": lambda d: (d.numbers(), d.one(2, (2, 3), (1, 2, 2, 1))),
    "pad": padded,
    "stack": lambda d: ([d.floats(2, 3), d.ints(2, 3)], d.one(0, 1, -1)),
    "concatenate": lambda d: ([d.floats(2, 3), d.ints(2, 3)], d.one(0, 1, -1)),
    "split": lambda d: (d.floats(6, 4), d.one(1, 2), d.one(0, 1)),
    "unstack": lambda d: (d.floats(3, 4),),
    "diag": lambda d: (d.one(d.floats(3), d.floats(3, 4)), d.number(-2, 2)),
    "diagonal": lambda d: (d.floats(3, 4, 2), d.number(-1, 1), *d.one((0, 1), (2, 0))),
    **dict.fromkeys(("tril", "triu"), lambda d: (d.floats(*d.shape(2)), d.number(-2, 2))),
    "take": lambda d: (d.floats(3, 4), d.ints(2, low=-3, high=2), d.one(None, 0, 1)),
    "take_along_axis": along,
    **dict.fromkeys(("nonzero", "argwhere"), lambda d: (d.ints(*d.shape(1), low=0, high=1),)),
    "isin": lambda d: (d.ints(), d.ints(3)),
    "unique": lambda d: (d.ints(9, low=0, high=5), True, True, True),
    "unique_counts": lambda d: (d.ints(9, low=0, high=5),),
    # creation
    "arange": lambda d: d.one((d.number(1, 9),), (d.number(0, 3), 9, 2), (9, 1, -3)),
    "linspace": lambda d: (-1.0, 2.5, d.number(2, 9)),
    "logspace": lambda d: (-1.0, 1.5, d.number(2, 9)),
    "geomspace": lambda d: (0.5, 20.0, d.number(2, 9)),
    "eye": lambda d: (d.number(1, 4), d.one(None, 3), d.number(-2, 2)),
    "meshgrid": lambda d: (d.floats(3), d.floats(2), {"indexing": d.one("xy", "ij")}),
    **dict.fromkeys(("tril_indices", "triu_indices"), lambda d: (d.number(1, 4), d.number(-2, 2))),
    **dict.fromkeys(("zeros", "ones"), lambda d: (d.shape(),)),
    **dict.fromkeys(("zeros_like", "ones_like"), unary),
    "full": lambda d: (d.shape(), 2.5),
    "full_like": lambda d: (d.floats(), 2.5),
}
