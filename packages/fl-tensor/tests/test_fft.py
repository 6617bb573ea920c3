"""``ft.fft`` against numpy.fft, through the public functions."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import fl_memory
import fl_tensor as ft

REAL, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
NORMS = ["backward", "ortho", "forward"]
#: (shape, n, axis)
CALLS = [
    ((7,), None, -1),
    ((1,), None, 0),
    ((2, 6), None, 0),
    ((2, 6), 4, 1),
    ((2, 6), 9, -1),
    ((3, 4, 2), 5, 1),
    ((0, 4), None, 1),
    ((0, 4), 6, 1),
    ((2, 97), None, 1),
]
#: (shape, s, axes)
SEVERAL = [
    ((3, 4), None, None),
    ((3, 4), None, (1, 0)),
    ((2, 3, 4), None, (0, -1)),
    ((2, 3, 4), (5, 3), (2, 0)),
    ((2, 3, 4), (2, 2, 7), (0, 1, 2)),
    ((0, 3, 4), None, (1, 2)),
]


def signal(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def close(got, want):
    want = np.asarray(want)
    assert str(got.dtype) == str(want.dtype)
    assert got.shape == want.shape
    size = np.max(np.abs(want), initial=1.0)
    tolerance = 50 * np.finfo(want.dtype).eps * size
    np.testing.assert_allclose(np.asarray(got), want, rtol=0, atol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("shape", "n", "axis"), CALLS)
class TestOneAxis:
    @pytest.mark.parametrize("name", ["fft", "ifft"])
    @pytest.mark.parametrize("dtype", REAL + COMPLEX)
    def test_complex(self, name, dtype, shape, n, axis, norm):
        x = signal(shape, dtype)
        want = getattr(np.fft, name)(x, n, axis, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), n, axis, norm), want)

    @pytest.mark.parametrize("name", ["rfft", "ihfft"])
    @pytest.mark.parametrize("dtype", REAL)
    def test_halving(self, name, dtype, shape, n, axis, norm):
        x = signal(shape, dtype)
        want = getattr(np.fft, name)(x, n, axis, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), n, axis, norm), want)

    @pytest.mark.parametrize("name", ["irfft", "hfft"])
    @pytest.mark.parametrize("dtype", REAL + COMPLEX)
    def test_doubling(self, name, dtype, shape, n, axis, norm):
        if shape == (1,):
            n = 1
        x = signal(shape, dtype)
        want = getattr(np.fft, name)(x, n, axis, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), n, axis, norm), want)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("shape", "s", "axes"), SEVERAL)
class TestSeveralAxes:
    @pytest.mark.parametrize("name", ["fftn", "ifftn", "irfftn"])
    @pytest.mark.parametrize("dtype", COMPLEX)
    def test_complex(self, name, dtype, shape, s, axes, norm):
        x = signal(shape, dtype)
        want = getattr(np.fft, name)(x, s, axes, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), s, axes, norm), want)

    @pytest.mark.parametrize("name", ["rfftn", "fftn"])
    @pytest.mark.parametrize("dtype", REAL)
    def test_real(self, name, dtype, shape, s, axes, norm):
        x = signal(shape, dtype)
        want = getattr(np.fft, name)(x, s, axes, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), s, axes, norm), want)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("axes", [(-2, -1), (0, 1), (2, 0)])
@pytest.mark.parametrize("s", [None, (5, 4)])
class TestTwoAxes:
    @pytest.mark.parametrize("name", ["fft2", "ifft2", "irfft2"])
    def test_complex(self, name, s, axes, norm):
        x = signal((3, 4, 6), "complex64")
        want = getattr(np.fft, name)(x, s, axes, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), s, axes, norm), want)

    @pytest.mark.parametrize("name", ["fft2", "rfft2"])
    def test_real(self, name, s, axes, norm):
        x = signal((3, 4, 6), "float64")
        want = getattr(np.fft, name)(x, s, axes, norm)
        close(getattr(ft.fft, name)(ft.asarray(x), s, axes, norm), want)


def test_two_axes_are_the_last_ones_by_default():
    x = ft.asarray(signal((2, 4, 6), "float64"))
    close(ft.fft.rfft2(x), np.fft.rfft2(np.asarray(x)))
    close(ft.fft.irfft2(ft.fft.rfft2(x)), np.asarray(x))
    close(ft.fft.ifft2(ft.fft.fft2(x)), np.asarray(x) + 0j)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_every_transform_is_undone_by_its_inverse(n, norm):
    x, z = ft.asarray(signal((3, n), "float64")), ft.asarray(signal((3, n), "complex128"))
    close(ft.fft.ifft(ft.fft.fft(z, norm=norm), norm=norm), np.asarray(z))
    close(ft.fft.irfft(ft.fft.rfft(x, norm=norm), n, norm=norm), np.asarray(x))
    close(ft.fft.hfft(ft.fft.ihfft(x, norm=norm), n, norm=norm), np.asarray(x))
    close(ft.fft.irfftn(ft.fft.rfftn(x, norm=norm), (3, n), (0, 1), norm=norm), np.asarray(x))


@pytest.mark.parametrize("n", [1, 2, 5, 6])
def test_frequencies(n):
    for name in ("fftfreq", "rfftfreq"):
        ours, theirs = getattr(ft.fft, name), getattr(np.fft, name)
        close(ours(n, d=0.25, dtype="float64"), theirs(n, 0.25))
        assert ours(n).dtype is ft.float32
    with pytest.raises(ft.DTypeError, match="int64"):
        ft.fft.fftfreq(4, dtype=ft.int64)
    with pytest.raises(ft.ShapeError, match="length 0"):
        ft.fft.rfftfreq(0)


@pytest.mark.parametrize("axes", [None, 0, -1, (0, 2), ()])
def test_shifts(axes):
    n = np.arange(2 * 3 * 5).reshape(2, 3, 5)
    for name in ("fftshift", "ifftshift"):
        shifted = getattr(ft.fft, name)(ft.asarray(n), axes)
        assert shifted.tolist() == getattr(np.fft, name)(n, axes).tolist()
    assert ft.fft.ifftshift(ft.fft.fftshift(ft.asarray(n))).tolist() == n.tolist()


def test_integers_are_taken_as_the_default_float():
    assert ft.fft.rfft([1, 2, 3]).dtype is ft.complex64
    close(ft.fft.fft([1, 0, 0, 0]), np.ones(4, np.complex64))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ft.fft.fft(x, 0), ft.ShapeError, r"\[fft\] a transform of length 0"),
        (lambda x: ft.fft.rfft(ft.zeros(0)), ft.ShapeError, r"\[rfft\]"),
        (lambda x: ft.fft.irfft(x[..., :1]), ft.ShapeError, r"\[irfft\] a transform of length 0"),
        (lambda x: ft.fft.fft(x, axis=2), ft.ShapeError, r"\[fft\].*out of range"),
        (lambda x: ft.fft.fft(x, norm="unit"), ft.ArgumentError, "'unit'.*'ortho'"),
        (lambda x: ft.fft.rfft(ft.fft.fft(x)), ft.DTypeError, r"\[rfft\] x is complex64"),
        (lambda x: ft.fft.rfft(x.astype("float16")), ft.DTypeError, "float16.*float32"),
        (lambda x: ft.fft.fftn(x, (2, 2)), ft.ArgumentError, "without axes"),
        (lambda x: ft.fft.fftn(x, (2,), (0, 1)), ft.ShapeError, "1 lengths"),
        (lambda x: ft.fft.fftn(x, axes=(0, -2)), ft.ShapeError, "twice"),
        (lambda x: ft.fft.rfftn(x, axes=()), ft.ShapeError, "no axis to halve"),
        (lambda x: ft.fft.fft(x, 2.5), ft.DTypeError, "expected an int"),
    ],
)
def test_errors(call, error, words):
    with pytest.raises(error, match=words):
        call(ft.ones((2, 3)))


def test_large_results_lie_in_blocks():
    x = ft.ones(4096)
    with fl_memory.use("caching") as manager:
        gc.collect()
        before = manager.stats().live_bytes
        y = ft.fft.rfft(x)
        assert manager.stats().live_bytes - before >= y.nbytes
        del y
        gc.collect()
        assert manager.stats().live_bytes == before


def test_overrides_reach_what_is_built_on_an_operation():
    axes = []

    def fft(inner, x, axis):
        axes.append(axis)
        return inner.fft(x, axis)

    with ft.override(fft=fft):
        ft.fft.rfftn(ft.ones((2, 3, 4)))
    assert sorted(axes) == [0, 1]
