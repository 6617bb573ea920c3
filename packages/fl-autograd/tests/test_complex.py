"""Gradients of complex numbers: PyTorch's convention, ``dL/dx + i dL/dy`` by ``z = x + i y``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft
from fl_autograd import extend
from fl_tensor.testing import needs

pytestmark = [needs("complex128", "complex"), pytest.mark.defect("N20")]


def drawn(*shape: int, dtype: str = "complex128", seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    made = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return ft.asarray((made if dtype.startswith("c") else made.real).astype(dtype))


def leaf(*shape: int, dtype: str = "complex128", seed: int = 0) -> ag.Variable:
    return ag.Variable(drawn(*shape, dtype=dtype, seed=seed), requires_grad=True)


def check(function: Any, x: Any) -> None:
    """Gradients of both orders against differences."""
    v = ag.Variable(x, requires_grad=True)
    assert function(v).requires_grad
    ag.check_grads(function, [v], order=2)


# ---- the convention --------------------------------------------------------------------------


def test_the_gradient_of_a_squared_magnitude_is_twice_the_number() -> None:
    z = ag.Variable(ft.asarray([1 + 2j, -3j], "complex128"), requires_grad=True)
    (ft.absolute(z) ** 2).sum().backward()
    assert np.allclose(z.grad, [2 + 4j, -6j])


def test_a_step_against_the_gradient_descends() -> None:
    z, target = leaf(5), drawn(5, seed=1)
    losses = []
    for _ in range(100):
        z.zero_grad()
        loss = (ft.absolute(z * z - target) ** 2).sum()
        loss.backward()
        z.tensor = z.tensor - 0.02 * z.grad.tensor
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.01 * losses[0]


@pytest.mark.parametrize("scale", [1.0, 2j])
def test_a_gradient_of_the_output_weighs_both_parts(scale: complex) -> None:
    z = leaf(3)
    (3j * z).backward(ft.full((3,), scale, dtype="complex128"))
    assert np.allclose(z.grad, np.full(3, scale * -3j))
    z.zero_grad()
    (3j * z).backward(scale)
    assert np.allclose(z.grad, np.full(3, scale * -3j))


def test_a_real_leaf_beside_complex_numbers_has_a_real_gradient() -> None:
    x, z = leaf(4, dtype="float64"), drawn(4)
    ft.imag(x * z + 2j * x).sum().backward()
    assert x.grad.dtype is ft.float64
    assert np.allclose(x.grad, ft.imag(z) + 2.0)


def test_gradients_accumulate_and_broadcast() -> None:
    z, w = leaf(3), drawn(2, 3, seed=1)
    for _ in range(2):
        ft.real(z * w).sum().backward()
    assert z.grad.dtype is ft.complex128
    assert np.allclose(z.grad, 2 * ft.conj(w).sum(0))


def test_a_gradient_starts_from_a_real_number() -> None:
    with pytest.raises(ag.GradError, match="output is complex128.*real number"):
        leaf().backward()
    with pytest.raises(ft.DTypeError):
        ft.real(leaf()).backward(1j)


# ---- who sees it -----------------------------------------------------------------------------


def test_grad_and_hooks_see_what_backward_leaves() -> None:
    z, seen = leaf(3), []
    y = z * (1 + 2j)
    z.register_hook(lambda g: seen.append(g.numpy()))
    y.register_hook(lambda g: seen.append(g.numpy()))
    y.grad_fn.register_hook(lambda ins, g: seen.extend([ins[0].numpy(), g.numpy()]))
    loss = ft.imag(y).sum()
    loss.backward(retain_graph=True)
    at_y, behind, before, at_z = seen
    assert np.allclose(at_y, 1j) and np.allclose(before, 1j)
    assert np.allclose(at_z, 1j * (1 - 2j)) and np.allclose(behind, at_z)
    assert np.allclose(ag.grad(loss, z, retain_graph=True), at_z)
    assert np.allclose(ag.grad(loss, y, retain_graph=True), 1j)


def test_what_a_hook_returns_goes_on() -> None:
    z = leaf(3)
    y = z * 2j
    y.register_hook(lambda g: g * 1j)
    y.grad_fn.register_hook(lambda ins, g: (ins[0] + 1j, None))
    ft.real(y).sum().backward()
    assert np.allclose(z.grad, -2j * 1j + 1j)


def test_value_and_grad_vjp_and_jvp() -> None:
    z, u = drawn(3), drawn(3, seed=1)
    value, gradient = ag.value_and_grad(lambda v: (ft.absolute(v) ** 2).sum())(z)
    assert np.allclose(gradient, 2 * z) and value.dtype is ft.float64
    y, pullback = ag.vjp(lambda v: v * v, z)
    assert np.allclose(pullback(u), ft.conj(2 * z) * u) and np.allclose(y, z * z)
    _, slope = ag.jvp(lambda v: v * v, [z], [u])
    assert np.allclose(slope, 2 * z * u)
    _, slope = ag.jvp(lambda v: ft.conj(v) * v, [z], [u])
    assert np.allclose(slope, 2 * ft.real(ft.conj(z) * u))
    for of_real_numbers in (ag.jacobian, ag.hessian):
        with pytest.raises(ag.GradError, match="complex128"):
            of_real_numbers(lambda v: ft.real(v).sum(), z)


def test_checkpointed_regions_and_rows_of_tables() -> None:
    z = leaf(4)
    plain = ag.grad(ft.imag(ft.exp(z) * z).sum(), z)
    again = ag.grad(ft.imag(ag.checkpoint(lambda v: ft.exp(v) * v, z)).sum(), z)
    assert np.array_equal(plain, again)
    table, places = leaf(4, 2), ft.asarray([1, 3, 1])
    ft.imag(ag.lookup_rows(table, places) * (2 + 1j)).sum().backward()
    assert isinstance(table.grad, ag.SparseGradient)
    dense = ag.grad(ft.imag(ft.embedding(table, places) * (2 + 1j)).sum(), table)
    assert np.allclose(table.grad.to_dense(), dense)


def test_slices_and_assignment() -> None:
    z = leaf(6)
    parts = ft.split(z, [2, 4])
    made = ag.Variable(ft.zeros((6,), dtype="complex128"))
    made[:2] = parts[0] * 1j
    made[2:] = parts[1] * leaf(4, dtype="float64")
    check(lambda v: ft.split(v, [2, 4])[1] * v[:4], z)
    ft.real(made).sum().backward()
    assert np.allclose(z.grad[:2], -1j)


# ---- functions -------------------------------------------------------------------------------

ONE = {
    "real": ft.real,
    "imag": ft.imag,
    "conj": ft.conj,
    "absolute": ft.absolute,
    "angle": lambda z: ft.angle(z),
    "sign": ft.sign,
    "exp": ft.exp,
    "log": ft.log,
    "sqrt": ft.sqrt,
    "sin": ft.sin,
    "tanh": ft.tanh,
    "asin": ft.asin,
    "reciprocal": ft.reciprocal,
    "square": ft.square,
    "power": lambda z: z**3 + z ** (0.5 - 1j) + 2.0**z,
    "prod": lambda z: ft.prod(z, 0),
    "cumulative_prod": lambda z: ft.cumulative_prod(z, 1),
    "mean": lambda z: ft.mean(z, 0),
    "var": lambda z: ft.var(z, 1, correction=1.0),
    "std": lambda z: ft.std(z),
    "norm": lambda z: ft.norm(z, axis=1, ord=3.0),
    "matmul": lambda z: z @ z.mT + ft.conj(z) @ z.mT,
    "vecdot": lambda z: ft.vecdot(z, z[:1]),
    "einsum": lambda z: ft.einsum("ij,kj->ik", ft.conj(z), z),
    "where": lambda z: ft.where(ft.real(z) > 0, z, ft.conj(z)),
    "pad": lambda z: ft.pad(z, ((1, 0), (-1, 2))),
    "to_complex64": lambda z: z.astype("complex64").astype("complex128"),
    "norm_of_squares": lambda z: ft.sum(z.real * z.real + z.imag * z.imag),
}


@pytest.mark.parametrize("name", [name for name in ONE if name != "to_complex64"])
def test_functions_against_differences(name: str) -> None:
    check(ONE[name], drawn(3, 4))


def test_precision_is_cast_back() -> None:
    z = leaf(3)
    ft.imag(ONE["to_complex64"](z)).sum().backward()
    assert z.grad.dtype is ft.complex128 and np.allclose(z.grad, 1j)


@needs("fft")
@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_of_one_axis(name: str, n: int, norm: str) -> None:
    transform = getattr(ft.fft, name)
    x = drawn(4, 2, dtype="float64" if name in ("rfft", "ihfft") else "complex128")
    check(lambda v: transform(v, n, axis=0, norm=norm), x)


@needs("fft")
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_of_several_axes(name: str) -> None:
    transform = getattr(ft.fft, name)
    x = drawn(3, 4, dtype="float64" if name == "rfftn" else "complex128")
    for sizes, axes in ((None, None), ((4, 3), (1, 0)), ((5,), (0,))):
        check(lambda v, s=sizes, a=axes: transform(v, s, a), x)
    check(lambda v: ft.fft.ifftshift(ft.fft.fftshift(v) ** 2), x)


@needs("fft")
def test_complex_transforms_of_real_leaves() -> None:
    x = leaf(6, dtype="float64")
    (ft.absolute(ft.fft.fft(x)) ** 2).sum().backward()
    assert x.grad.dtype is ft.float64 and np.allclose(x.grad, 12.0 * x)  # Parseval


@needs("fft")
def test_a_filter_in_the_frequency_domain_is_learnt() -> None:
    signal, wanted = drawn(32, dtype="float64"), drawn(17, seed=3)
    target = ft.fft.irfft(ft.fft.rfft(signal) * wanted, 32)
    filters = leaf(17, seed=4)
    losses = []
    for _ in range(200):
        filters.zero_grad()
        loss = ((ft.fft.irfft(ft.fft.rfft(signal) * filters, 32) - target) ** 2).sum()
        loss.backward()
        filters.tensor = filters.tensor - 0.05 * filters.grad.tensor
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("function", ["absolute", "angle", "sign", "norm"])
def test_the_gradient_at_zero_is_zero(function: str) -> None:
    z = ag.Variable(ft.zeros((2,), dtype="complex128"), requires_grad=True)
    y = getattr(ft, function)(z)
    y.backward(ft.ones_like(y))
    assert z.grad.tolist() == [0, 0]


def test_parts_of_real_numbers() -> None:
    x = ag.Variable(ft.asarray([2.0, -3.0, math.nan]), requires_grad=True)
    assert ft.angle(x).tolist()[:2] == [0.0, ft.asarray(math.pi).item()]
    assert math.isnan(ft.angle(x)[2].item()) and ft.angle([1, -1]).dtype is ft.float32
    (x.real + x.conj() * 2 + ft.angle(x) + x.imag)[:2].sum().backward()
    assert x.grad.tolist()[:2] == [3.0, 3.0]


@pytest.mark.parametrize("name", ["eig", "eigvals"])
@needs("linalg")
def test_what_has_no_rule_says_so(name: str) -> None:
    with pytest.raises(ag.MissingRuleError, match=r"\[eig\]"):
        getattr(ft.linalg, name)(leaf(2, 2))


# ---- the checker -----------------------------------------------------------------------------


def test_a_wrong_gradient_of_complex_numbers_is_found() -> None:
    wrong = extend.defop(
        "half_conjugated",
        lambda ops, x: ops.conj(x),
        x=lambda ops, g: g,
    )
    with pytest.raises(ag.GradCheckError, match=r"element \d+ \(C order\), imaginary part"):
        ag.check_grads(wrong, [drawn(3)])


def test_both_precisions_are_checked() -> None:
    ag.check_grads(lambda z, x: z * x + ft.conj(z), [drawn(3, dtype="complex64"), [1.0, 2.0, 3.0]])
