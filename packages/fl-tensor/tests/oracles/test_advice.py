"""What the tables of foreign names say to write computes what PyTorch does."""

from __future__ import annotations

import numpy as np
import pytest

import fl_tensor as ft
from fl_tensor.foreign_names import tables

torch = pytest.importorskip("torch")

FUNCTIONS = tables.FUNCTIONS[1]
X = np.arange(24.0).reshape(6, 4) % 7
V = np.arange(12.0).reshape(3, 4) + 0.5
INDEX = np.array([[0, 2, 5, 2], [0, 2, 1, 3], [4, 1, 0, 2]])
MASK = X > 3
MANY = np.arange(24.0)
#: What the ways of the rows call their operands.
NAMES = {"x": X, "i": INDEX, "indices": INDEX, "j": np.arange(4), "v": V, "updates": V}
NAMES |= {"mask": MASK, "values": V, "axis": 0, "parts": 3, "size": 4, "sizes": [1, 3, 2]}
#: The arguments of PyTorch's call, without ``x``.
CALLS = {
    "tensor_split": (4,),
    "chunk": (3,),
    "unsafe_chunk": (3,),
    "unsafe_split": (4,),
    "unsafe_split_with_sizes": ([1, 3, 2],),
    "split_with_sizes": ([1, 3, 2],),
    "scatter_add": (0, INDEX, V),
    "masked_scatter": (MASK, MANY),
    "std_mean": (0,),
    "var_mean": (0,),
}
METHODS = {
    **{name: CALLS[name] for name in list(CALLS)[:-2]},
    "gather": (0, INDEX),
    "hsplit": (2,),
    "isreal": (),
    "masked_scatter_": (MASK, MANY),
    "put": (INDEX, V),
    "put_": (INDEX, V),
    "scatter": (0, INDEX[:, :], V),
    "scatter_": (0, INDEX, V),
    "scatter_add_": (0, INDEX, V),
    "split": (4,),
    "vsplit": ([1, 4],),
}
#: What a row calls otherwise for one name.
OTHERWISE = {"tensor_split": {"parts": 4}, "masked_scatter": {"values": MANY}}
OTHERWISE |= {"masked_scatter_": {"values": MANY}, "hsplit": {"...": 2}, "vsplit": {"...": [1, 4]}}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_pytorch(name):
    theirs = getattr(torch, name)(as_torch(X), *map(as_torch, CALLS[name]))
    check_equal(written(name, FUNCTIONS), theirs)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_pytorch(name):
    theirs = getattr(as_torch(X), name)(*map(as_torch, METHODS[name]))
    check_equal(written(name, tables.METHODS), theirs)


def written(name, table):
    """The value of what a row says to write: its code, of a statement what it assigns."""
    way = tables.find(name, table).way.removeprefix("write ").partition("; ")[0]
    other = OTHERWISE.get(name, {})
    code = way.removeprefix("x = ").replace("...", repr(other.get("...")))
    given = NAMES | other
    names = {k: ft.asarray(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    return eval(code, {"ft": ft, **names})


def as_torch(x):
    return torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x


def check_equal(found, theirs):
    if isinstance(theirs, (list, tuple)):
        assert len(found) == len(theirs)
        for one, other in zip(found, theirs):
            check_equal(one, other)
        return
    np.testing.assert_allclose(np.asarray(found), theirs.numpy())
