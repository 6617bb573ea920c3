"""Capabilities: optional operations beyond the required primitives.

A backend that lists a capability in ``capabilities`` writes all operations under its name; the
conformance kit tries them. One that does not inherits these methods, which say what is missing.

complex  the parts of complex numbers
linalg   factorisations of matrices in float32, float64, complex64 and complex128, as far as the
         backend has them; leading axes are batches. ``eig`` gives complex results.
fft      discrete Fourier transforms along one axis; needs the capability "complex"
memory   no operations, a promise: results of ``small_bytes`` or more lie in blocks of the manager
         that ``fl_memory.current()`` gives, as long as somebody can see them and no longer
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from fl_tensor.errors import CapabilityError
from fl_tensor.roles import A, Axis, F

#: A tuple of arrays.
Several: TypeAlias = Any
CAPABILITIES = ("complex", "linalg", "fft", "memory")


def not_offered(op: str, backend: Any, capability: str) -> CapabilityError:
    """The error of an operation whose capability the backend does not declare."""
    return CapabilityError(
        f"[{op}] backend {backend.name!r} does not offer the capability {capability!r}: move the "
        f'tensor to one that does, x.to("numpy") for example'
    )


def _optional(
    capability: str, since: str = "1.0"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def missing(self: Any, *arguments: Any, **options: Any) -> Any:
            raise not_offered(function.__name__, self, capability)

        missing.capability = capability  # type: ignore[attr-defined]
        missing.since = since  # type: ignore[attr-defined]
        return missing

    return mark


class OptionalOps:
    """Inherited by every backend; overridden where the capability is declared."""

    # ---- complex -------------------------------------------------------------------------------

    @_optional("complex")
    def real(self, x: A) -> A:
        """Real part of a complex ``x``; complex64 gives float32, complex128 float64."""

    @_optional("complex")
    def imag(self, x: A) -> A:
        """Imaginary part of a complex ``x``; dtype as ``real``."""

    @_optional("complex")
    def conj(self, x: A) -> A:
        """Complex conjugate of a complex ``x``."""

    # ---- linalg: x has shape (..., m, n), results have the same leading axes --------------------

    @_optional("linalg")
    def cholesky(self, x: F, upper: bool = False) -> A:
        """Lower triangular L with ``L @ L^H = x`` (..., n, n), or upper U with ``U^H @ U = x``.
        Only that triangle is read. Raises LinAlgError if ``x`` is not positive definite."""

    @_optional("linalg")
    def qr(self, x: F, mode: str = "reduced") -> Several:
        """Q with orthonormal columns and upper triangular R, ``Q @ R = x`` (..., m, n): Q
        (..., m, k), R (..., k, n), k = min(m, n), or k = m with mode ``"complete"``. Nothing is
        said of the signs on R's diagonal."""

    @_optional("linalg")
    def svd(self, x: F, full_matrices: bool = True) -> Several:
        """U (..., m, m), singular values (..., k) real and descending, V^H (..., n, n), with k =
        min(m, n); U (..., m, k) and V^H (..., k, n) without ``full_matrices``."""

    @_optional("linalg")
    def eigh(self, x: F) -> Several:
        """Eigenvalues (..., n), real and ascending, and orthonormal eigenvectors (..., n, n) in
        columns of a Hermitian ``x`` (..., n, n); only its lower triangle is read."""

    @_optional("linalg")
    def eig(self, x: F) -> Several:
        """Eigenvalues (..., n) and eigenvectors (..., n, n) of unit length in columns of ``x``
        (..., n, n), both complex, in no particular order."""

    @_optional("linalg")
    def solve(self, x: F, y: F) -> A:
        """The solution Z of ``x @ Z = y`` for ``x`` (..., n, n) and ``y`` (..., n, k); leading axes
        broadcast. Raises LinAlgError if ``x`` is singular."""

    @_optional("linalg")
    def slogdet(self, x: F) -> Several:
        """Sign of the determinant of ``x`` (..., n, n) (complex: a number of magnitude 1; 0 for a
        singular ``x``) and the logarithm of its magnitude (real; -inf), both (...)."""

    # ---- fft: unnormalised forwards, divided by the length backwards ----------------------------

    @_optional("fft")
    def fft(self, x: A, axis: Axis) -> A:
        """Discrete Fourier transform of a complex ``x`` along ``axis``: the sum over j of
        ``x[j] exp(-2 pi i j k / n)``."""

    @_optional("fft")
    def ifft(self, x: A, axis: Axis) -> A:
        """Inverse of ``fft``: divided by n."""

    @_optional("fft")
    def rfft(self, x: A, axis: Axis) -> A:
        """The first ``n // 2 + 1`` elements of ``fft`` of a real ``x``; float32 gives complex64,
        float64 complex128."""

    @_optional("fft")
    def irfft(self, x: A, n: int, axis: Axis) -> A:
        """Inverse of ``rfft``: ``n`` real elements from ``n // 2 + 1`` complex ones, divided by n.
        The first of these, and for even n the last, count as real."""
