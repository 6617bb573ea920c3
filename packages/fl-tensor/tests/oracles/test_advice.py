"""What the tables of foreign names say to write computes what PyTorch does."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.foreign_names import tables

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
A, B, C = RNG.normal(size=(3, 3, 3))
X, Y = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 3))
V, W = RNG.normal(size=(2, 3))
SYMMETRIC = A @ A.T + 3 * np.eye(3)
L = np.linalg.cholesky(SYMMETRIC)
TALL = np.arange(24.0).reshape(6, 4) % 7
UPDATES = np.arange(12.0).reshape(3, 4) + 0.5
INDEX = np.array([[0, 2, 5, 2], [0, 2, 1, 3], [4, 1, 0, 2]])
ROWS, AGAIN = np.array([2, 0]), np.array([0, 2, 2])
PUT = {"x": TALL, "indices": INDEX, "updates": UPDATES, "axis": 0}
ADD = {"x": TALL, "i": INDEX, "j": np.arange(4), "v": UPDATES}
PARTS = {"x": TALL, "size": 4, "sizes": [1, 3, 2], "axis": 0}
CHANNELS = RNG.normal(size=(2, 4, 3, 3))

#: What the ways of the rows call their operands, and the arguments of PyTorch's call.
CALLS = {
    "addbmm": ({"x": C, "a": X, "b": Y}, (C, X, Y)),
    "addcdiv": ({"x": A, "a": B, "b": C, "value": 1}, (A, B, C)),
    "addcmul": ({"x": A, "a": B, "b": C, "value": 1}, (A, B, C)),
    "addmm": ({"x": A, "a": B, "b": C}, (A, B, C)),
    "addmv": ({"x": V, "a": B, "b": W}, (V, B, W)),
    "addr": ({"x": A, "a": V, "b": W}, (A, V, W)),
    "aminmax": ({"x": A}, (A,)),
    "bartlett_window": ({"n": 9}, (9,)),
    "blackman_window": ({"n": 9}, (9,)),
    "bucketize": ({"x": A, "boundaries": np.sort(V)}, (A, np.sort(V))),
    "cartesian_prod": ({"x": V, "y": W}, (V, W)),
    "celu": ({"x": A, "alpha": 2.0}, (A, 2.0)),
    "channel_shuffle": ({"x": CHANNELS, "n": 2, "groups": 2, "h": 3, "w": 3}, (CHANNELS, 2)),
    "cholesky_inverse": ({"l": L}, (L,)),
    "cholesky_solve": ({"l": L, "b": B}, (B, L)),
    "chunk": ({"x": TALL, "parts": 3, "axis": 0}, (TALL, 3)),
    "clamp_max": ({"x": A, "high": 0.5}, (A, 0.5)),
    "complex": ({"x": A, "y": B}, (A, B)),
    "cumulative_trapezoid": ({"y": V}, (V,)),
    "diag_embed": ({"x": A}, (A,)),
    "diagonal_scatter": ({"x": A, "v": V, "n": 3}, (A, V)),
    "dist": ({"x": A, "y": B}, (A, B)),
    "erfc": ({"x": A}, (A,)),
    "frac": ({"x": 3 * A}, (3 * A,)),
    "hamming_window": ({"n": 9}, (9,)),
    "hann_window": ({"n": 9}, (9,)),
    "hardshrink": ({"x": A, "bound": 0.5}, (A, 0.5)),
    "histc": ({"x": A, "bins": 4, "low": -1, "high": 1}, (A, 4, -1, 1)),
    "index_add": ({"x": A, "axis": 0, "indices": AGAIN, "updates": B}, (A, 0, AGAIN, B)),
    "index_copy": ({"x": A, "axis": 0, "indices": ROWS, "updates": B[:2]}, (A, 0, ROWS, B[:2])),
    "index_select": ({"x": A, "axis": 1, "indices": AGAIN}, (A, 1, AGAIN)),
    "kaiser_window": ({"n": 9, "beta": 5.0}, (9, True, 5.0)),
    "lerp": ({"x": A, "y": B, "weight": 0.3}, (A, B, 0.3)),
    "logdet": ({"x": SYMMETRIC}, (SYMMETRIC,)),
    "masked_fill": ({"x": A, "mask": A > 0, "value": 2.0}, (A, A > 0, 2.0)),
    "masked_scatter": ({"x": A, "mask": A > 0, "values": B}, (A, A > 0, B)),
    "movedim": ({"x": X, "source": 0, "destination": 2}, (X, 0, 2)),
    "msort": ({"x": A}, (A,)),
    "narrow": ({"x": A, "start": 0, "length": 2}, (A, 1, 0, 2)),
    "pairwise_distance": ({"x": A, "y": B}, (A, B)),
    "polar": ({"r": A**2, "angle": B}, (A**2, B)),
    "renorm": ({"x": A, "maxnorm": 0.8}, (A, 2, 0, 0.8)),
    "repeat_interleave": ({"x": A, "repeats": AGAIN, "axis": 1}, (A, AGAIN, 1)),
    "rsub": ({"x": A, "y": B}, (A, B)),
    "scatter_add": (ADD, (TALL, 0, INDEX, UPDATES)),
    "split_with_sizes": (PARTS, (TALL, [1, 3, 2])),
    "std_mean": ({"x": A, "axis": 0}, (A, 0)),
    "swapdims": ({"x": X, "axis1": 0, "axis2": 2}, (X, 0, 2)),
    "take_along_dim": ({"x": TALL, "indices": INDEX, "axis": 0}, (TALL, INDEX, 0)),
    "tensor_split": ({"x": TALL, "parts": 4, "axis": 0}, (TALL, 4)),
    "threshold": ({"x": A, "bound": 0.2, "value": 7.0}, (A, 0.2, 7.0)),
    "trapz": ({"y": V, "x": W}, (V, W)),
    "unbind": ({"x": A, "axis": 1}, (A, 1)),
    "unique_consecutive": ({"x": np.array([1, 1, 2, 2, 1])}, (np.array([1, 1, 2, 2, 1]),)),
    "unsafe_chunk": ({"x": TALL, "parts": 3, "axis": 0}, (TALL, 3)),
    "unsafe_split": (PARTS, (TALL, 4)),
    "var_mean": ({"x": A, "axis": 0}, (A, 0)),
    "view_as_real": ({"x": A + 1j * B}, (A + 1j * B,)),
}
#: The same for methods, the array first.
METHODS = {
    "chunk": ({"x": TALL, "parts": 3, "axis": 0}, (TALL, 3)),
    "gather": (PUT, (TALL, 0, INDEX)),
    "hsplit": ({"x": TALL, "...": 2}, (TALL, 2)),
    "masked_scatter_": ({"x": A, "mask": A > 0, "values": B}, (A, A > 0, B)),
    "put_": ({"x": TALL, "indices": INDEX, "values": UPDATES}, (TALL, INDEX, UPDATES)),
    "scatter": (PUT, (TALL, 0, INDEX, UPDATES)),
    "scatter_": (PUT, (TALL, 0, INDEX, UPDATES)),
    "scatter_add_": (ADD, (TALL, 0, INDEX, UPDATES)),
    "split": (PARTS, (TALL, 4)),
    "tensor_split": ({"x": TALL, "parts": 4, "axis": 0}, (TALL, 4)),
    "unsafe_split_with_sizes": (PARTS, (TALL, [1, 3, 2])),
    "vsplit": ({"x": TALL, "...": [1, 4]}, (TALL, [1, 4])),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_pytorch(name):
    names, given = CALLS[name]
    check_equal(written(name, tables.FUNCTIONS[1], names), getattr(torch, name)(*as_torch(given)))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_pytorch(name):
    names, (x, *given) = METHODS[name]
    theirs = getattr(torch.from_numpy(x.copy()), name)(*as_torch(given))
    check_equal(written(name, tables.METHODS, names), theirs)


@pytest.mark.parametrize("table", [tables.FUNCTIONS[1], tables.METHODS], ids=["torch", "methods"])
def test_a_draw_of_zeros_and_ones_by_probabilities(table):
    p = np.array([0.0, 1.0, 0.25] * 10_000)
    found = written("bernoulli", table, {"x": p})
    assert found.dtype is ft.float64
    for i, wanted in enumerate([0.0, 1.0, 0.25]):
        assert found[i::3].mean().item() == pytest.approx(wanted, abs=0.02)


def written(name, table, names):
    """The value of what a row says to write: its code, of a statement what it assigns."""
    way = tables.find(name, table).way.removeprefix("write ").partition("; ")[0]
    code = way.removeprefix("x = ").replace("...", repr(names.get("...")))
    ours = {k: ft.asarray(v) if isinstance(v, np.ndarray) else v for k, v in names.items()}
    return eval(code, {"ft": ft, "math": math, **ours})


def as_torch(xs):
    return [torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in xs]


def check_equal(found, theirs):
    if isinstance(theirs, (list, tuple)):
        assert len(found) == len(theirs)
        for one, other in zip(found, theirs):
            check_equal(one, other)
        return
    np.testing.assert_allclose(np.asarray(found), theirs.numpy(), rtol=1e-5, atol=1e-5)
