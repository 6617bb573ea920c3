"""Complex numbers: in Python, in functions with branch cuts, in reductions, and refused."""

from __future__ import annotations

import contextlib
import inspect
import itertools

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor import contract

COMPLEX = ["complex64", "complex128"]


def test_complex_numbers_in_python():
    z = ft.asarray([[1 + 2j, -3.0], [0, 1e6j]])
    assert z.dtype is ft.complex64
    assert repr(z[0]) == "Tensor([ 1.+2.j, -3.+0.j], shape=(2,), dtype=complex64, backend=numpy)"
    assert complex(z[0, 0]) == 1 + 2j
    assert f"{z[0, 0]:.2f}" == "1.00+2.00j"
    assert complex(ft.asarray(2.5)) == 2.5
    assert bool(z[0, 0]) and not bool(z[1, 0])
    for act in (float, int):
        with pytest.raises(ft.DTypeError, match="ft.real"):
            act(z[0, 0])
    z[0] = 1j
    assert z.tolist() == [[1j, 1j], [0, 1e6j]]
    with pytest.raises(ft.DTypeError, match="would lose the imaginary part"):
        z.astype("float64")
    assert z.astype("bool").tolist() == [[True, True], [False, True]]
    x = ft.ones(2)
    with pytest.raises(ft.DTypeError):
        x[0] = 1j


def of_real_numbers():
    """Public functions whose operands may not be complex, by the roles in the contract, that take
    arrays and else only what has a default."""
    for op in contract.OPERATIONS:
        roles = [r for p in op.parameters if (r := contract.role(p)) and "None" not in p.annotation]
        if not set(roles) or not set(roles) <= set("QRS") or not hasattr(ft, op.name):
            continue
        parameters = inspect.signature(getattr(ft, op.name)).parameters.values()
        needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
        if len(needed) == len(roles):
            yield op.name, len(roles)


REFUSED = dict(of_real_numbers())


def test_the_functions_of_real_numbers_are_found():
    assert {"less", "maximum", "argmax", "sort", "floor", "erf", "softmax"} <= REFUSED.keys()
    assert {"atan2", "hypot", "remainder", "relu", "clip", "searchsorted"} <= REFUSED.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_functions_of_real_numbers_refuse_complex_ones(name):
    z = ft.asarray([1 + 1j, 2.0])
    function, count = getattr(ft, name), REFUSED[name]
    with pytest.raises(ft.DTypeError, match=r"operands are complex64.*real numbers"):
        function(*[z] * count)
    if count == 2:
        with pytest.raises(ft.DTypeError, match="real numbers"):
            function(ft.ones(2), 1j)
    with ft.use("null"), pytest.raises(ft.DTypeError, match="real numbers"):
        function(*[ft.zeros(2, dtype="complex64")] * count)


ANALYTIC = {
    **{n: getattr(np, n) for n in "exp expm1 log sqrt sin cos tan sinh cosh tanh".split()},
    **{n: getattr(np, n) for n in "log2 log10 exp2 square reciprocal".split()},
    **{f"a{n}": getattr(np, f"arc{n}") for n in "sin cos tan sinh cosh tanh".split()},
}
PARTS = [0.0, -0.0, 0.25, -0.5, 1.5, -2.0, 30.0]
POINTS = [complex(x, y) for x, y in itertools.product(PARTS, repeat=2)]
POLES = {"log", "log2", "log10", "reciprocal"}


@pytest.mark.parametrize("composed", [False, True], ids=["own", "composed"])
@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", ANALYTIC)
def test_analytic_functions_on_both_sides_of_their_cuts(name, dtype, composed):
    points = [z for z in POINTS if z or name not in POLES]
    z = ft.asarray(points, dtype=dtype)
    # Under an override every derived operation runs as its composition.
    composing = ft.override(add=lambda inner, x, y: inner.add(x, y))
    with composing if composed else contextlib.nullcontext():
        found = getattr(ft, name)(z).numpy()
    want = ANALYTIC[name](np.asarray(points))
    eps = np.finfo(dtype).eps
    assert np.all(np.abs(found - want) <= 64 * eps * np.maximum(np.abs(want), 1e-3)), name


def test_parts():
    z = ft.asarray([3 + 4j, -1j])
    assert (ft.real(z).tolist(), ft.imag(z).tolist()) == ([3, 0], [4, -1])
    assert ft.conj(z).tolist() == [3 - 4j, 1j]
    assert (abs(z).tolist(), abs(z).dtype) == ([5, 1], ft.float32)
    assert ft.sign(z).tolist() == pytest.approx([0.6 + 0.8j, -1j])
    assert ft.sign(ft.asarray([0j])).tolist() == [0j]
    x = ft.asarray([1.0, 2.0])
    assert (ft.real(x).tolist(), ft.imag(x).tolist(), ft.conj(x).tolist()) == (
        [1, 2],
        [0, 0],
        [1, 2],
    )


@pytest.mark.parametrize("dtype", COMPLEX)
def test_small_numbers_do_not_cancel(dtype):
    tiny = 1e-12 if dtype == "complex128" else 1e-6
    z = tiny * np.asarray([1 + 1j, -1 + 2j, 1j, -1.0])
    x = ft.asarray(z, dtype=dtype)
    for function, want in ((ft.log1p, z - z * z / 2), (ft.expm1, z + z * z / 2)):
        assert np.all(np.abs(function(x).numpy() - want) <= 4 * np.finfo(dtype).eps * np.abs(z))


def test_reductions_of_complex_numbers():
    rng = np.random.default_rng(1)
    z = rng.standard_normal((5, 4)) + 1j * rng.standard_normal((5, 4))
    x = ft.asarray(z)
    for name in ("sum", "prod", "mean", "var", "std"):
        found = getattr(ft, name)(x, axis=0)
        want = getattr(z, name)(axis=0)
        assert found.dtype is (ft.float64 if name in ("var", "std") else ft.complex128)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-13)
    np.testing.assert_allclose(ft.norm(x, axis=1).numpy(), np.linalg.norm(z, axis=1), rtol=1e-14)
    np.testing.assert_allclose((x @ x.T).numpy(), z @ z.T, rtol=1e-13)
    np.testing.assert_allclose(ft.cumulative_sum(x, 0).numpy(), z.cumsum(0), rtol=1e-13)
    np.testing.assert_allclose(ft.cumulative_prod(x, 0).numpy(), z.cumprod(0), rtol=1e-13)
    # two signals of length n: the convolution theorem
    a, b = ft.asarray(z[:, 0]), ft.asarray(z[:, 1])
    full = ft.conv(a.reshape(1, 1, -1), ft.flip(b).reshape(1, 1, -1), padding=4)
    np.testing.assert_allclose(full.flatten().numpy(), np.convolve(z[:, 0], z[:, 1]), rtol=1e-12)


def test_infinite_and_missing_parts():
    inf, nan, large = float("inf"), float("nan"), 1.5e308
    z = ft.asarray([complex(inf, nan), complex(1, nan), complex(large, large)], dtype="complex128")
    assert ft.isinf(z).tolist() == [True, False, False]
    assert ft.isnan(z).tolist() == [True, True, False]
    assert ft.isfinite(z).tolist() == [False, False, True]
    assert (z == z).tolist() == [False, False, True]
    assert ft.isclose(z[2:], z[2:]).tolist() == [True]
