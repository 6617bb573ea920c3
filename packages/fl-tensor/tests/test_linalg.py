"""``ft.linalg`` against numpy.linalg, through the public functions."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft

DTYPES = ["float32", "float64", "complex64", "complex128"]
SHAPES = [
    (3, 3),
    (1, 1),
    (4, 2),
    (2, 4),
    (2, 3, 3),
    (2, 1, 4, 3),
    (0, 0),
    (0, 3),
    (0, 2, 2),
    (3, 0),
]
SQUARE = [s for s in SHAPES if s[-1] == s[-2]]
INF = float("inf")


def matrices(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def positive(shape, dtype):
    x = matrices(shape, dtype)
    return x @ adjoint(x) + np.eye(shape[-1], dtype=dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(got, want, factor=100.0):
    """Equal dtype, shape and - relative to the largest element - values."""
    want = np.asarray(want)
    assert str(got.dtype) == str(want.dtype)
    assert got.shape == want.shape
    eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0.0
    size = np.max(np.abs(want), initial=1.0)
    np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=factor * eps * size)


def real(dtype):
    return np.zeros(0, dtype).real.dtype


@pytest.mark.parametrize("dtype", DTYPES)
class TestFactorisations:
    @pytest.mark.parametrize("shape", SQUARE)
    def test_cholesky(self, shape, dtype):
        x = positive(shape, dtype)
        close(ft.linalg.cholesky(ft.asarray(x)), np.linalg.cholesky(x))
        close(ft.linalg.cholesky(ft.asarray(x), upper=True), np.linalg.cholesky(x, upper=True))

    @pytest.mark.parametrize("mode", ["reduced", "complete"])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_qr(self, shape, mode, dtype):
        x = matrices(shape, dtype)
        found = ft.linalg.qr(ft.asarray(x), mode=mode)
        want = np.linalg.qr(x, mode=mode)
        assert (found.Q.shape, found.R.shape) == (want.Q.shape, want.R.shape)
        q, r = (np.asarray(v) for v in found)
        close(ft.asarray(q @ r), x)
        close(
            ft.asarray(adjoint(q) @ q),
            np.broadcast_to(np.eye(q.shape[-1], dtype=dtype), r.shape[:-2] + 2 * q.shape[-1:]),
        )
        assert not np.tril(r, -1).any()

    @pytest.mark.parametrize("full", [True, False])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_svd(self, shape, full, dtype):
        x = matrices(shape, dtype)
        found = ft.linalg.svd(ft.asarray(x), full_matrices=full)
        want = np.linalg.svd(x, full_matrices=full)
        assert [v.shape for v in found] == [v.shape for v in want]
        close(found.S, want.S)
        close(ft.linalg.svdvals(ft.asarray(x)), want.S)
        u, s, vh = (np.asarray(v) for v in found)
        k = s.shape[-1]
        close(ft.asarray((u[..., :k] * s[..., None, :]) @ vh[..., :k, :]), x)

    @pytest.mark.parametrize("shape", SQUARE)
    def test_eigh(self, shape, dtype):
        x = positive(shape, dtype)
        found = ft.linalg.eigh(ft.asarray(np.tril(x)))
        want = np.linalg.eigh(x)
        close(found.eigenvalues, want.eigenvalues)
        close(ft.linalg.eigvalsh(ft.asarray(x)), want.eigenvalues)
        v = np.asarray(found.eigenvectors)
        close(ft.asarray((v * np.asarray(found.eigenvalues)[..., None, :]) @ adjoint(v)), x)

    @pytest.mark.parametrize("shape", SQUARE)
    def test_eig(self, shape, dtype):
        x = matrices(shape, dtype)
        values, vectors = ft.linalg.eig(ft.asarray(x))
        w, v = np.asarray(values), np.asarray(vectors)
        assert v.dtype == w.dtype == np.result_type(dtype, np.complex64)
        np.testing.assert_allclose(x @ v, v * w[..., None, :], atol=1e3 * np.finfo(dtype).eps)
        wanted = np.linalg.eigvals(x).astype(w.dtype)
        for found in (w, np.asarray(ft.linalg.eigvals(ft.asarray(x)))):
            order = [np.sort_complex(np.round(a, 3)) for a in (found, wanted)]
            np.testing.assert_allclose(*order, atol=2e-3)

    def test_real_eigenvalues_are_complex_numbers_too(self, dtype):
        found = ft.linalg.eigvals(ft.asarray(np.eye(2, dtype=dtype)))
        assert str(found.dtype) == str(np.result_type(dtype, np.complex64))


@pytest.mark.parametrize("dtype", DTYPES)
class TestEquations:
    @pytest.mark.parametrize(
        ("a", "b"),
        [
            ((3, 3), (3, 2)),
            ((2, 3, 3), (3, 1)),
            ((3, 3), (2, 3, 4)),
            ((0, 0), (0, 2)),
            ((0, 2, 2), (2, 1)),
        ],
    )
    def test_solve(self, a, b, dtype):
        x, y = positive(a, dtype), matrices(b, dtype, 1)
        close(ft.linalg.solve(ft.asarray(x), ft.asarray(y)), np.linalg.solve(x, y), 1e4)

    def test_solve_with_one_vector(self, dtype):
        x, y = positive((2, 3, 3), dtype), matrices((3,), dtype, 1)
        close(ft.linalg.solve(ft.asarray(x), ft.asarray(y)), np.linalg.solve(x, y), 1e4)

    @pytest.mark.parametrize("shape", SQUARE)
    def test_inverse_and_determinant(self, shape, dtype):
        x = positive(shape, dtype)
        close(ft.linalg.inv(ft.asarray(x)), np.linalg.inv(x), 1e3)
        close(ft.linalg.det(ft.asarray(x)), np.linalg.det(x), 1e3)
        sign, log = ft.linalg.slogdet(ft.asarray(-x))
        want = np.linalg.slogdet(-x)
        close(sign, want.sign)
        close(log, want.logabsdet)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_pseudo_inverse(self, shape, dtype):
        x = matrices(shape, dtype)
        want = np.linalg.pinv(x) if x.size else np.zeros((*shape[:-2], shape[-1], shape[-2]), dtype)
        close(ft.linalg.pinv(ft.asarray(x)), want, 1e4)

    def test_pseudo_inverse_with_a_tolerance_per_matrix(self, dtype):
        x = np.stack([np.diag([4.0, 1.0])] * 3).astype(dtype)
        found = ft.linalg.pinv(ft.asarray(x), rtol=[0.5, 0.1, 0.3])
        close(found[:, 1, 1], np.array([0, 1, 0], dtype))
        assert ft.linalg.matrix_rank(ft.asarray(x), rtol=[0.5, 0.1, 0.3]).tolist() == [1, 2, 1]
        assert ft.linalg.matrix_rank(ft.asarray(x), rtol=0.5).tolist() == [1, 1, 1]

    def test_rank(self, dtype):
        x = matrices((4, 2), dtype) @ matrices((2, 5), dtype, 1)
        found = ft.linalg.matrix_rank(ft.asarray(x))
        assert found.dtype is ft.int64
        assert found.item() == np.linalg.matrix_rank(x) == 2
        assert ft.linalg.matrix_rank(ft.zeros((2, 0, 3))).tolist() == [0, 0]
        assert ft.linalg.matrix_rank(ft.zeros((3, 3))).item() == 0

    @pytest.mark.defect("N10")
    @pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3)])
    def test_least_squares(self, shape, dtype):
        x, y = matrices(shape, dtype), matrices((shape[0], 2), dtype, 1)
        found = ft.linalg.lstsq(ft.asarray(x), ft.asarray(y))
        want, _, rank, values = np.linalg.lstsq(x, y)
        close(found.solution, want, 1e4)
        assert found[0] is found.solution
        close(found.residuals, (np.abs(x @ want - y) ** 2).sum(0), 1e4)
        assert (found.rank.item(), found.rank.dtype) == (rank, ft.int64)
        close(found.singular_values, values, 1e3)
        one = ft.linalg.lstsq(ft.asarray(x), ft.asarray(y[:, 0]))
        close(one.solution, want[:, 0], 1e4)
        close(one.residuals, found.residuals.numpy()[0], 1e4)

    @pytest.mark.defect("N10")
    def test_least_squares_of_less_than_full_rank(self, dtype):
        x = matrices((6, 2), dtype) @ matrices((2, 4), dtype, 1)
        found = ft.linalg.lstsq(ft.asarray(x), ft.ones((6, 1), dtype), rtol=1e-3)
        assert found.rank.item() == 2
        assert found.residuals.shape == (1,)
        assert ft.linalg.lstsq(ft.asarray(x), ft.ones((6, 1), dtype), rtol=2).rank.item() == 0

    @pytest.mark.defect("N10")
    def test_least_squares_of_several_and_of_empty_matrices(self, dtype):
        x, y = matrices((3, 5, 2), dtype), matrices((5, 4), dtype, 1)
        found = ft.linalg.lstsq(ft.asarray(x), ft.asarray(y))
        assert [part.shape for part in found] == [(3, 2, 4), (3, 4), (3,), (3, 2)]
        for i in range(3):
            close(found.solution[i], np.linalg.lstsq(x[i], y)[0], 1e4)
        empty = ft.linalg.lstsq(ft.zeros((2, 0, 3), dtype), ft.zeros((0, 4), dtype))
        assert [part.shape for part in empty] == [(2, 3, 4), (2, 4), (2,), (2, 0)]
        assert empty.rank.tolist() == [0, 0]

    @pytest.mark.parametrize("n", [0, 1, 2, 5, -1, -3])
    def test_matrix_power(self, n, dtype):
        x = positive((2, 3, 3), dtype) / 4
        close(ft.linalg.matrix_power(ft.asarray(x), n), np.linalg.matrix_power(x, n), 1e4)


class TestNorms:
    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, INF, -INF, None])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_matrices(self, dtype, ord, keepdims):
        x = matrices((2, 3, 4), dtype)
        found = ft.linalg.matrix_norm(ft.asarray(x), ord=ord, keepdims=keepdims)
        close(found, np.linalg.matrix_norm(x, ord="fro" if ord is None else ord, keepdims=keepdims))

    @pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, -2, INF, -INF])
    @pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 0, 1), ()])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_vectors(self, dtype, axis, ord):
        x = matrices((2, 3, 4), dtype)
        if axis == ():
            want = np.abs(x) if ord else (x != 0).astype(real(dtype))
        else:
            want = np.linalg.vector_norm(x, axis=axis, ord=ord, keepdims=True)
        close(ft.linalg.vector_norm(ft.asarray(x), axis=axis, ord=ord, keepdims=True), want)

    def test_an_unknown_norm_is_named(self):
        with pytest.raises(ft.ArgumentError, match=r"\[matrix_norm\] ord 'frob'.*'fro'"):
            ft.linalg.matrix_norm(ft.ones((2, 2)), ord="frob")
        with pytest.raises(ft.ArgumentError, match="ord 3"):
            ft.linalg.matrix_norm(ft.ones((2, 2)), ord=3)


def test_the_array_api_spellings_of_what_needs_no_factorisation():
    x = ft.arange(24).reshape(2, 3, 4)
    n = np.arange(24).reshape(2, 3, 4)
    assert ft.linalg.matrix_transpose(x).tolist() == np.swapaxes(n, 1, 2).tolist()
    assert ft.linalg.diagonal(x, offset=1).tolist() == np.linalg.diagonal(n, offset=1).tolist()
    assert ft.linalg.trace(x, offset=-1).tolist() == np.linalg.trace(n, offset=-1).tolist()
    assert ft.linalg.trace(x, dtype=ft.float64).dtype is ft.float64
    assert ft.linalg.trace(x.astype("uint8"), dtype="uint8").dtype is ft.uint8
    assert ft.linalg.matmul is ft.matmul
    assert ft.linalg.vecdot is ft.vecdot


def test_integers_are_taken_as_the_default_float_except_in_powers():
    x = ft.asarray([[2, 1], [1, 1]])
    assert ft.linalg.inv(x).dtype is ft.float32
    assert ft.linalg.det([[2, 1], [1, 1]]).item() == pytest.approx(1.0)
    power = ft.linalg.matrix_power(x, 10)
    assert power.dtype is ft.int64
    assert power.tolist() == [[10946, 6765], [6765, 4181]]


def test_results_are_named():
    x = ft.eye(2)
    assert ft.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert ft.linalg.eig(x)._fields == ("eigenvalues", "eigenvectors")
    assert ft.linalg.qr(x)._fields == ("Q", "R")
    assert ft.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert ft.linalg.slogdet(x)._fields == ("sign", "logabsdet")


class TestErrors:
    def test_what_has_no_factorisation(self):
        with pytest.raises(ft.LinAlgError, match=r"\[cholesky\].*positive definite"):
            ft.linalg.cholesky([[1.0, 2.0], [2.0, 1.0]])
        with pytest.raises(ft.LinAlgError, match=r"\[inv\].*[Ss]ingular"):
            ft.linalg.inv([[1.0, 2.0], [2.0, 4.0]])
        with pytest.raises(ValueError, match=r"\[solve\]"):
            ft.linalg.solve([[0.0]], [1.0])

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            (lambda x: ft.linalg.inv(x), "expected square matrices, these are 2 by 3"),
            (lambda x: ft.linalg.det(x[0]), "at least two axes"),
            (lambda x: ft.linalg.svd(x[0, 0]), "at least two axes"),
            (lambda x: ft.linalg.solve(x @ x.T, x.T), "2 equations need 2 rows of y, not 3"),
            (lambda x: ft.linalg.matrix_power(x, 2), "square"),
            (lambda x: ft.linalg.lstsq(x, x.T), "inner dimensions"),
        ],
    )
    def test_shapes(self, call, words):
        with pytest.raises(ft.ShapeError, match=words):
            call(ft.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]]))

    def test_half_precision_is_refused_with_the_way_out(self):
        x = ft.eye(2).astype("float16")
        with pytest.raises(ft.DTypeError, match=r"\[qr\] x is float16.*astype"):
            ft.linalg.qr(x)

    def test_a_mode_that_does_not_exist(self):
        with pytest.raises(ft.ArgumentError, match="'raw'.*'reduced'"):
            ft.linalg.qr(ft.eye(2), mode="raw")

    def test_a_backend_without_the_capability_says_so(self):
        class Plain(type(ft.get_backend("numpy"))):
            CONTRACT = (1, 0)
            name = "plain"
            capabilities = frozenset()
            svd = ft.TensorBackend.svd

        x = ft.asarray([[1.0]], backend=Plain())
        with pytest.raises(ft.CapabilityError, match=r"\[svd\] backend 'plain'.*'linalg'"):
            ft.linalg.svd(x)
        with pytest.raises(ft.CapabilityError, match="'linalg'"):
            ft.linalg.pinv(x)


def test_a_backend_without_complex_numbers_is_not_asked_for_them():
    class Real(type(ft.get_backend("numpy"))):
        CONTRACT = (1, 0)
        name = "real"
        dtypes = frozenset({*ft.dtypes.REQUIRED, ft.float64})

    x = ft.asarray([[0.0, -1.0], [1.0, 0.0]], backend=Real())
    for call in (ft.linalg.eig, ft.linalg.eigvals):
        with pytest.raises(ft.DTypeError, match="backend 'real' has no dtype complex64"):
            call(x)
    assert ft.linalg.det(x).item() == 1.0


def test_overrides_reach_what_is_built_on_an_operation():
    calls = []

    def solve(inner, x, y):
        calls.append(x.shape)
        return inner.solve(x, y)

    with ft.override(solve=solve):
        ft.linalg.inv(ft.eye(3))
    assert calls == [(3, 3)]


@pytest.mark.parametrize("name", ["cholesky", "eigh", "svd", "qr", "inv", "eigvalsh"])
def test_large_results_lie_in_blocks(name):
    x = ft.eye(64)
    with fl_memory.use("caching") as manager:
        gc.collect()
        before = manager.stats().live_bytes
        results = getattr(ft.linalg, name)(x)
        results = results if isinstance(results, tuple) else (results,)
        large = sum(r.nbytes for r in results if r.nbytes >= manager.small_bytes)
        gc.collect()
        assert manager.stats().live_bytes - before >= large
        del results
        gc.collect()
        assert manager.stats().live_bytes == before
