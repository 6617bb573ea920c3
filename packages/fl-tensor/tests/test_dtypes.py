"""Every dtype: what two of them promote to, what sums of them are taken in, what is exact."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor import contract, dtypes

HALF = ["float16", "bfloat16"]
COMPLEX = ["complex64", "complex128"]
INTEGERS = [d.name for d in dtypes.ALL.values() if d.is_integer]


def in_numpy(dtype):
    return np.dtype(ml_dtypes.bfloat16 if dtype.name == "bfloat16" else dtype.name)


# ---- promotion -------------------------------------------------------------------------------


def by_the_standard(x, y):
    """The array API's tables. Where they say nothing: bool gives way to everything, an integer to
    what is no integer; two half precisions meet in float32."""
    if {x.name, y.name} == set(HALF):
        return "float32"
    kinds = {x.kind, y.kind}
    if "bfloat16" in (x.name, y.name):
        other = y if x.name == "bfloat16" else x
        return other.name if other.kind in "fc" else "bfloat16"
    if kinds & set("fc") and kinds & set("biu"):
        return (x if x.kind in "fc" else y).name
    if "uint64" in (x.name, y.name) and "i" in kinds:
        return "refused"
    return np.result_type(in_numpy(x), in_numpy(y)).name


@pytest.mark.parametrize("x", dtypes.ALL.values(), ids=str)
@pytest.mark.parametrize("y", dtypes.ALL.values(), ids=str)
def test_promotion_of_every_pair(x, y):
    try:
        found = ft.promote(x, y).name
    except ft.DTypeError:
        found = "refused"
    assert found == by_the_standard(x, y)
    if found != "refused":
        assert (ft.where(True, ft.ones(2, dtype=x), ft.ones(2, dtype=y))).dtype.name == found


@pytest.mark.parametrize("dtype", dtypes.ALL.values(), ids=str)
def test_python_complex_numbers_are_weak(dtype):
    expected = "complex128" if dtype.name in ("float64", "complex128") else "complex64"
    assert (ft.ones(2, dtype=dtype) + 1j).dtype.name == expected
    assert (1j * ft.ones(2, dtype=dtype)).tolist() == [1j, 1j]


# ---- half precision ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALF)
class TestHalfPrecision:
    """Accumulated in float32, rounded once."""

    def test_long_sums(self, dtype):
        ones = ft.ones(40_000, dtype=dtype)
        exact = ft.asarray(40_000.0, dtype=dtype).item()
        assert ones.sum().item() == exact
        assert ft.cumulative_sum(ones)[-1].item() == exact
        assert (ones @ ones).item() == exact
        assert ft.conv(ones.reshape(1, 1, -1), ones.reshape(1, 1, -1)).item() == exact
        assert ft.sum(ones.reshape(200, 200), axis=0).tolist() == [200.0] * 200
        index = ft.zeros(40_000, dtype="int64")
        assert ft.scatter(ft.zeros(1, dtype=dtype), index, ones, mode="add").item() == exact

    def test_products_between_overflow_and_underflow(self, dtype):
        # of 1e4 and 1e-4 in turn: the product of the first eight alone is 1e32 or 1e-32
        x = ft.asarray([1e4] * 4 + [1e-4] * 4, dtype=dtype)
        assert 0.9 < ft.prod(x).item() < 1.1
        assert 0.9 < ft.cumulative_prod(x)[-1].item() < 1.1

    def test_means_of_many(self, dtype):
        x = ft.ones(70_000, dtype=dtype)
        assert x.mean().item() == 1.0, "the sum is beyond float16"
        assert (x * 3).var().item() == 0.0
        assert ft.norm(x * 200).item() == ft.asarray(200 * 70_000**0.5, dtype=dtype).item()
        assert ft.logsumexp(x).item() == ft.asarray(1 + np.log(70_000), dtype=dtype).item()
        assert ft.softmax(x).sum().item() == pytest.approx(1.0, rel=0.01)
        assert ft.avg_pool(x.reshape(1, 1, -1), 70_000).item() == 1.0

    def test_results_keep_the_dtype(self, dtype):
        x = ft.ones((2, 3, 4), dtype=dtype)
        for y in (x.sum(), x.mean(), x.std(), ft.softmax(x), ft.layer_norm(x), x @ x.mT, x + 1):
            assert y.dtype.name == dtype

    def test_every_function_is_the_float32_one_rounded(self, dtype):
        x = ft.asarray([[0.3, 0.7, -0.2], [0.9, 0.1, 0.5]], dtype=dtype)
        tried = 0
        for op in contract.OPERATIONS:
            roles = [contract.role(p) for p in op.parameters]
            if roles not in (["F"], ["S"]) or op.capability or not hasattr(ft, op.name):
                continue
            found, wide = getattr(ft, op.name)(x), getattr(ft, op.name)(x.astype("float32"))
            if found.dtype.name != dtype:
                continue  # signbit
            want = wide.astype(dtype)
            assert repr(found.tolist()) == repr(want.tolist()), op.name
            tried += 1
        assert tried > 25

    @pytest.mark.parametrize("descending", [False, True])
    def test_order_with_nan(self, dtype, descending):
        values = [2.0, float("nan"), -1.0, float("inf"), 0.5, float("-inf"), 2.0]
        x = ft.asarray(values, dtype=dtype)
        same = ft.asarray(values)
        assert repr(ft.sort(x, 0, descending).tolist()) == repr(
            ft.sort(same, 0, descending).tolist()
        )
        assert ft.argsort(x, 0, descending).tolist() == ft.argsort(same, 0, descending).tolist()
        assert (ft.argmax(x, 0).item(), ft.argmin(x, 0).item()) == (1, 1)
        assert np.isnan([ft.max(x).item(), ft.min(x).item(), ft.maximum(x, 1.0)[1].item()]).all()

    def test_random_numbers(self, dtype):
        x = ft.Generator(3).uniform((4000,), dtype=dtype)
        assert x.dtype.name == dtype
        assert 0 <= x.min().item() <= x.max().item() < 1
        assert abs(x.mean().item() - 0.5) < 0.02
        y = ft.Generator(3).normal((4000,), dtype=dtype)
        wide = ft.Generator(3).normal((4000,)).astype(dtype)
        np.testing.assert_array_equal(y.numpy(), wide.numpy())
        assert ft.Generator(3).uniform((500,), -1, 1, dtype=dtype).max().item() < 1

    def test_large_results_lie_in_blocks(self, dtype):
        x = ft.ones((64, 64), dtype=dtype)
        for y in (x, x + x, x @ x, ft.sort(x), x.max(axis=()), ft.exp(x), ft.cumulative_sum(x)):
            assert hasattr(y.adapter.array.base, "owner"), "not the manager's memory"


def test_bfloat16_without_ml_dtypes_says_how_to_get_it():
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import fl_tensor as ft\n"
        "x = ft.ones(2, dtype='float16')\n"
        "assert x.sum().item() == 2\n"
        "for act in (lambda: ft.ones(2, dtype='bfloat16'), lambda: x.astype('bfloat16')):\n"
        "    try:\n"
        "        act()\n"
        "    except ft.DTypeError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all("no dtype bfloat16" in x and "install fl-tensor[bfloat16]" in x for x in lines)


# ---- Python, bytes, text ------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*HALF, *COMPLEX])
def test_in_and_out(dtype):
    values = [1.5, -2.25, float("inf"), 0.0]
    if dtype in COMPLEX:
        values = [1.5 - 2j, 3j, complex(float("inf"), 1), -0.0]
    x = ft.asarray(values, dtype=dtype)
    assert x.tolist() == values
    assert x[0].item() == values[0]
    for again in (
        ft.asarray(x.numpy()),
        ft.from_dlpack(x),
        ft.from_dlpack(x.numpy()),
        ft.frombytes(x.tobytes(), 4, dtype),
        pickle.loads(pickle.dumps(x)),
        ft.asarray([x.numpy()])[0],
    ):
        assert again.dtype.name == dtype
        assert again.tolist() == values
    assert x.numpy().tolist() == values


@pytest.mark.parametrize("dtype", HALF)
def test_python_numbers_are_rounded_to_nearest(dtype):
    rng = np.random.default_rng(0)
    values = rng.standard_normal(2000) * 10.0 ** rng.integers(-42, 41, 2000)
    values = [*values.tolist(), 65519.0, 65520.0, float("nan"), -0.0]
    with np.errstate(all="ignore"):
        want = np.asarray(values).astype(in_numpy(ft.dtype(dtype)))
    assert bytes(ft.asarray(values, dtype=dtype).tobytes()) == want.tobytes()


# ---- integers ---------------------------------------------------------------------------------


def wrapped(value, dtype):
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_arithmetic_is_exact_modulo_two_to_the_bits(name):
    dtype = ft.dtype(name)
    bits, low = 8 * dtype.itemsize, -(1 << (8 * dtype.itemsize - 1)) if dtype.kind == "i" else 0
    high = low + (1 << bits) - 1
    values = sorted({low, low + 1, -7 if low else 7, -1 if low else 1, 0, 1, 2, 3, high - 1, high})
    pairs = list(itertools.product(values, repeat=2))
    x, y = (ft.asarray([p[i] for p in pairs], dtype=name) for i in (0, 1))
    for operation, exact in (
        (ft.add, lambda a, b: a + b),
        (ft.subtract, lambda a, b: a - b),
        (ft.multiply, lambda a, b: a * b),
        (ft.bitwise_and, lambda a, b: a & b),
        (ft.bitwise_xor, lambda a, b: a ^ b),
        (ft.less, lambda a, b: a < b),
        (ft.maximum, max),
    ):
        want = [exact(a, b) for a, b in pairs]
        if operation is not ft.less:
            want = [wrapped(v, dtype) for v in want]
        assert operation(x, y).tolist() == want, operation.__name__
    safe = [(a, b) for a, b in pairs if b != 0 and not (a == low < 0 and b == -1)]
    a, b = (ft.asarray([p[i] for p in safe], dtype=name) for i in (0, 1))
    assert (a // b).tolist() == [p // q for p, q in safe]
    assert (a % b).tolist() == [p % q for p, q in safe]
    powers = [(p, q) for p in values for q in (0, 1, 2, 3, 13)]
    a, b = (ft.asarray([p[i] for p in powers], dtype=name) for i in (0, 1))
    assert (a**b).tolist() == [wrapped(p**q, dtype) for p, q in powers]
    shifts = [(p, q) for p in values for q in (0, 1, bits - 1)]
    a, b = (ft.asarray([p[i] for p in shifts], dtype=name) for i in (0, 1))
    assert (a << b).tolist() == [wrapped(p << q, dtype) for p, q in shifts]
    assert (a >> b).tolist() == [p >> q for p, q in shifts]
    assert ft.sort(x).tolist() == sorted(p for p, _ in pairs)


def test_sums_of_integers():
    top = ft.full((3,), 2**63, dtype="uint64")
    assert top.sum().dtype is ft.uint64
    assert top.sum().item() == 2**63, "3 * 2^63 modulo 2^64"
    assert ft.full((2,), 2**31 - 1, dtype="int32").prod().item() == (2**31 - 1) ** 2


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integer_casts_wrap(source, target):
    info = np.iinfo(source)
    values = [int(info.min), int(info.max), 1, 100]
    found = ft.asarray(values, dtype=source).astype(target).tolist()
    assert found == [wrapped(v, ft.dtype(target)) for v in values]
