"""Complex numbers and Fourier transforms against PyTorch: values, gradients and gradients of
gradients, in both precisions, of real and complex operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import fl_autograd as ag
import fl_tensor as ft

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.defect("N20")

Function = Callable[..., Any]
DTYPES = {"complex64": 3e-4, "complex128": 1e-9}
REAL = {"complex64": "float32", "complex128": "float64"}


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng([seed, *shape])
    made = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return (made if dtype.startswith("c") else made.real).astype(dtype)


def agree(ours: Function, theirs: Function, inputs: Sequence[Any], rtol: float) -> None:
    """Values, gradients of a weighted sum of the values, and of one of these gradients."""
    xs = [ag.Variable(ft.asarray(a), requires_grad=True) for a in inputs]
    ts = [torch.tensor(a, requires_grad=True) for a in inputs]
    y, z = ours(*xs), theirs(*ts)
    same(y, z, rtol)
    weights = drawn(y.shape, str(y.dtype), seed=1)
    first = ag.grad(y, xs, ft.asarray(weights), create_graph=True)
    wanted = torch.autograd.grad(z, ts, torch.tensor(weights), create_graph=True)
    for a, b in zip(first, wanted, strict=True):
        same(a, b, rtol)
    tracked = [(a, b) for a, b in zip(first, wanted, strict=True) if b.requires_grad]
    if not tracked or not any(a.requires_grad for a, _ in tracked):
        return
    seeds = [drawn(a.shape, str(a.dtype), seed=2) for a, _ in tracked]
    second = ag.grad([a for a, _ in tracked], xs, [ft.asarray(s) for s in seeds], allow_unused=True)
    theirs_too = torch.autograd.grad(
        [b for _, b in tracked], ts, [torch.tensor(s) for s in seeds], allow_unused=True
    )
    for a, b, x in zip(second, theirs_too, inputs, strict=True):
        left = np.zeros_like(x) if a is None else a.numpy()
        right = np.zeros_like(x) if b is None else b.resolve_conj().numpy()
        close(left, right, rtol * 20)


def same(a: Any, b: Any, rtol: float) -> None:
    assert a.shape == tuple(b.shape) and str(b.dtype) == f"torch.{a.dtype}"
    close(a.numpy(), b.detach().resolve_conj().numpy(), rtol)


def close(found: Any, wanted: Any, rtol: float) -> None:
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * (1 + np.abs(wanted).max()))


ONE: dict[str, tuple[Function, Function]] = {
    "real": (ft.real, torch.real),
    "imag": (ft.imag, torch.imag),
    "attributes": (lambda z: z.real * z.imag, lambda z: z.real * z.imag),
    "conj": (ft.conj, torch.conj),
    "absolute": (ft.absolute, torch.abs),
    "angle": (lambda z: ft.angle(z), torch.angle),
    "sign": (ft.sign, torch.sgn),
    "negative": (ft.negative, torch.neg),
    "exp": (ft.exp, torch.exp),
    "expm1": (ft.expm1, torch.expm1),
    "exp2": (ft.exp2, torch.exp2),
    "log": (ft.log, torch.log),
    "log1p": (ft.log1p, torch.log1p),
    "log2": (ft.log2, torch.log2),
    "log10": (ft.log10, torch.log10),
    "sqrt": (ft.sqrt, torch.sqrt),
    "rsqrt": (ft.rsqrt, torch.rsqrt),
    "reciprocal": (ft.reciprocal, torch.reciprocal),
    "square": (ft.square, torch.square),
    "sin": (ft.sin, torch.sin),
    "cos": (ft.cos, torch.cos),
    "tan": (ft.tan, torch.tan),
    "sinh": (ft.sinh, torch.sinh),
    "cosh": (ft.cosh, torch.cosh),
    "tanh": (ft.tanh, torch.tanh),
    "asin": (ft.asin, torch.asin),
    "acos": (ft.acos, torch.acos),
    "atan": (ft.atan, torch.atan),
    "asinh": (ft.asinh, torch.asinh),
    "acosh": (ft.acosh, torch.acosh),
    "atanh": (ft.atanh, torch.atanh),
    "sum": (lambda z: ft.sum(z, 1), lambda z: torch.sum(z, 1)),
    "prod": (lambda z: ft.prod(z, 1), lambda z: torch.prod(z, 1)),
    "mean": (lambda z: ft.mean(z, 0), lambda z: torch.mean(z, 0)),
    "var": (lambda z: ft.var(z, 1), lambda z: torch.var(z, 1, correction=0)),
    "std": (lambda z: ft.std(z, 1), lambda z: torch.std(z, 1, correction=0)),
    "norm": (lambda z: ft.norm(z, axis=1), lambda z: torch.linalg.vector_norm(z, dim=1)),
    "norm 1": (lambda z: ft.norm(z, axis=1, ord=1), lambda z: torch.linalg.vector_norm(z, 1, 1)),
    "norm 3": (lambda z: ft.norm(z, axis=1, ord=3), lambda z: torch.linalg.vector_norm(z, 3, 1)),
    "norm inf": (
        lambda z: ft.norm(z, axis=1, ord=np.inf),
        lambda z: torch.linalg.vector_norm(z, np.inf, 1),
    ),
    "cumulative_sum": (lambda z: ft.cumulative_sum(z, 1), lambda z: torch.cumsum(z, 1)),
    "cumulative_prod": (lambda z: ft.cumulative_prod(z, 1), lambda z: torch.cumprod(z, 1)),
    "cube": (lambda z: z**3, lambda z: z**3),
    "root": (lambda z: z ** (0.5 - 0.25j), lambda z: z ** (0.5 - 0.25j)),
    "slices": (lambda z: z[:, 1:] * z[:, :-1], lambda z: z[:, 1:] * z[:, :-1]),
    "roll": (lambda z: ft.roll(z, 1, 1) * z, lambda z: torch.roll(z, 1, 1) * z),
    "where": (
        lambda z: ft.where(ft.real(z) > 0, z * z, ft.conj(z)),
        lambda z: torch.where(torch.real(z) > 0, z * z, torch.conj(z)),
    ),
}

TWO: dict[str, tuple[Function, Function]] = {
    "add": (ft.add, torch.add),
    "subtract": (ft.subtract, torch.sub),
    "multiply": (ft.multiply, torch.mul),
    "divide": (ft.divide, torch.div),
    "power": (ft.power, torch.pow),
    "matmul": (lambda x, y: x @ y.mT, lambda x, y: x @ y.mT),
    "adjoint": (lambda x, y: ft.conj(x).mT @ y, lambda x, y: x.mH @ y),
    "vecdot": (ft.vecdot, torch.linalg.vecdot),
    "einsum": (
        lambda x, y: ft.einsum("ij,kj->ki", x, ft.conj(y)),
        lambda x, y: torch.einsum("ij,kj->ki", x, y.conj()),
    ),
    "concatenate": (
        lambda x, y: ft.concatenate([x, y]) ** 2,
        lambda x, y: torch.cat([x, y]) ** 2,
    ),
    "broadcast": (lambda x, y: x[:1] * y + y, lambda x, y: x[:1] * y + y),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name: str, dtype: str) -> None:
    agree(*ONE[name], [drawn((3, 4), dtype)], DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mixed", ["both", "first is real", "second is real"])
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name: str, mixed: str, dtype: str) -> None:
    left = REAL[dtype] if mixed == "first is real" else dtype
    right = REAL[dtype] if mixed == "second is real" else dtype
    x, y = drawn((3, 4), left), drawn((3, 4), right, seed=5)
    ours, theirs = TWO[name]

    def promoted(a: Any, b: Any) -> Any:  # products of PyTorch take one dtype
        wide = torch.promote_types(a.dtype, b.dtype)
        return theirs(a.to(wide), b.to(wide))

    agree(ours, promoted, [x, y], DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
def test_convolutions(dtype: str) -> None:
    x, w = drawn((2, 4, 7), dtype), drawn((6, 2, 3), dtype, seed=5)
    agree(
        lambda a, b: ft.conv(a, b, 2, 1, groups=2),
        lambda a, b: torch.nn.functional.conv1d(a, b, stride=2, padding=1, groups=2),
        [x, w],
        DTYPES[dtype],
    )


# ---- Fourier transforms ----------------------------------------------------------------------

OF_REAL = ("rfft", "ihfft", "rfftn")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 1, 2, 4, 5, 8])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_transforms_of_one_axis(name: str, n: int | None, norm: str, dtype: str) -> None:
    x = drawn((5, 3), REAL[dtype] if name in OF_REAL else dtype)
    agree(
        lambda v: getattr(ft.fft, name)(v, n, axis=0, norm=norm),
        lambda v: getattr(torch.fft, name)(v, n, dim=0, norm=norm),
        [x],
        DTYPES[dtype],
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", ["backward", "ortho"])
@pytest.mark.parametrize(("s", "axes"), [(None, None), ((4, 2), (0, 2)), ((3,), (1,))])
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_of_several_axes(name: str, s: Any, axes: Any, norm: str, dtype: str) -> None:
    x = drawn((3, 2, 4), REAL[dtype] if name in OF_REAL else dtype)
    agree(
        lambda v: getattr(ft.fft, name)(v, s, axes, norm),
        lambda v: getattr(torch.fft, name)(v, s, axes, norm),
        [x],
        DTYPES[dtype],
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "fftn", "ifftn", "irfftn"])
def test_complex_transforms_of_real_numbers(name: str, dtype: str) -> None:
    agree(
        getattr(ft.fft, name), getattr(torch.fft, name), [drawn((6,), REAL[dtype])], DTYPES[dtype]
    )


@pytest.mark.parametrize("name", ["fftshift", "ifftshift"])
def test_shifts(name: str) -> None:
    for dtype in ("float64", "complex128"):
        agree(
            lambda v: getattr(ft.fft, name)(v, 1) ** 2,
            lambda v: getattr(torch.fft, name)(v, 1) ** 2,
            [drawn((2, 5), dtype)],
            1e-9,
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_spectral_loss(dtype: str) -> None:
    x, filters = drawn((2, 9), REAL[dtype]), drawn((5,), dtype, seed=5)

    def ours(v: Any, w: Any) -> Any:
        spectrum = ft.fft.rfft(v) * w
        return ft.log1p(ft.absolute(spectrum)).sum() + ft.angle(spectrum).sum()

    def theirs(v: Any, w: Any) -> Any:
        spectrum = torch.fft.rfft(v) * w
        return torch.log1p(spectrum.abs()).sum() + spectrum.angle().sum()

    agree(ours, theirs, [x, filters], DTYPES[dtype])


# ---- matrices --------------------------------------------------------------------------------


def positive(z: Any, eye: Any) -> Any:
    return z @ z.conj().mT + eye


def ours_positive(z: Any) -> Any:
    return positive(z, ft.eye(z.shape[-1], dtype="complex128"))


def theirs_positive(z: Any) -> Any:
    return positive(z, torch.eye(z.shape[-1], dtype=torch.complex128))


#: Functions that do not depend on the phases of eigenvectors and singular vectors.
MATRICES: dict[str, tuple[Function, Function]] = {
    "inv": (ft.linalg.inv, torch.linalg.inv),
    "det": (ft.linalg.det, torch.linalg.det),
    "sign of det": (lambda z: ft.linalg.slogdet(z)[0], lambda z: torch.linalg.slogdet(z)[0]),
    "log of det": (lambda z: ft.linalg.slogdet(z)[1], lambda z: torch.linalg.slogdet(z)[1]),
    "solve": (
        lambda z: ft.linalg.solve(z, z[..., :1] ** 2),
        lambda z: torch.linalg.solve(z, z[..., :1] ** 2),
    ),
    "pinv": (lambda z: ft.linalg.pinv(z[..., :2]), lambda z: torch.linalg.pinv(z[..., :2])),
    "cholesky": (
        lambda z: ft.linalg.cholesky(ours_positive(z)),
        lambda z: torch.linalg.cholesky(theirs_positive(z)),
    ),
    "upper cholesky": (
        lambda z: ft.linalg.cholesky(ours_positive(z), upper=True),
        lambda z: torch.linalg.cholesky(theirs_positive(z), upper=True),
    ),
    "eigvalsh": (
        lambda z: ft.linalg.eigvalsh(ours_positive(z)),
        lambda z: torch.linalg.eigvalsh(theirs_positive(z)),
    ),
    "eigh": (
        lambda z: ft.absolute(ft.linalg.eigh(ours_positive(z))[1]),
        lambda z: torch.linalg.eigh(theirs_positive(z))[1].abs(),
    ),
    "svdvals": (ft.linalg.svdvals, torch.linalg.svdvals),
    "left vectors": (
        lambda z: ft.absolute(ft.linalg.svd(z[..., :2], full_matrices=False)[0]),
        lambda z: torch.linalg.svd(z[..., :2], full_matrices=False)[0].abs(),
    ),
    "right vectors": (
        lambda z: ft.absolute(ft.linalg.svd(z[..., :2, :], full_matrices=False)[2]),
        lambda z: torch.linalg.svd(z[..., :2, :], full_matrices=False)[2].abs(),
    ),
    "polar factor": (
        lambda z: (lambda f: f[0] @ f[2])(ft.linalg.svd(z, full_matrices=False)),
        lambda z: (lambda f: f[0] @ f[2])(torch.linalg.svd(z, full_matrices=False)),
    ),
    "qr": (
        lambda z: (lambda f: f[0] ** 2 + ft.conj(f[1]))(ft.linalg.qr(z)),
        lambda z: (lambda f: f[0] ** 2 + torch.conj(f[1]))(torch.linalg.qr(z)),
    ),
    "wide qr": (
        lambda z: ft.absolute(ft.linalg.qr(z[..., :2, :])[1]) ** 2,
        lambda z: torch.linalg.qr(z[..., :2, :])[1].abs() ** 2,
    ),
}


@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4)])
@pytest.mark.parametrize("name", MATRICES)
def test_factorisations(name: str, shape: tuple[int, ...]) -> None:
    agree(*MATRICES[name], [drawn(shape, "complex128")], 1e-7)
