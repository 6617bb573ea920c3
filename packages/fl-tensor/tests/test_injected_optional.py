"""The kit catches wrong factorisations and transforms: each fault is injected in a correct backend.

Many factorisations of a matrix are right. The faults here are those that a comparison of products
alone, or of values alone, would let pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fl_tensor.backends.numpy import NumpyBackend
from fl_tensor.backends.numpy.adapter import NumpyAdapter

RunTest = Callable[[type[NumpyBackend], str], None]


class Correct(NumpyBackend):
    CONTRACT = (1, 0)
    name = "injected"


def adapter(values: Any) -> NumpyAdapter:
    return NumpyAdapter(np.asarray(values))


def transposed(x: Any) -> NumpyAdapter:
    return adapter(np.conj(np.swapaxes(x.array, -1, -2)))


class CholeskyIgnoresUpper(Correct):
    CONTRACT = (1, 0)

    def cholesky(self, x: Any, upper: bool = False) -> Any:
        return super().cholesky(x, False)


class CholeskyReadsBothTriangles(Correct):
    CONTRACT = (1, 0)

    def cholesky(self, x: Any, upper: bool = False) -> Any:
        whole = (x.array + transposed(x).array) / 2
        return super().cholesky(adapter(whole.astype(x.array.dtype)), upper)


class CholeskyLeavesTheOtherTriangle(Correct):
    CONTRACT = (1, 0)

    def cholesky(self, x: Any, upper: bool = False) -> Any:
        rest = np.tril(x.array, -1) if upper else np.triu(x.array, 1)
        return adapter(super().cholesky(x, upper).array + rest)


class QrWithoutTriangle(Correct):
    """Q from another factorisation: orthonormal, and the product is right."""

    CONTRACT = (1, 0)

    def qr(self, x: Any, mode: str = "reduced") -> Any:
        q, r = super().qr(x, mode)
        if q.shape[-1] < 2:
            return q, r
        turned = np.flip(q.array, -1), np.flip(r.array, -2)
        return tuple(adapter(np.ascontiguousarray(t)) for t in turned)


class QrWithLongColumns(Correct):
    CONTRACT = (1, 0)

    def qr(self, x: Any, mode: str = "reduced") -> Any:
        q, r = super().qr(x, mode)
        return adapter(q.array * q.array.dtype.type(2)), adapter(r.array / r.array.dtype.type(2))


class QrIgnoresTheMode(Correct):
    CONTRACT = (1, 0)

    def qr(self, x: Any, mode: str = "reduced") -> Any:
        return super().qr(x, "reduced")


class SvdGivesVInsteadOfItsAdjoint(Correct):
    CONTRACT = (1, 0)

    def svd(self, x: Any, full_matrices: bool = True) -> Any:
        u, s, vh = super().svd(x, full_matrices)
        return u, s, transposed(vh) if vh.shape[-1] == vh.shape[-2] else vh


class SvdAscending(Correct):
    CONTRACT = (1, 0)

    def svd(self, x: Any, full_matrices: bool = True) -> Any:
        u, s, vh = super().svd(x, False)
        if full_matrices and x.shape[-1] != x.shape[-2]:
            return super().svd(x, True)
        parts = np.flip(u.array, -1), np.flip(s.array, -1), np.flip(vh.array, -2)
        return tuple(adapter(np.ascontiguousarray(p)) for p in parts)


class SvdWithNegativeValues(Correct):
    CONTRACT = (1, 0)

    def svd(self, x: Any, full_matrices: bool = True) -> Any:
        u, s, vh = super().svd(x, full_matrices)
        return adapter(-u.array), adapter(-s.array), vh


class EighReadsTheUpperTriangle(Correct):
    CONTRACT = (1, 0)

    def eigh(self, x: Any) -> Any:
        return super().eigh(transposed(x))


class EighDescending(Correct):
    CONTRACT = (1, 0)

    def eigh(self, x: Any) -> Any:
        w, v = super().eigh(x)
        return adapter(np.flip(w.array, -1).copy()), adapter(np.flip(v.array, -1).copy())


class EighWithVectorsInRows(Correct):
    CONTRACT = (1, 0)

    def eigh(self, x: Any) -> Any:
        w, v = super().eigh(x)
        return w, transposed(v)


class EigStaysReal(Correct):
    CONTRACT = (1, 0)

    def eig(self, x: Any) -> Any:
        return tuple(adapter((v.array.real + 0j).astype(v.array.dtype)) for v in super().eig(x))


class EigRepeatsOnePair(Correct):
    CONTRACT = (1, 0)

    def eig(self, x: Any) -> Any:
        w, v = (p.array.copy() for p in super().eig(x))
        if w.shape[-1]:
            w[...], v[...] = w[..., :1], v[..., :1]
        return adapter(w), adapter(v)


class EigWithVectorsOfAnyLength(Correct):
    CONTRACT = (1, 0)

    def eig(self, x: Any) -> Any:
        w, v = super().eig(x)
        return w, adapter(v.array * v.array.dtype.type(3))


class EigLeavesVectorsOut(Correct):
    CONTRACT = (1, 0)

    def eig(self, x: Any) -> Any:
        w, v = super().eig(x)
        return w, adapter(np.zeros_like(v.array))


class SolveWithTheTranspose(Correct):
    CONTRACT = (1, 0)

    def solve(self, x: Any, y: Any) -> Any:
        return super().solve(transposed(x), y)


class SolveGivesInfinity(Correct):
    CONTRACT = (1, 0)

    def solve(self, x: Any, y: Any) -> Any:
        try:
            return super().solve(x, y)
        except ValueError:
            return adapter(np.full(np.broadcast_shapes(y.shape), np.inf, y.array.dtype))


class SolveRaisesNumpysError(Correct):
    CONTRACT = (1, 0)

    def solve(self, x: Any, y: Any) -> Any:
        return adapter(np.linalg.solve(x.array, y.array))


class SlogdetForgetsTheSign(Correct):
    CONTRACT = (1, 0)

    def slogdet(self, x: Any) -> Any:
        sign, log = super().slogdet(x)
        return adapter(np.abs(sign.array).astype(sign.array.dtype)), log


class SlogdetOfSingularIsPositive(Correct):
    CONTRACT = (1, 0)

    def slogdet(self, x: Any) -> Any:
        sign, log = super().slogdet(x)
        return adapter(np.where(sign.array == 0, np.ones_like(sign.array), sign.array)), log


class ComputesInSingle(Correct):
    CONTRACT = (1, 0)

    def solve(self, x: Any, y: Any) -> Any:
        found = np.linalg.solve(x.array.astype(np.float32), y.array.astype(np.float32))
        return adapter(found.astype(x.array.dtype))

    def fft(self, x: Any, axis: int) -> Any:
        return adapter(np.fft.fft(x.array.astype(np.complex64), axis=axis).astype(x.array.dtype))


class OwnPinvWithoutThreshold(Correct):
    CONTRACT = (1, 0)

    def pinv(self, x: Any, rtol: Any = None) -> Any:
        with np.errstate(all="ignore"):
            u, s, vh = np.linalg.svd(x.array, full_matrices=False)
            inverse = transposed(adapter(vh)).array / s[..., None, :]
            return adapter((inverse @ np.conj(np.swapaxes(u, -1, -2))).astype(x.array.dtype))


class OwnRankWithoutTolerance(Correct):
    CONTRACT = (1, 0)

    def matrix_rank(self, x: Any, rtol: Any = None) -> Any:
        return super().matrix_rank(x)


class FftTurnsTheOtherWay(Correct):
    CONTRACT = (1, 0)

    def fft(self, x: Any, axis: int) -> Any:
        return adapter(np.fft.ifft(x.array, axis=axis, norm="forward"))


class IfftUnscaled(Correct):
    CONTRACT = (1, 0)

    def ifft(self, x: Any, axis: int) -> Any:
        return adapter(np.fft.ifft(x.array, axis=axis, norm="forward"))


class FftAlwaysAlongTheLastAxis(Correct):
    CONTRACT = (1, 0)

    def fft(self, x: Any, axis: int) -> Any:
        return super().fft(x, len(x.shape) - 1)


class RfftGivesAllElements(Correct):
    CONTRACT = (1, 0)

    def rfft(self, x: Any, axis: int) -> Any:
        return adapter(np.fft.fft(x.array, axis=axis))


class IrfftForgetsOddLengths(Correct):
    CONTRACT = (1, 0)

    def irfft(self, x: Any, n: int, axis: int) -> Any:
        even = max(2 * (x.shape[axis] - 1), 1)
        found = np.fft.irfft(x.array, even, axis)
        return adapter(
            found if n == even else np.concatenate([found, np.take(found, [0], axis)], axis)
        )


class Cosine(Correct):
    """Right for real input alone."""

    CONTRACT = (1, 0)

    def fft(self, x: Any, axis: int) -> Any:
        return adapter(np.fft.fft(x.array.real, axis=axis).astype(x.array.dtype))


class ClaimsFftAlone(Correct):
    CONTRACT = (1, 0)
    capabilities = frozenset({"fft"})


def operation(name: str, *labels: str, dtype: str = "float32") -> list[str]:
    return [f"test_operation[{name}-{dtype}-{label}]" for label in labels]


def transform(name: str, *labels: str) -> list[str]:
    return operation(name, *labels, dtype="complex64")


FAULTS: list[tuple[type[NumpyBackend], list[str]]] = [
    (CholeskyIgnoresUpper, operation("cholesky", "plain")),
    (CholeskyReadsBothTriangles, operation("cholesky", "edge")),
    (CholeskyLeavesTheOtherTriangle, operation("cholesky", "plain")),
    (QrWithoutTriangle, operation("qr", "plain")),
    (QrWithLongColumns, operation("qr", "plain")),
    (QrIgnoresTheMode, operation("qr", "edge")),
    (SvdGivesVInsteadOfItsAdjoint, operation("svd", "plain")),
    (SvdAscending, operation("svd", "plain")),
    (SvdWithNegativeValues, operation("svd", "plain")),
    (EighReadsTheUpperTriangle, operation("eigh", "edge")),
    (EighDescending, operation("eigh", "plain")),
    (EighWithVectorsInRows, operation("eigh", "plain")),
    (EigStaysReal, operation("eig", "plain", "edge")),
    (EigRepeatsOnePair, operation("eig", "plain")),
    (EigWithVectorsOfAnyLength, operation("eig", "plain")),
    (EigLeavesVectorsOut, operation("eig", "plain")),
    (SolveWithTheTranspose, operation("solve", "plain", "broadcast")),
    (SolveGivesInfinity, ["test_refused[solve-singular]"]),
    (SolveRaisesNumpysError, ["test_refused[solve-singular]"]),
    (SlogdetForgetsTheSign, operation("slogdet", "edge")),
    (SlogdetOfSingularIsPositive, operation("slogdet", "edge")),
    (ComputesInSingle, operation("solve", "plain", dtype="float64")),
    (ComputesInSingle, operation("fft", "plain", dtype="complex128")),
    (OwnPinvWithoutThreshold, [*operation("pinv", "edge"), "test_derived_override[pinv]"]),
    (OwnRankWithoutTolerance, operation("matrix_rank", "edge")),
    (FftTurnsTheOtherWay, transform("fft", "plain") + transform("fftn", "plain")),
    (IfftUnscaled, transform("ifft", "plain")),
    (FftAlwaysAlongTheLastAxis, transform("fft", "plain")),
    (RfftGivesAllElements, operation("rfft", "plain")),
    (IrfftForgetsOddLengths, transform("irfft", "plain")),
    (Cosine, transform("fft", "plain")),
    (ClaimsFftAlone, ["test_capabilities"]),
]


@pytest.mark.parametrize(
    ("backend", "test"),
    [(backend, test) for backend, tests in FAULTS for test in tests],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_injected_fault_is_caught(
    catches: RunTest, backend: type[NumpyBackend], test: str
) -> None:
    catches(backend, test)


CAUGHT = sorted({test for _, tests in FAULTS for test in tests})


@pytest.mark.parametrize("test", [t for t in CAUGHT if "override" not in t])
def test_the_same_tests_pass_without_the_fault(suite_test: RunTest, test: str) -> None:
    suite_test(Correct, test)


class OtherRightAnswers(Correct):
    """Columns with other signs, eigenvalues in another order, orthonormal columns added at will."""

    CONTRACT = (1, 0)

    def qr(self, x: Any, mode: str = "reduced") -> Any:
        q, r = super().qr(x, mode)
        return adapter(-q.array), adapter(-r.array)

    def svd(self, x: Any, full_matrices: bool = True) -> Any:
        u, s, vh = super().svd(x, full_matrices)
        return adapter(-u.array), s, adapter(-vh.array)

    def eigh(self, x: Any) -> Any:
        w, v = super().eigh(x)
        signs = np.where(np.arange(v.shape[-1]) % 2, 1, -1).astype(v.array.dtype)
        return w, adapter(v.array * signs)

    def eig(self, x: Any) -> Any:
        w, v = super().eig(x)
        turned = v.array * v.array.dtype.type(1j)
        return adapter(np.flip(w.array, -1).copy()), adapter(np.flip(turned, -1).copy())


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", ["qr", "svd", "eigh", "eig", "eigvals", "pinv"])
def test_every_right_answer_passes(suite_test: RunTest, name: str, dtype: str) -> None:
    for label in ("plain", "empty", "long", "non-contiguous", "edge"):
        suite_test(OtherRightAnswers, f"test_operation[{name}-{dtype}-{label}]")
