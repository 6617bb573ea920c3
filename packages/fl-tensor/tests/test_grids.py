"""Sequences, grids and places of triangles, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft


@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("num", [0, 1, 2, 7])
def test_sequences_as_numpy(num, endpoint):
    options = {"num": num, "endpoint": endpoint, "dtype": "float64"}
    for found, wanted in (
        (ft.linspace(2, 5, **options), np.linspace(2, 5, **options)),
        (ft.logspace(-1, 2, **options), np.logspace(-1, 2, **options)),
        (ft.logspace(0, 3, base=2.5, **options), np.logspace(0, 3, base=2.5, **options)),
        (ft.geomspace(1, 1000, **options), np.geomspace(1, 1000, **options)),
        (ft.geomspace(-8, -0.5, **options), np.geomspace(-8, -0.5, **options)),
    ):
        np.testing.assert_allclose(found.numpy(), wanted, 1e-14)


def test_sequences_hit_their_ends():
    assert ft.geomspace(1, 1000, 4, dtype="float64").tolist()[::3] == [1.0, 1000.0]
    assert ft.logspace(0, 400, 2, dtype="float64").tolist() == [1.0, math.inf]
    assert ft.linspace(0, 1, 3).dtype is ft.float32
    for call, words in (
        (lambda: ft.geomspace(-1, 1), "both must be positive or negative"),
        (lambda: ft.logspace(0, 1, -1), "may not be negative"),
        (lambda: ft.logspace(0, 1, base=-2), "expected a positive number"),
    ):
        with pytest.raises(ft.ArgumentError, match=words):
            call()


@pytest.mark.parametrize(("rows", "k", "columns"), [(3, 0, None), (3, 1, 4), (4, -2, 3), (0, 0, 2)])
def test_places_of_triangles_as_numpy(rows, k, columns):
    for name in ("tril_indices", "triu_indices"):
        found = getattr(ft, name)(rows, k, columns)
        wanted = getattr(np, name)(rows, k, columns)
        assert [f.tolist() for f in found] == [w.tolist() for w in wanted]
    x = ft.arange(9).reshape(3, 3)
    assert x[ft.tril_indices(3)].tolist() == [0, 3, 4, 6, 7, 8]


def test_empty_is_zeros():
    assert ft.empty((2, 1)).tolist() == [[0.0], [0.0]]
    assert ft.empty_like(ft.asarray([1, 2])).tolist() == [0, 0]


def test_synchronize_waits_for_the_devices_asked_for():
    from fl_tensor.backends.numpy import NumpyBackend

    waited = []

    class Two(NumpyBackend):
        CONTRACT = (1, 0)
        name = "two"

        def devices(self):
            return [ft.Device.parse("acc:0"), ft.Device.parse("acc:1")]

        def synchronize(self, device):
            waited.append(str(device))

    ft.synchronize(backend=Two())
    ft.synchronize("acc:1", Two())
    ft.synchronize()
    assert waited == ["acc:0", "acc:1", "acc:1"]
    with pytest.raises(ft.BackendError, match="has no device cuda:0"):
        ft.synchronize("cuda:0")


def test_methods_are_the_functions():
    x = ft.asarray([[0.5, 2.5], [1.5, -1.0]])
    assert x.round().tolist() == ft.round(x).tolist()
    assert x.argsort(0, True).tolist() == ft.argsort(x, 0, True).tolist()
    assert x.diagonal(1).tolist() == [2.5]
    assert [i.tolist() for i in (x > 1).nonzero()] == [[0, 1], [1, 0]]
    assert x.swapaxes(0, 1).tolist() == x.T.tolist()
    assert x.repeat(2, 1).shape == (2, 4)
    assert x.take([3]).tolist() == [-1.0]
