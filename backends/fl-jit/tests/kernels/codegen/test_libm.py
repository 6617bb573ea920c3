"""Elementary functions of kernels: errors in units in the last place, and every special number."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from kernel_programs import run

from fl_jit.kernels.codegen import target
from fl_jit.kernels.codegen.kernel import Kernel
from fl_jit.kernels.codegen.program import Builder
from fl_tensor.dtypes import float32, float64

mpmath.mp.dps = 50
INF, NAN = math.inf, math.nan

EXACT = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "power": mpmath.power,
    "atan2": mpmath.atan2,
}
#: Where each is tried: magnitudes from and to (both signs if True), linearly spaced beside.
RANGES = {
    "exp": (1e-9, 700.0, True),
    "expm1": (1e-30, 700.0, True),
    "log": (1e-300, 1e300, False),
    "log1p": (1e-30, 1e300, False),
    "sigmoid": (1e-9, 700.0, True),
    "tanh": (1e-30, 30.0, True),
    "erf": (1e-30, 7.0, True),
    "sin": (1e-30, 1e12, True),
    "cos": (1e-30, 1e12, True),
    "rsqrt": (1e-300, 1e300, False),
}
#: float32 and float64: what the docstring of maths.py states.
BOUNDS = {
    "exp": (1.0, 1.0),
    "expm1": (2.0, 2.5),
    "log": (1.0, 1.0),
    "log1p": (1.0, 1.0),
    "sigmoid": (2.5, 2.5),
    "tanh": (2.5, 2.5),
    "erf": (2.0, 4.0),
    "sin": (1.5, 1.5),
    "cos": (1.5, 1.5),
    "rsqrt": (1.5, 1.5),
    "power": (1.0, 1.5),
    "atan2": (1.5, 2.0),
}


def apply(name, *xs):
    """The function of 1-d arrays of one dtype."""
    dtype = float32 if xs[0].dtype == np.float32 else float64
    b = Builder(1)
    b.output(b(name, *(b.input(dtype, "c") for _ in xs)), "c")
    return run(b.program(), list(xs), (len(xs[0]),))[0]


def grid(name, dtype, count):
    low, high, both = RANGES[name]
    info = np.finfo(dtype)
    low, high = max(low, float(info.smallest_subnormal)), min(high, float(info.max) / 2)
    rng = np.random.default_rng(5)
    near = min(high, 8.0)
    x = np.concatenate(
        [
            np.exp(rng.uniform(math.log(low), math.log(high), count)),
            rng.uniform(low, near, count),
            np.linspace(0.5, min(2.0, near), count),
        ]
    )
    x = np.concatenate([x, -x]) if both else x
    return x.astype(dtype)


def units(got, want, dtype):
    """Errors in units in the last place of what is right, given as mpmath numbers; results below
    the normal range in units of the smallest subnormal number."""
    info = np.finfo(dtype)
    found = []
    for g, w in zip(got.tolist(), want):
        exponent = max(mpmath.frexp(w)[1] - 1, int(info.minexp)) if w else int(info.minexp)
        found.append(float(abs(mpmath.mpf(g) - w) / mpmath.ldexp(1, exponent - info.nmant)))
    return np.array(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(RANGES))
def test_errors_are_within_the_stated_bounds(name, dtype):
    x = grid(name, dtype, 400)
    with np.errstate(all="ignore"):
        want = [EXACT[name](mpmath.mpf(v)) for v in x.tolist()]
    info = np.finfo(dtype)
    fits = np.array([abs(w) <= float(info.max) for w in want])
    error = units(apply(name, x)[fits], [w for w, f in zip(want, fits) if f], dtype)
    worst = int(np.argmax(error))
    assert error[worst] <= BOUNDS[name][dtype is np.float64], (x[fits][worst], error[worst])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tanh_is_odd_and_at_most_1(dtype):
    x = np.linspace(0, 25, 1_000_001).astype(dtype)
    y = apply("tanh", x)
    assert y.max() == 1
    np.testing.assert_array_equal(apply("tanh", -x), -y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["power", "atan2"])
def test_errors_of_two_operands_are_within_the_stated_bounds(name, dtype):
    rng = np.random.default_rng(6)
    x = np.exp(rng.uniform(-20, 20, 1500)).astype(dtype)
    y = rng.uniform(-30, 30, 1500).astype(dtype)
    if name == "power":  # bases near 1 and exponents that make up for it
        x[:700], y[:700] = rng.uniform(0.9, 1.1, 700), 200 * y[:700]
    else:
        x, y = x * rng.choice([-1, 1], 1500).astype(dtype), y * np.exp(0.3 * y)
    want = [EXACT[name](mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), y.tolist())]
    fits = np.array([abs(w) <= float(np.finfo(dtype).max) for w in want])
    error = units(apply(name, x, y)[fits], [w for w, f in zip(want, fits) if f], dtype)
    assert error.max() <= BOUNDS[name][dtype is np.float64]


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_any_size(name):
    x = np.array([1e6, 1e9, -1e15, 1e22, -1e38], np.float32)
    want = [EXACT[name](mpmath.mpf(v)) for v in x.tolist()]
    assert units(apply(name, x), want, np.float32).max() <= 1.5
    x = np.array([1e6, 1e15, -1e22, 1e100, -1e308])
    want = [EXACT[name](mpmath.mpf(v)) for v in x.tolist()]
    assert units(apply(name, x), want, np.float64).max() <= 1.5


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, INF, -INF, NAN]
SPECIAL += [1e-45, -1e-45, 1e-40, -1e-40, 88.9, -104.5, 710.0, -746.0, 1e30, -1e30]
REFERENCES = {
    "sigmoid": lambda x: np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))),
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "atan2": np.arctan2,
}


def same(got, want):
    """Within 4 eps (or the smallest normal number), and of one kind and sign where special."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        want = want.astype(got.dtype)
    special = ~np.isfinite(want) | (want == 0)
    np.testing.assert_array_equal(got[special], want[special])
    signed = (want == 0) & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[signed]), np.signbit(want[signed]))
    np.testing.assert_allclose(
        got[~special], want[~special], rtol=4 * info.eps, atol=float(info.smallest_normal) * 1e-3
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", sorted(RANGES))
def test_special_numbers(name, dtype):
    x = np.array(SPECIAL, dtype)
    reference = REFERENCES.get(name, getattr(np, name, None))
    with np.errstate(all="ignore"):
        same(apply(name, x), reference(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", [float32, float64], ids=str)
@pytest.mark.parametrize("machine", ["generic", "avx2"])
def test_other_processors_give_the_same(machine, dtype):
    """Special numbers and others, without what AVX-512 and fused multiply-adds make shorter."""
    machine = getattr(target, machine)()
    if machine.vector_bits > target.host().vector_bits:
        pytest.skip("this processor has no vectors as wide")
    b = Builder(1)
    x = b.input(dtype, "c")
    for name in sorted(RANGES):
        b.output(b(name, x), "c")
    program = b.program()
    numbers = np.concatenate([SPECIAL, np.linspace(-30, 30, 301), np.geomspace(1e-6, 1e5, 200)])
    numbers = numbers.astype(dtype.name)
    arguments = program, [numbers], numbers.shape
    for got, want in zip(run(*arguments, kernel=Kernel(program, machine)), run(*arguments)):
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
        eps = 8 * np.finfo(want.dtype).eps
        np.testing.assert_allclose(got[finite], want[finite], rtol=eps, atol=eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["power", "atan2"])
def test_pairs_of_special_numbers(name, dtype):
    x, y = (v.ravel() for v in np.meshgrid(np.array(SPECIAL, dtype), np.array(SPECIAL, dtype)))
    reference = REFERENCES.get(name, np.power)
    with np.errstate(all="ignore"):
        same(apply(name, x, y), reference(x.astype(np.float64), y.astype(np.float64)))
