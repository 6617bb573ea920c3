"""Products, decompositions and Fourier transforms."""

from __future__ import annotations

import math
from typing import Any

import fl_tensor as ft
from counterparts.calls import Function, dtype_of


def _added(product: Function, batched: bool = False) -> Function:
    """``addmm`` and its like: ``beta * x + alpha * product``."""

    def call(x: Any, a: Any, b: Any, beta: Any = 1, alpha: Any = 1) -> Any:
        found = product(a, b)
        found = ft.sum(found, axis=0) if batched else found
        found = found if alpha == 1 else found * alpha
        return x * beta + found if beta != 1 else x + found

    return call


def _tensordot(x: Any, y: Any, dims: Any = 2) -> Any:
    return ft.tensordot(x, y, axes=dims)


def _einsum(xs: Any, equation: str) -> Any:
    return ft.einsum(equation, *xs)


def _vector_norm(
    x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    x = x if dtype is None else x.astype(dtype_of(dtype))
    axis = None if dim == [] or dim == () else dim
    return ft.linalg.vector_norm(x, axis=axis, keepdims=keepdim, ord=ord)


def _matrix_norm(
    x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None
) -> Any:
    x = x if dtype is None else x.astype(dtype_of(dtype))
    a, b = (axis % x.ndim for axis in dim)
    rest = [axis for axis in range(x.ndim) if axis not in (a, b)]
    found = ft.linalg.matrix_norm(ft.permute(x, [*rest, a, b]), ord=ord, keepdims=keepdim)
    return ft.moveaxis(found, (-2, -1), (a, b)) if keepdim else found


def _norm(
    x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    axes = (dim,) if isinstance(dim, int) else dim
    if ord is None or (axes is not None and len(axes) == 1) or (axes is None and x.ndim == 1):
        return _vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype)
    return _matrix_norm(x, ord, axes or (-2, -1), keepdim, dtype)


def _transform(name: str) -> Function:
    def call(x: Any, *args: Any, **options: Any) -> Any:
        options = {k: "backward" if k == "norm" and v is None else v for k, v in options.items()}
        names = ("s", "axes") if name[-1] in "n2" else ("n", "axis")
        options |= dict(zip((*names, "norm"), args))
        if "dim" in options:
            options[names[1]] = options.pop("dim")
        if options.get("s") is not None and options.get("axes") is None and name[-1] == "n":
            options["axes"] = range(-len(options["s"]), 0)
        return getattr(ft.fft, name)(x, **options)

    return call


def _shift(name: str) -> Function:
    return lambda x, dim=None: getattr(ft.fft, name)(x, axes=dim)


def _cross(x: Any, y: Any, dim: int = -1) -> Any:
    return ft.cross(x, y, axis=dim)


def _old_cross(x: Any, y: Any, dim: int | None = None) -> Any:
    if dim is None:
        dim = next(a for a, n in enumerate(x.shape) if n == 3)
    return ft.cross(x, y, axis=dim)


def _svd(x: Any, full_matrices: bool = True, **_: Any) -> Any:
    return tuple(ft.linalg.svd(x, full_matrices=full_matrices))


def _multi_dot(xs: Any) -> Any:
    found = xs[0]
    for x in xs[1:]:
        found = found @ x
    return found


def _tensorinv(x: Any, ind: int = 2) -> Any:
    rows = math.prod(x.shape[:ind])
    shape = (*x.shape[ind:], *x.shape[:ind])
    return ft.linalg.inv(x.reshape((rows, -1))).reshape(shape)


def _tensorsolve(x: Any, y: Any, dims: Any = None) -> Any:
    if dims is not None:
        x = ft.moveaxis(x, dims, [x.ndim - len(dims) + i for i in range(len(dims))])
    rest = x.shape[y.ndim :]
    solved = ft.linalg.solve(x.reshape((-1, math.prod(rest))), y.reshape(-1))
    return solved.reshape(rest)


def _vander(x: Any, N: int | None = None) -> Any:
    x = x.reshape(1) if x.ndim == 0 else x
    n = x.shape[-1] if N is None else N
    if n == 0:
        return NotImplemented
    columns = [ft.ones_like(x)]
    for _ in range(n - 1):
        columns.append(columns[-1] * x)
    return ft.stack(columns, axis=-1)


def _cdist(x: Any, y: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    return ft.cdist(x, y, p)


def _solve_triangular(
    a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    if left:
        return ft.linalg.solve_triangular(a, b, lower=not upper, unit_diagonal=unitriangular)
    a, b = (ft.swapaxes(v, -1, -2) for v in (a, b))
    return ft.swapaxes(_solve_triangular(a, b, not upper, True, unitriangular), -1, -2)


def _solve(a: Any, b: Any, left: bool = True) -> Any:
    if left:
        return ft.linalg.solve(a, b)
    solved = ft.linalg.solve(ft.swapaxes(a, -1, -2), ft.swapaxes(b, -1, -2))
    return ft.swapaxes(solved, -1, -2)


def _hermitian(x: Any, UPLO: str = "L") -> Any:
    lower = ft.tril(x) if UPLO == "L" else ft.conj(ft.swapaxes(ft.triu(x), -1, -2))
    return lower + ft.conj(ft.swapaxes(ft.tril(lower, -1), -1, -2))


def _pinv(x: Any, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Any:
    if atol is not None:
        return NotImplemented
    return ft.linalg.pinv(_hermitian(x) if hermitian else x, rtol=rtol)


def _rank(x: Any, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Any:
    if atol is not None:
        return NotImplemented
    return ft.linalg.matrix_rank(_hermitian(x) if hermitian else x, rtol=rtol)


TABLE: dict[str, Function] = {
    "__rmatmul__": lambda x, y: ft.matmul(y, x),
    "addbmm": _added(ft.matmul, batched=True),
    "addmm": _added(ft.matmul),
    "addmm.decomposed": _added(ft.matmul),
    "addmv": _added(ft.matmul),
    "addr": _added(ft.outer),
    "baddbmm": _added(ft.matmul),
    "bmm": ft.matmul,
    "cdist": _cdist,
    "cholesky": lambda x, upper=False: ft.linalg.cholesky(x, upper=upper),
    "cross": _old_cross,
    "dot": ft.dot,
    "einsum": _einsum,
    "fft.fftshift": _shift("fftshift"),
    "fft.ifftshift": _shift("ifftshift"),
    "inner": ft.inner,
    "kron": ft.kron,
    "linalg.cholesky": lambda x, upper=False: ft.linalg.cholesky(x, upper=upper),
    "linalg.cond": ft.linalg.cond,
    "linalg.cross": _cross,
    "linalg.det": ft.linalg.det,
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: ft.diagonal(x, offset, dim1, dim2),
    "linalg.eigh": lambda x, UPLO="L": tuple(ft.linalg.eigh(_hermitian(x, UPLO))),
    "linalg.eigvals": ft.linalg.eigvals,
    "linalg.eigvalsh": lambda x, UPLO="L": ft.linalg.eigvalsh(_hermitian(x, UPLO)),
    "linalg.inv": ft.linalg.inv,
    "linalg.matrix_norm": _matrix_norm,
    "linalg.matrix_power": ft.linalg.matrix_power,
    "linalg.matrix_rank": _rank,
    "linalg.multi_dot": _multi_dot,
    "linalg.norm": _norm,
    "linalg.norm.subgradients_at_zero": _norm,
    "linalg.pinv": _pinv,
    "linalg.pinv.hermitian": _pinv,
    "linalg.qr": lambda x, mode="reduced": tuple(ft.linalg.qr(x, mode=mode)),
    "linalg.slogdet": lambda x: tuple(ft.linalg.slogdet(x)),
    "linalg.solve": _solve,
    "linalg.solve_triangular": _solve_triangular,
    "linalg.svd": _svd,
    "linalg.svdvals": ft.linalg.svdvals,
    "linalg.tensorinv": _tensorinv,
    "linalg.tensorsolve": _tensorsolve,
    "linalg.vander": _vander,
    "linalg.vecdot": lambda x, y, dim=-1: ft.vecdot(x, y, axis=dim),
    "linalg.vector_norm": _vector_norm,
    "logdet": lambda x: _logdet(x),
    "matmul": ft.matmul,
    "mm": ft.matmul,
    "mv": ft.matmul,
    "outer": ft.outer,
    "pinverse": lambda x, rcond=None: ft.linalg.pinv(x),
    "tensordot": _tensordot,
    "trace": lambda x: ft.linalg.trace(x),
    "vdot": lambda x, y: ft.vecdot(x, y),
}
for (
    _name
) in "fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn".split():
    TABLE[f"fft.{_name}"] = _transform(_name)


def _logdet(x: Any) -> Any:
    sign, logarithm = ft.linalg.slogdet(x)
    if sign.dtype.kind == "c":
        return ft.log(sign) + logarithm
    return ft.where(ft.equal(sign, -1), math.nan, logarithm)
